"""Speech to text: by any endpoint of OpenAI's form, or by a command on this machine."""

import asyncio
import contextlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from nanobot.utils.processes import end_session
from nanobot.utils.text import sendable, shorten, squeeze, strip_unsafe

HOW_TO_ENABLE = (
    "To have voice messages written down, set channels.telegram.transcription.command (a program on this machine, such "
    "as whisper) or transcription.apiKey with apiBase (an endpoint of OpenAI's form)."
)
KEPT_PRIVATE = "This chat has /privacy on, so it was not sent to a transcription service."
#: Seconds for one transcription.
SECONDS = 180.0
#: What the endpoints take at most, in bytes.
UPLOAD_LIMIT = 25_000_000
#: Bytes of a program's output that are read.
_OUTPUT_LIMIT = 1_000_000
#: Characters of a transcript.
_TEXT_LIMIT = 60_000
_TIMED = re.compile(r"(?m)^\[[\d:.]+ --> [\d:.]+\][ \t]*(.*)$")


class Transcript(Struct, frozen=True):
    """What was said, or the reason why it is not known (`problem`, a sentence)."""

    text: str = ""
    problem: str = ""


class Transcriber(Protocol):
    @property
    def local(self) -> bool:
        """True where the sound stays on this machine."""

    async def transcribe(self, path: Path, mime: str) -> Transcript:
        """The words of a sound file. Bounded in time; never raises for what goes wrong."""


class Endpoint(Struct, frozen=True):
    """An address of the form `https://host/v1`, to which `/audio/transcriptions` is added."""

    base: str
    key: str = ""
    model: str = ""
    name: str = "the transcription service"


class NoTranscriber:
    """Stands in where none is configured."""

    local = True

    async def transcribe(self, path: Path, mime: str) -> Transcript:
        del path, mime
        return Transcript(problem=HOW_TO_ENABLE)


class EndpointTranscriber:
    """Sends the sound to an endpoint. `language` is a two-letter code or empty."""

    def __init__(self, endpoint: Endpoint, client: httpx.AsyncClient, *, language: str = "") -> None:
        self._endpoint = endpoint
        self._client = client
        self._language = language

    @property
    def local(self) -> bool:
        host = urlsplit(self._endpoint.base).hostname or ""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
        return host == "localhost"

    async def transcribe(self, path: Path, mime: str) -> Transcript:
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            if size > UPLOAD_LIMIT:
                return Transcript(
                    problem=f"It is too long to be written down ({size / 1e6:.0f} MB, 25 MB is the limit)."
                )
            body = await asyncio.to_thread(path.read_bytes)
            async with asyncio.timeout(SECONDS):
                return await self._ask(path, mime, body)
        except TimeoutError:
            return Transcript(problem=f"{self._capital} did not answer within {SECONDS:.0f} s.")
        except httpx.HTTPError as error:
            return Transcript(problem=f"{self._capital} could not be reached ({type(error).__name__}).")
        except OSError as error:
            return Transcript(problem=f"The sound file cannot be read ({error.strerror}).")

    async def _ask(self, path: Path, mime: str, body: bytes) -> Transcript:
        if not sendable(self._endpoint.key):
            return Transcript(problem=f"No request can carry the key of {self._endpoint.name}. Copy it again.")
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
            return Transcript(problem=self._refusal(response))
        try:
            told: object = response.json()
        except ValueError:
            told = None
        text = told.get("text") if isinstance(told, dict) else None
        if not isinstance(text, str):
            return Transcript(problem=f"{self._capital} answered with something that is no transcript.")
        return _spoken(text)

    def _refusal(self, response: httpx.Response) -> str:
        if response.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            return f"{self._capital} refused the key. Check channels.telegram.transcription.apiKey."
        said = ""
        with contextlib.suppress(ValueError):
            told: object = response.json()
            error = told.get("error") if isinstance(told, dict) else None
            message = error.get("message") if isinstance(error, dict) else error
            said = f": {shorten(squeeze(strip_unsafe(message)), 160)}" if isinstance(message, str) else ""
        return f"{self._capital} answered with status {response.status_code}{said}."

    @property
    def _capital(self) -> str:
        return self._endpoint.name[:1].upper() + self._endpoint.name[1:]


class CommandTranscriber:
    """Runs a program. The word `{file}` in its arguments is the sound file; its standard output is the transcript."""

    local = True

    def __init__(self, command: Sequence[str], *, seconds: float = SECONDS) -> None:
        words = tuple(command)
        self._command = words if any("{file}" in word for word in words) else (*words, "{file}")
        self._seconds = seconds
        self._one = asyncio.Semaphore(1)  # speech models fill a machine

    async def transcribe(self, path: Path, mime: str) -> Transcript:
        del mime
        words = [word.replace("{file}", str(path)) for word in self._command]
        try:
            async with self._one:
                return await self._run(words)
        except OSError as error:
            return Transcript(problem=f"{words[0]} cannot be started ({error.strerror}).")

    async def _run(self, words: Sequence[str]) -> Transcript:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._seconds):
                out, error = await process.communicate()
        except TimeoutError:
            await end_session(process)
            return Transcript(problem=f"{words[0]} took longer than {self._seconds:.0f} s.")
        except asyncio.CancelledError:
            await end_session(process)
            raise
        if process.returncode:
            last = squeeze(strip_unsafe(error.decode("utf-8", "replace").strip().rpartition("\n")[2]))
            return Transcript(problem=f"{words[0]} failed with code {process.returncode}: {shorten(last, 160)}")
        return _spoken(_without_times(out[:_OUTPUT_LIMIT].decode("utf-8", "replace")))


def _without_times(text: str) -> str:
    """The words alone of lines such as `[00:01.000 --> 00:04.000] Hello`; what else was printed is no speech."""
    timed = _TIMED.findall(text)
    return "\n".join(line.strip() for line in timed) if timed else text


def _spoken(text: str) -> Transcript:
    text = strip_unsafe(text).strip()[:_TEXT_LIMIT]
    return Transcript(text) if text else Transcript(problem="No words were heard in it.")


#: Vendors of models that write speech down as well: their address and model, and the variable with their key.
VENDORS: Mapping[str, tuple[str, str, str]] = {
    "openai": ("https://api.openai.com/v1", "gpt-4o-mini-transcribe", "OPENAI_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "whisper-large-v3-turbo", "GROQ_API_KEY"),
}


class VoiceSettings(Struct, frozen=True):
    """What `channels.telegram.transcription` says. `keys` are the keys of model vendors by name, from `providers`."""

    command: tuple[str, ...] = ()
    api_base: str = ""
    api_key: str = ""
    model: str = ""
    language: str = ""
    keys: Mapping[str, str] | None = None


def endpoint_of(settings: VoiceSettings, env: Mapping[str, str] | None = None) -> Endpoint | None:
    """The configured endpoint, else that of a model vendor whose key is there anyway; None where a command is set."""
    if settings.command:
        return None
    if settings.api_base or settings.api_key:
        base, model, _ = VENDORS["openai"]
        usual = "" if settings.api_base else model
        return Endpoint(settings.api_base or base, settings.api_key, settings.model or usual)
    for name, (base, model, variable) in VENDORS.items():
        key = (settings.keys or {}).get(name) or (env or {}).get(variable, "")
        if key:
            return Endpoint(base, key, settings.model or model, f"{name}'s transcription")
    return None


def choose_transcriber(
    settings: VoiceSettings, client: httpx.AsyncClient, env: Mapping[str, str] | None = None
) -> Transcriber:
    """The command, else an endpoint, else none. `client` reaches the endpoint and is closed by who made it."""
    if settings.command:
        return CommandTranscriber(settings.command)
    endpoint = endpoint_of(settings, env)
    if endpoint is None:
        return NoTranscriber()
    return EndpointTranscriber(endpoint, client, language=settings.language)
