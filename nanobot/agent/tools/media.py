"""Files that a model or a person is given, kept under names made from what they hold."""

import hashlib
from pathlib import Path

from nanobot.config.paths import replace_file
from nanobot.messages import Media


def keep_media(folder: Path, data: bytes, mime: str, *, name: str = "", ending: str = "") -> Media:
    """A file of `folder` with this content. `name` is what people see, `ending` begins with a dot; where they are empty
    both follow from the rest. Waits for the disk. Raises `OSError`."""
    ending = ending or f".{mime.partition('/')[2].replace('jpeg', 'jpg')}"
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}{ending}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, data)  # a part of it, as a full disk leaves one, would be taken for the whole ever after
    return Media(str(path), mime, name or path.name, len(data))
