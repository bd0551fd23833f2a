"""A whole agent with a scripted model, to which several people speak, for what is found again."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from nanobot.app import Launch, Nanobot
from nanobot.bus.events import Address, InboundMessage, Sender, TurnFinished
from nanobot.config.loader import load_text
from nanobot.config.paths import Paths
from nanobot.providers.scripted import Call
from tests.fakes.llm_server import LlmServer, Reply

TERMINAL = Address("terminal", "local")
OWNER = Sender("local", "Ann", "owner")


class Speaking:
    """An agent in a home of its own. `told` is all that the last request said to the model."""

    def __init__(self, bot: Nanobot, model: LlmServer, home: Path) -> None:
        self.bot = bot
        self.model = model
        self.home = home

    @property
    def workspace(self) -> Path:
        return self.home / "workspace"

    @property
    def told(self) -> str:
        return json.dumps(self.model.requests[-1].body, ensure_ascii=False)

    @property
    def result(self) -> str:
        """What the last tool said."""
        return self.model.requests[-1].told("tool")[-1]

    async def say(
        self, words: str, *replies: Reply | str, at: Address = TERMINAL, by: Sender = OWNER, direct: bool = True
    ) -> TurnFinished:
        """One turn. After the last of these replies the model says `Done.`"""
        self.model.replies[:] = [*replies, "Done."]
        done = await self.bot.loop.process(InboundMessage(at, by, words, direct=direct))
        assert done.outcome == "completed", done.error
        return done

    async def find(
        self, tool: str, query: str, *, at: Address = TERMINAL, by: Sender = OWNER, direct: bool = True
    ) -> str:
        """What a tool says to a call in a new session of this chat."""
        await self.bot.sessions.start(at.key)
        await self.say("Look it up, please.", Reply(Call(tool, {"query": query})), at=at, by=by, direct=direct)
        return self.result


@asynccontextmanager
async def speaking(folder: Path, config: Mapping[str, object] | None = None) -> AsyncIterator[Speaking]:
    async with LlmServer(after="Done.") as model:
        home = folder / ".nanobot"
        given = {
            "agents": {"defaults": {"model": "m", "provider": "custom", "timezone": "UTC"}},
            "providers": {"custom": {"apiBase": f"{model.url}/v1", "apiKey": "sk-test"}},
            **(config or {}),
        }
        env = {"HOME": str(folder)}
        loaded = load_text(json.dumps(given), home / "config.json", env=env)
        async with await Nanobot.from_config(loaded, paths=Paths.resolve(env), launch=Launch(env=env)) as bot:
            yield Speaking(bot, model, home)
