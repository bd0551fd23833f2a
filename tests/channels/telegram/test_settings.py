"""The keys of channels.telegram: what they mean, and what is said about wrong ones."""

import pytest

from nanobot.channels.telegram.settings import TelegramSettings, proxy_from, settings_of
from nanobot.config.schema import TelegramConfig, TelegramWebhookConfig
from nanobot.errors import UsageError
from tests.fakes.sections import section
from tests.tables import table

TOKEN = "123456789:AAE-abcdefghijklmnopqrstuvwxyz012345"
TELEGRAM = "https://api.telegram.org"


def made(env: dict[str, str] | None = None, **keys: object) -> TelegramSettings:
    return settings_of(section(TelegramConfig, {"token": TOKEN, **keys}), env or {})


def test_addresses_are_made_for_the_client_library() -> None:
    usual = made()
    assert (usual.base_url, usual.base_file_url) == (f"{TELEGRAM}/bot", f"{TELEGRAM}/file/bot")
    assert (usual.bot_id, usual.channel, usual.own_server) == (123456789, "telegram:123456789", False)
    own = made(apiBase="http://127.0.0.1:8081/")
    assert (own.base_url, own.base_file_url) == ("http://127.0.0.1:8081/bot", "http://127.0.0.1:8081/file/bot")
    assert own.own_server
    files = made(apiBase="https://api.example.org", apiFileBase="https://files.example.org/x")
    assert files.base_file_url == "https://files.example.org/x/bot"


@pytest.mark.parametrize("token", ["", "  ", "987654321", "bot987654321:AAE", "987654321:AAE abc", TOKEN + " x"])
def test_a_token_that_cannot_be_one_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(UsageError, match="@BotFather") as caught:
        settings_of(TelegramConfig(token=token), {})
    assert not token.strip() or token.strip() not in str(caught.value)


def test_switches_of_older_files_are_understood() -> None:
    def read(**keys: object) -> TelegramConfig:
        return section(TelegramConfig, keys)

    assert (read(streaming=True).streaming, read(streaming=False).streaming) == ("edit", "off")
    assert (read(hints=True).hints, read(hints=False).hints) == ("live", "off")
    assert (read(streaming="draft").streaming, read(hints="keep").hints) == ("draft", "keep")


@table(
    "env base expected",
    ({}, TELEGRAM, None),
    ({"HTTPS_PROXY": "http://p:1"}, TELEGRAM, "http://p:1"),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "telegram.org"}, TELEGRAM, None),
    ({"HTTP_PROXY": "http://p:1"}, "http://127.0.0.1:8081", None),
    ({"ALL_PROXY": "http://p:1"}, "http://localhost:8081", None),
    ({"HTTP_PROXY": "http://p:1"}, "http://bot-api.example:8081", "http://p:1"),
)
def test_the_environment_names_a_proxy(env: dict[str, str], base: str, expected: str | None) -> None:
    assert proxy_from(env, base) == expected


def test_a_configured_proxy_wins_and_one_that_cannot_be_used_is_named() -> None:
    env = {"ALL_PROXY": "socks4://p:1"}
    assert made(env, proxy="socks5h://mine:1080").proxy == "socks5h://mine:1080"
    with pytest.raises(
        UsageError, match=r"ALL_PROXY cannot be used: it begins with socks4://.*channels\.telegram\.proxy"
    ):
        made(env)


def test_a_webhook_needs_an_https_address() -> None:
    with pytest.raises(UsageError, match="https://"):
        settings_of(TelegramConfig(token=TOKEN, webhook=TelegramWebhookConfig(url="http://bot.example.org")), {})
    assert made().webhook is None
