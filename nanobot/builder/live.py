"""The configuration file beside a program that stays: a change is taken with the next turn, a broken file is not."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from loguru import logger
from msgspec.structs import replace

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.loop import AgentLoop
from nanobot.builder.agent import RENEWED, Builder
from nanobot.builder.values import chat_defaults, limits_of, policy_of, settings_of
from nanobot.bus.alarms import Alarm
from nanobot.config.changes.taken import TAKEN, changed, taken_over
from nanobot.config.loader import Loaded, load
from nanobot.config.schema import Config
from nanobot.errors import NanobotError
from nanobot.utils.logs import add_secrets
from nanobot.utils.translation import N_, Later, speaking, spoken_at, told

#: Seconds between two looks at the file, and those after which nothing uses a tool any more that was replaced.
LOOK_SECONDS, SPENT_SECONDS = 1.5, 120.0
#: What makes another model, and what makes other tools.
_OF_DEFAULTS = ("model", "provider", "modelPreset", "fallbackModels", "contextWindowTokens")
_MODELS = {"modelPresets", "providers", *(f"agents.defaults.{key}" for key in _OF_DEFAULTS)}
_TOOLS = ("tools.web", "agents.subagents")

_JUST_NOW = 10_000_000_000  # nanoseconds
Stamp = tuple[int, int, int] | None


class LiveConfig:
    """Takes what changes in the file. `follows` hear of each configuration that is taken over.

    A turn that runs keeps the model, the limits, the rules and the tools with which it began.
    """

    def __init__(self, builder: Builder, services: AgentServices, loop: AgentLoop) -> None:
        self._builder = builder
        self._services = services
        self._loop = loop
        self.follows: list[Callable[[Config], None]] = []
        #: Shows a line to who runs the program, where that is not the owner's own terminal.
        self.say: Callable[[str], object] = str
        self._path = builder.loaded.path
        self._stamp = _stamp(self._path)
        if self._stamp is not None and time.time_ns() - self._stamp[0] < _JUST_NOW:
            self._stamp = None  # it may have been written after it was read
        self._looking, self._looked = asyncio.Lock(), 0.0  # and when the last look began
        self._problem = self._told = ""
        self._waiting: tuple[str, ...] = ()
        self._spent: list[tuple[float, Callable[[], Awaitable[None]]]] = []

    async def run(self) -> None:
        """Look again and again until cancelled."""
        self._loop.look_first = self.look
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()
            if self._spent and not self._loop.busy:
                await self._close(time.monotonic() - SPENT_SECONDS)

    async def aclose(self) -> None:
        await self._close(time.monotonic())

    async def _close(self, before: float) -> None:
        over = [close for since, close in self._spent if since <= before]
        self._spent = [one for one in self._spent if one[0] > before]
        for close in over:
            await close()

    async def look(self) -> None:
        """Take over what has changed in the file since the last look. One look does for all that wait for one."""
        asked = time.monotonic()
        async with self._looking:
            if self._looked > asked:
                return
            self._looked = time.monotonic()
            stamp = await asyncio.to_thread(_stamp, self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._problem = await self._read()
                if self._told and not self._problem:
                    self._told = ""
                    self._tell(N_("{path} is in order again, and what it says is in force."), path=str(self._path))
            elif self._problem and self._problem != self._told:  # still so: it is not just being written
                self._told = self._problem
                sentence = N_(
                    "The configuration cannot be used: {problem}. What it said before stays in force until that is put "
                    "right."
                )
                self._tell(sentence, problem=self._problem.rstrip(".。"))

    async def _read(self) -> str:
        """Take over what the file says; why that cannot be, empty where it could."""
        try:
            loaded = await asyncio.to_thread(load, self._path, env=self._builder.env, must_exist=True)
            await self._take(await self._builder.with_keys(loaded))
        except NanobotError as error:
            return str(error)
        for problem in loaded.problems:
            logger.warning("{}", problem)
        return ""

    async def _take(self, loaded: Loaded) -> None:
        """Take over what may be. Raises `NanobotError` where a start with it would fail; nothing is taken then."""
        before = self._builder.loaded.config
        config = taken_over(before, loaded.config)
        differs = changed(before, config)
        fresh = replace(loaded, config=config)
        models = self._builder.models_of(fresh)
        provider = await models.provider(self._builder.launch.model) if not _MODELS.isdisjoint(differs) else None
        add_secrets(loaded.secrets)
        self._builder.loaded = fresh
        self._builder.models.configure(fresh)
        if differs:
            renewed = RENEWED if any(one.startswith(_TOOLS) for one in differs) else frozenset[str]()
            if renewed:
                self._spent += [(time.monotonic(), close) for close in self._builder.renew_tools()]
            tools = {name: one for name, one in self._builder.tools().items() if name in renewed}
            self._loop.renew(limits_of(config), settings_of(config), policy_of(config), tools)
            self._builder.equip(self._loop.runner, self._services)
            for budget in self._builder.budgets:
                budget.configure(config)
            logger.info("taken from {}: {}", self._path, ", ".join(differs))
        if provider is not None:
            self._loop.use(provider)
        self._services.chats.configure(*chat_defaults(config))
        for follow in self.follows:
            follow(config)
        self._say_what_waits(changed(config, loaded.config), [one for one in differs if TAKEN[one] == "next terminal"])

    def _say_what_waits(self, waiting: tuple[str, ...], terminals: Sequence[str]) -> None:
        if terminals:
            sentence = N_("{path}: the next terminal has the change of {keys}.")
            self._tell(sentence, path=str(self._path), keys=", ".join(terminals))
        if not set(waiting) <= set(self._waiting):
            one = N_("{path}: the change of {keys} counts after a restart of nanobot.")
            many = N_("{path}: the change of {keys} count after a restart of nanobot.")
            self._tell(one if len(waiting) == 1 else many, path=str(self._path), keys=", ".join(waiting))
        self._waiting = waiting

    def _tell(self, sentence: str, **values: str) -> None:
        """Tell the owner once of this state of the file, and the log and the program's own terminal."""
        text = Later(sentence, **values)
        logger.warning("{}", text)
        with speaking(spoken_at()):  # whoever's turn has looked
            self.say(told(text))
        digest = hashlib.sha256(f"{text}{self._stamp}".encode()).hexdigest()[:16]
        self._builder.alarms.say(Alarm(f"config-{digest}", text))


def _stamp(path: Path) -> Stamp:
    """What changes with a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
