"""What the Telegram channel is told, checked and free of the configuration's form."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.config.schema import TelegramConfig, TelegramWebhookConfig
from nanobot.errors import UsageError
from nanobot.utils.translation import N_, _

#: The channel part of the addresses of its chats.
CHANNEL = "telegram"
GroupPolicy = Literal["mention", "open", "off"]

_TELEGRAM = "https://api.telegram.org"
_TOKEN = re.compile(r"\d{3,20}:[A-Za-z0-9_-]{20,}")
#: The id of a person as Telegram writes it.
_PERSON = re.compile(r"[1-9][0-9]{0,15}")
#: Ids that many share: of admins who write anonymously, of who writes as a channel, and of Telegram's own messages.
_SHARED = frozenset(("1087968824", "136817688", "777000"))
EVERYBODY = "*"
_NO_URL = N_(
    "channels.telegram.webhook: it has no url, so updates are fetched as without it. Give it the public https address "
    "that leads here, or take it out."
)
_NOBODY = N_(
    "channels.telegram.allowFrom: {entry} is no id of a person, such as the number that /whoami shows; it lets nobody "
    "in. User names change hands, and groups are let in by their owner with /group on."
)


class TelegramSettings(Struct, frozen=True):
    """`base_url` and `base_file_url` are as `telegram.Bot` wants them; `proxy` is the one to use, None for none."""

    token: str
    allow_from: tuple[str, ...] = ()
    base_url: str = f"{_TELEGRAM}/bot"
    base_file_url: str = f"{_TELEGRAM}/file/bot"
    own_server: bool = False
    proxy: str | None = None
    webhook: TelegramWebhookConfig | None = None

    @property
    def bot_id(self) -> int:
        """The bot's id, which begins its token."""
        return int(self.token.partition(":")[0])

    @property
    def channel(self) -> str:
        """The name under which this bot's updates stand in the ledger."""
        return f"telegram:{self.bot_id}"


def settings_of(config: TelegramConfig, env: Mapping[str, str]) -> TelegramSettings:
    """Check the keys of `channels.telegram`. Raises `UsageError` with what to do."""
    token = config.token.strip()
    if not token:
        raise UsageError(
            _(
                "Telegram needs the token of a bot. Ask @BotFather for one with /newbot, and put it in "
                "channels.telegram.token."
            )
        )
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            _(
                "channels.telegram.token is not a bot token. It looks like 123456789:AAE…, as @BotFather shows it. "
                "Copy it again, in one piece."
            )
        )
    base = config.api_base.rstrip("/") or _TELEGRAM
    files = config.api_file_base.rstrip("/") or f"{base}/file"
    return TelegramSettings(
        token,
        tuple(dict.fromkeys(one.strip() for one in config.allow_from if one.strip())),
        f"{base}/bot",
        f"{files}/bot",
        own_server=base != _TELEGRAM,
        proxy=config.proxy or proxy_from(env, base),
        webhook=_webhook(config),
    )


def doubts(config: TelegramConfig) -> tuple[str, ...]:
    """What is set and does nothing, a sentence each."""
    hook = config.webhook
    unused = hook.enabled is not False and hook != TelegramWebhookConfig() and not hook.url
    return (*judged_ids(config.allow_from)[1], *([_(_NO_URL)] if unused else []))


def judged_ids(allow_from: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Who stands in `allowFrom`, by id; and for each entry that is nobody's id, a sentence that says so."""
    allow_from = tuple(filter(None, map(str.strip, allow_from)))
    people = frozenset(one for one in allow_from if _PERSON.fullmatch(one) and int(one) < 2**52) - _SHARED
    return people, tuple(_(_NOBODY, entry=one) for one in allow_from if one not in {*people, EVERYBODY})


def _webhook(config: TelegramConfig) -> TelegramWebhookConfig | None:
    hook = config.webhook
    if not hook.url or hook.enabled is False:
        return None
    if not hook.url.startswith("https://"):
        raise UsageError(
            _("channels.telegram.webhook.url must begin with https://: Telegram delivers to nothing else.")
        )
    return hook


def proxy_from(env: Mapping[str, str], base: str) -> str | None:
    """The proxy that the environment names for `base`. Raises `UsageError` for one that cannot be used, such as
    socks4."""
    try:
        return Proxies(env=env).of(base)
    except UnusableProxy as error:
        raise UsageError(_("{error}, or set channels.telegram.proxy.", error=error)) from None


def is_local(url: str) -> bool:
    """Whether an address leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host.casefold() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
