"""Builds the intake of the Telegram channel from the configuration."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import httpx
from msgspec import Struct

from nanobot.channels.documents import Documents
from nanobot.channels.telegram.intake import IntakeSettings, Privacy, TelegramIntake
from nanobot.channels.telegram.media import MediaFolder
from nanobot.channels.telegram.seams import Line, Say
from nanobot.channels.telegram.settings import TelegramSettings, proxy_from
from nanobot.channels.telegram.voice import Transcriber, VoiceSettings, choose_transcriber, endpoint_of
from nanobot.config.schema import Config
from nanobot.security.network import no_cookies


class Reception(Struct, frozen=True):
    """The intake and what is to be closed after it."""

    intake: TelegramIntake
    close: tuple[Callable[[], Awaitable[None]], ...]


class Wishes(Struct, frozen=True):
    """What the intake asks of the program: showing a line, and the privacy of a chat."""

    say: Say
    privacy: Privacy | None = None


def receive(
    config: Config, settings: TelegramSettings, env: Mapping[str, str], line: Line, media: Path, wishes: Wishes
) -> Reception:
    """Opens no connection. Files come the way that Telegram is reached, speech goes the way to its own endpoint."""
    files = httpx.AsyncClient(proxy=settings.proxy, cookies=no_cookies(), trust_env=False, follow_redirects=False)
    transcriber, speech = _transcriber(config, env)
    telegram, documents = config.channels.telegram, Documents()
    intake = TelegramIntake(
        line,
        MediaFolder(media, files, own_server=settings.own_server),
        IntakeSettings(telegram.join_seconds, telegram.group_context),
        transcriber=transcriber,
        say=wishes.say,
        documents=documents,
        privacy=wishes.privacy,
    )
    return Reception(intake, (files.aclose, speech.aclose, documents.aclose))


def _transcriber(config: Config, env: Mapping[str, str]) -> tuple[Transcriber, httpx.AsyncClient]:
    wanted = config.channels.telegram.transcription
    voice = VoiceSettings(
        wanted.command,
        wanted.api_base,
        wanted.api_key.get_secret_value(),
        wanted.model,
        wanted.language,
        {name: one.api_key.get_secret_value() for name, one in config.providers.items()},
    )
    endpoint = endpoint_of(voice, env)
    proxy = proxy_from(env, endpoint.base) if endpoint is not None else None
    client = httpx.AsyncClient(proxy=proxy, cookies=no_cookies(), trust_env=False, follow_redirects=False)
    return choose_transcriber(voice, client, env), client
