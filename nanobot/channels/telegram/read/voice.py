"""Speech to text: by any endpoint of OpenAI's form, or by a command on this machine."""

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
from msgspec import Struct

from nanobot.channels.telegram.settings import is_local, proxy_from
from nanobot.config.schema import TranscriptionConfig
from nanobot.utils.connections import reason_of
from nanobot.utils.processes import run_program
from nanobot.utils.text import one_line, sendable, shorten, strip_unsafe
from nanobot.utils.translation import N_, _
from nanobot.web.client import trusted_client

HOW_TO_ENABLE = N_(
    "To have voice messages written down, set channels.telegram.transcription.command (a program on this machine, such "
    "as whisper) or transcription.apiKey with apiBase (an endpoint of OpenAI's form)."
)
KEPT_PRIVATE = N_("This chat has /privacy on, so it was not sent to a transcription service.")
#: Seconds for one transcription.
SECONDS = 180.0
#: What the endpoints take at most, in bytes.
UPLOAD_LIMIT = 25_000_000
#: Bytes of a program's output that are read.
_OUTPUT_LIMIT = 1_000_000
#: Characters of a transcript.
_TEXT_LIMIT = 60_000
_TIMED = re.compile(r"(?m)^\[[\d:.]+ --> [\d:.]+\][ \t]*(.*)$")


class Transcription(Struct, frozen=True):
    """What was said, or the reason why it is not known (`problem`, a sentence)."""

    text: str = ""
    problem: str = ""


class SpeechService(Struct, frozen=True):
    """An address of the form `https://host/v1`, to which `/audio/transcriptions` is added."""

    base: str
    key: str = ""
    model: str = ""
    vendor: str = ""


class EndpointTranscriber:
    """Sends the sound to an endpoint. `language` is a two-letter code or empty."""

    def __init__(self, endpoint: SpeechService, client: httpx.AsyncClient, *, language: str = "") -> None:
        self._endpoint = endpoint
        self._client = client
        self._language = language

    async def aclose(self) -> None:
        await self._client.aclose()

    @property
    def local(self) -> bool:
        """True where the sound stays on this machine."""
        return is_local(self._endpoint.base)

    async def transcribe(self, path: Path, mime: str) -> Transcription:
        """The words of a sound file. Bounded in time; never raises for what goes wrong."""
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            if size > UPLOAD_LIMIT:
                return Transcription(
                    problem=_("It is too long to be written down ({size:.0f} MB, 25 MB is the limit).", size=size / 1e6)
                )
            body = await asyncio.to_thread(path.read_bytes)
            async with asyncio.timeout(SECONDS):
                return await self._ask(path, mime, body)
        except TimeoutError:
            return Transcription(
                problem=_("{service} did not answer within {seconds:.0f} s.", service=self._name, seconds=SECONDS)
            )
        except httpx.HTTPError as error:
            why = reason_of(error)
            return Transcription(problem=_("{service} could not be reached ({error}).", service=self._name, error=why))
        except OSError as error:
            return Transcription(problem=_("The sound file cannot be read ({error}).", error=error.strerror))

    async def _ask(self, path: Path, mime: str, body: bytes) -> Transcription:
        if not sendable(self._endpoint.key):
            vendor = self._endpoint.vendor
            theirs = _("No request can carry the key of {vendor}'s transcription. Copy it again.", vendor=vendor)
            ours = _("No request can carry the key of the transcription service. Copy it again.")
            return Transcription(problem=theirs if vendor else ours)
        suffix = {".oga": ".ogg", "": ".ogg"}.get(path.suffix, path.suffix)
        form = {"model": self._endpoint.model or "whisper-1", "response_format": "json"}
        if self._language:
            form["language"] = self._language
        login = {"Authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}
        response = await self._client.post(
            f"{self._endpoint.base.rstrip('/')}/audio/transcriptions",
            data=form,
            files={"file": (f"voice{suffix}", body, mime)},
            headers=login,
            timeout=httpx.Timeout(SECONDS, connect=10.0),
        )
        if response.status_code != httpx.codes.OK:
            return Transcription(problem=self._refusal(response))
        try:
            told: object = response.json()
        except ValueError:
            told = None
        text = told.get("text") if isinstance(told, dict) else None
        if not isinstance(text, str):
            return Transcription(
                problem=_("{service} answered with something that is no transcript.", service=self._name)
            )
        return _spoken(text)

    def _refusal(self, response: httpx.Response) -> str:
        status = response.status_code
        if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            return _("{service} refused the key. Check channels.telegram.transcription.apiKey.", service=self._name)
        with contextlib.suppress(ValueError):
            told: object = response.json()
            error = told.get("error") if isinstance(told, dict) else None
            message = error.get("message") if isinstance(error, dict) else error
            if isinstance(message, str):
                why = one_line(message, 160)
                return _("{service} answered with status {status}: {why}.", service=self._name, status=status, why=why)
        return _("{service} answered with status {status}.", service=self._name, status=status)

    @property
    def _name(self) -> str:
        vendor = self._endpoint.vendor.capitalize()
        return _("{vendor}'s transcription", vendor=vendor) if vendor else _("The transcription service")


class CommandTranscriber:
    """Runs a program. The word `{file}` in its arguments is the sound file; its standard output is the transcript."""

    local = True

    def __init__(self, command: Sequence[str], *, seconds: float = SECONDS) -> None:
        words = tuple(command)
        self._command = words if any("{file}" in word for word in words) else (*words, "{file}")
        self._seconds = seconds
        self._one = asyncio.Semaphore(1)  # speech models fill a machine

    async def aclose(self) -> None:
        """Nothing is left of a program that has ended."""

    async def transcribe(self, path: Path, mime: str) -> Transcription:
        del mime
        words = [word.replace("{file}", str(path)) for word in self._command]
        try:
            async with self._one:
                ended = await run_program(words, self._seconds)
        except TimeoutError:
            return Transcription(
                problem=_("{program} took longer than {seconds:.0f} s.", program=words[0], seconds=self._seconds)
            )
        except OSError as error:
            return Transcription(
                problem=_("{program} cannot be started ({error}).", program=words[0], error=error.strerror)
            )
        if ended.code:
            last = one_line(ended.last_words)
            why = _(
                "{program} failed with code {code}: {last}", program=words[0], code=ended.code, last=shorten(last, 160)
            )
            return Transcription(problem=why)
        return _spoken(_without_times(ended.out[:_OUTPUT_LIMIT].decode("utf-8", "replace")))


def _without_times(text: str) -> str:
    """The words alone of lines such as `[00:01.000 --> 00:04.000] Hello`; what else was printed is no speech."""
    timed = _TIMED.findall(text)
    return "\n".join(line.strip() for line in timed) if timed else text


def _spoken(text: str) -> Transcription:
    text = strip_unsafe(text).strip()[:_TEXT_LIMIT]
    return Transcription(text) if text else Transcription(problem=_("No words were heard in it."))


#: Vendors of models that write speech down as well: their address and model, and the variable with their key.
VENDORS: Mapping[str, tuple[str, str, str]] = {
    "openai": ("https://api.openai.com/v1", "gpt-4o-mini-transcribe", "OPENAI_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "whisper-large-v3-turbo", "GROQ_API_KEY"),
}


Transcriber = EndpointTranscriber | CommandTranscriber


def transcriber_of(
    wanted: TranscriptionConfig, keys: Mapping[str, str], env: Mapping[str, str] | None = None
) -> Transcriber | None:
    """The command, else the configured endpoint, else that of a model vendor whose key is there anyway; else none.

    `keys` are the keys of model vendors by name. Raises `UsageError` for a proxy that cannot be used.
    """
    if not wanted.enabled:
        return None
    if wanted.command:
        return CommandTranscriber(wanted.command)
    endpoint = _endpoint(wanted, keys, env or {})
    if endpoint is None:
        return None
    client = trusted_client(proxy_from(env or {}, endpoint.base))
    return EndpointTranscriber(endpoint, client, language=wanted.language)


def _endpoint(wanted: TranscriptionConfig, keys: Mapping[str, str], env: Mapping[str, str]) -> SpeechService | None:
    if wanted.api_base or wanted.api_key:
        base, model, _ = VENDORS["openai"]
        usual = "" if wanted.api_base else model
        return SpeechService(wanted.api_base or base, wanted.api_key, wanted.model or usual)
    for name, (base, model, variable) in VENDORS.items():
        key = keys.get(name) or env.get(variable, "")
        if key and wanted.provider in {"", name}:
            return SpeechService(base, key, wanted.model or model, name)
    return None
