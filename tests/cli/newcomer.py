"""A newcomer at `nanobot onboard`: answers its questions in a pseudo-terminal, against services on loopback.

::

    async with Services() as services:
        with newcomer(command, services.env(tmp_path)) as terminal:
            await answered(terminal, "1 of 3", KEY)
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from nanobot.providers.scripted import Call
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.search_apis import SearchApis
from tests.fakes.telegram_server import TOKEN, TelegramServer, User

#: A key in the form of Anthropic's, and one that the service refuses.
KEY, WRONG_KEY = "sk-ant-api03-FAKE-for-tests-0123456789", "sk-ant-api03-WRONG-for-tests-0123456789"
#: A token in the right form of a bot that is not there.
WRONG_TOKEN = "999999:FAKE-token_for-tests-0123456789abcdef"
ANSWER = "I am nanobot. Ask me anything."


class Services(AsyncExitStack):
    """A model, a search engine and Telegram on loopback."""

    def __init__(self) -> None:
        super().__init__()
        self.llm = LlmServer(after=said)
        self.llm.models = [{"id": "claude-sonnet-5-5"}, {"id": "claude-haiku-5"}]
        self.telegram = TelegramServer()
        self.search = SearchApis()

    async def __aenter__(self) -> Self:
        for server in (self.llm, self.telegram, self.search):
            await self.enter_async_context(server)
        return self

    def env(self, home: Path) -> dict[str, str]:
        """What a bare machine has, and where its services are."""
        return {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TZ": "Europe/Madrid",
            "XDG_RUNTIME_DIR": str(home / "runtime"),
            "ANTHROPIC_BASE_URL": self.llm.url,
            "SEARXNG_BASE_URL": self.search.base("searxng"),
            "OLLAMA_HOST": "127.0.0.1:9",  # nothing listens there
        }

    @property
    def options(self) -> tuple[str, ...]:
        return "--telegram-api-base", self.telegram.url


def said(seen: LlmRequest) -> Reply:
    """What the model says: no to the wrong key, a call where a call is asked for, else a sentence."""
    if WRONG_KEY in seen.headers.values():
        error = {"type": "authentication_error", "message": "invalid x-api-key"}
        return Reply(status=401, body={"type": "error", "error": error})
    question = json.dumps(seen.body)
    return Reply(Call("ping", {"word": "pong"})) if "Call the tool ping" in question else Reply(ANSWER)


def newcomer(command: Sequence[str], env: Mapping[str, str]) -> PseudoTerminal:
    """The program in a terminal that is wide enough for whole sentences."""
    return PseudoTerminal(command, env=env, columns=150, rows=60)


def installed(wheel: Path, folder: Path) -> list[str]:
    """The command of a wheel that pip has installed into `folder`, beside the packages of this Python."""
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    bare = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}  # warnings of pip are not ours
    subprocess.run([*pip, str(wheel)], check=True, timeout=120, env=bare)
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from nanobot.__main__ import main; main()"
    return [sys.executable, "-P", "-c", code, str(site)]


async def asked(terminal: PseudoTerminal, after: str) -> None:
    """Wait for the question that comes after these words."""
    await terminal.until(re.compile(re.escape(after) + r"(?s:.*)^(\[[^\]]*\] )?> *\Z", re.MULTILINE))


async def answered(terminal: PseudoTerminal, after: str, keys: str) -> None:
    """Wait for the question that comes after these words, then type and press Enter."""
    await asked(terminal, after)
    terminal.press(f"{keys}\r")


async def dialogue(terminal: PseudoTerminal, answers: Mapping[str, str]) -> None:
    """Answer one question after the other, each known by the words that it comes after."""
    for after, keys in answers.items():
        await answered(terminal, after, keys)


async def claimed(terminal: PseudoTerminal, ada: User) -> None:
    """Open the link that the terminal shows, as its QR code does, and get a first answer."""
    await terminal.until(re.compile(r"\?start=([\w-]{20,})"))
    found = re.search(r"\?start=([\w-]{20,})", terminal.text())
    assert found is not None
    ada.say(f"/start {found[1]}")
    await terminal.until("The bot has its owner now.")
    ada.say("hello")
    await ada.server.until(lambda: f"bot: {ANSWER}" in ada.server.visible(ada.chat))


async def three_minutes(terminal: PseudoTerminal, ada: User) -> int:
    """All of it, from the first question to the first answer on Telegram; how many questions there were."""
    await dialogue(terminal, {"1 of 3": KEY, "2 of 3": TOKEN, "3 of 3": ""})
    await claimed(terminal, ada)
    return len(re.findall(r"(?m)^(?:\[[^\]]*\] )?>(?: |$)", terminal.text()))
