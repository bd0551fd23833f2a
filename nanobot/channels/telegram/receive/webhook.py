"""Updates that Telegram brings: a small HTTP server behind the operator's reverse proxy, feeding the same inbox."""

import asyncio
import hmac
import json
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from loguru import logger

from nanobot.channels.telegram.bot import ALLOWED_UPDATES, TelegramLine
from nanobot.channels.telegram.read.incoming import number_of
from nanobot.channels.telegram.receive.poller import Accept, Health, reached
from nanobot.config.schema import TelegramWebhookConfig
from nanobot.errors import ChannelError, StoreError
from nanobot.utils.logs import add_secrets
from nanobot.utils.translation import N_, _

_HEAD_BYTES = 16_384
_BODY_BYTES = 4_000_000
#: Seconds for one request, from its first byte to our answer.
_DEADLINE = 30.0
_NOT_SET = N_("the webhook is not set yet ({why})")
_HEADER = "x-telegram-bot-api-secret-token"
_WORDS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 413: "Too Large", 503: "Unavailable"}


class Webhook:
    """`run` brings updates. `accept` returns after the update is committed; only then Telegram hears 200."""

    def __init__(
        self,
        settings: TelegramWebhookConfig,
        line: TelegramLine,
        accept: Accept,
        health: Health,
        *,
        begin: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._line = line
        self._accept = accept
        self._health = health
        self._begin = begin
        self._secret = settings.secret or secrets.token_urlsafe(32)
        self._path = urlsplit(settings.url).path or "/"
        add_secrets((self._secret,))

    async def run(self) -> None:
        """Listen until cancelled. Raises `ChannelError` where the port is taken or Telegram refuses the token."""
        try:
            server = await asyncio.start_server(
                self._serve, self._settings.host, self._settings.port, limit=_HEAD_BYTES, start_serving=False
            )
        except OSError as error:
            raise _not_listening(self._settings, error) from error
        async with server:
            await self._begin()
            await server.start_serving()
            await reached(self._register, self._health, _NOT_SET)
            self._health.works("webhook")
            await server.serve_forever()

    async def _register(self) -> None:
        """Tell Telegram where to deliver. Raises `TelegramError`."""
        await self._line.bot.set_webhook(
            self._settings.url,
            secret_token=self._secret,
            allowed_updates=list(ALLOWED_UPDATES),
            drop_pending_updates=False,
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_DEADLINE):
                status = await self._answer(reader)
                head = f"HTTP/1.1 {status} {_WORDS[status]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                writer.write(head.encode())
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            logger.info("a request to the webhook broke off")
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> int:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, _, rest = head[0].partition(" ")
        headers = {
            name.strip().casefold(): value.strip() for name, _, value in (one.partition(":") for one in head[1:])
        }
        if method != "POST" or urlsplit(rest.partition(" ")[0]).path != self._path:
            return 404
        if not hmac.compare_digest(headers.get(_HEADER, "").encode(), self._secret.encode()):
            return 403
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > _BODY_BYTES:
            return 413 if length.isdigit() else 400
        return await self._take(await reader.readexactly(int(length)))

    async def _take(self, body: bytes) -> int:
        try:
            update: object = json.loads(body)
        except (RecursionError, ValueError):
            return 400
        if not isinstance(update, dict) or not number_of(update.get("update_id")):
            return 400
        try:
            await self._accept([update])
        except StoreError as error:
            logger.error("an update could not be kept and was not confirmed: {}", error)
            return 503
        return 200


async def judge_listening(settings: TelegramWebhookConfig) -> None:
    """Raise `ChannelError` where nothing can be listened to at the address, on whichever port: that of the
    configuration may be in use by a gateway that runs."""
    try:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), settings.host, 0)
    except OSError as error:
        raise _not_listening(settings, error) from error
    server.close()
    await server.wait_closed()


def _not_listening(settings: TelegramWebhookConfig, error: OSError) -> ChannelError:
    why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
    place = f"{settings.host}:{settings.port}"
    return ChannelError(
        _(
            "The webhook cannot listen on {place}: {why}. Change channels.telegram.webhook.host or port.",
            place=place,
            why=why,
        )
    )
