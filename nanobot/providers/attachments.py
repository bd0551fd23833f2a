"""Files of a message on their way to a model: images as base64 read at this moment, everything else as a plain note."""

import base64
from collections.abc import Iterable
from pathlib import Path

from nanobot.messages import Media, Text, UserPart
from nanobot.providers.base import Request

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
IMAGE_LIMIT = 3_750_000
"""Bytes of a file: 5 MB as base64, the smallest limit among the vendors (Anthropic)."""
PDF_TYPE = "application/pdf"
PDF_LIMIT = 10_000_000


def has_media(request: Request) -> bool:
    """True when files must be read to write this request."""
    return any(isinstance(part, Media) for message in request.messages for part in message.content)


def is_image(part: Media) -> bool:
    return part.mime.startswith("image/")


def file_data(part: Media) -> str:
    """The file as base64, or an empty text where it cannot be sent as it is."""
    pdf = part.mime == PDF_TYPE and part.inline
    if part.mime not in IMAGE_TYPES and not pdf:
        return ""
    path = Path(part.path)
    try:
        if path.stat().st_size > (PDF_LIMIT if pdf else IMAGE_LIMIT):
            return ""
        return base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError:
        return ""


def note(part: Media, *, vision: bool) -> str:
    """One plain line in place of a file that the model does not get."""
    name = part.name or Path(part.path).name
    if part.mime == PDF_TYPE and part.inline:
        return f"[file: {name}, a PDF without text, cannot be viewed by this model]"
    if not is_image(part):
        return f"[file: {name} ({part.mime}), saved at {part.path}]"
    if not vision:
        return f"[image: {name}, cannot be viewed by this model]"
    if not Path(part.path).is_file():
        return f"[image: {name}, the file is gone]"
    return f"[image: {name}, cannot be sent: {part.mime}, {IMAGE_LIMIT / 1e6:.2f} MB is the limit]"


def readable(parts: Iterable[UserPart], *, vision: bool, pdf: bool = False) -> list[tuple[str, str, str]]:
    """The parts as `(kind, value, mime)`: kind `text` with its text, `image` or `pdf` with base64 data."""
    result: list[tuple[str, str, str]] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text:
                result.append(("text", part.text, ""))
        elif (pdf if part.mime == PDF_TYPE else vision) and (data := file_data(part)):
            result.append(("pdf" if part.mime == PDF_TYPE else "image", data, part.mime))
        else:
            result.append(("text", note(part, vision=vision), ""))
    return result
