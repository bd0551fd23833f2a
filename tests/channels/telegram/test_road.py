"""How many modules of nanobot stand between a message and the sign that it was taken."""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

from nanobot.app import Launch, Nanobot
from nanobot.config.loader import load
from nanobot.config.paths import Paths
from tests.channels.telegram.gateway import OWNER, configured
from tests.fakes.http_server import Responder
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import Json, TelegramServer

#: Modules with code that runs until the update is confirmed and the typing sign comes.
MOST = 40
#: Messages; of what works by the clock, such as the watchdog, one of them meets nothing.
TRIES = 5
#: True in the task of the turn once it has begun, and in what it starts: that runs beside the road to the sign.
BESIDE = ContextVar("BESIDE", default=False)


class Modules:
    """The modules of nanobot in which a function was called, in every thread, in the order of their first call."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counting = False

    def __call__(self, frame: FrameType, event: str, _value: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if not self.counting or event != "call" or not name.startswith("nanobot.") or BESIDE.get():
            return
        if name not in self.names:
            self.names.append(name)
        if frame.f_code.co_name == "publish_outbound":  # the turn has begun, and says so
            BESIDE.set(True)


@contextmanager
def modules_at_work() -> Iterator[Modules]:
    """Watch this thread, and those that begin inside."""
    modules, before = Modules(), sys.getprofile()
    threading.setprofile(modules)
    sys.setprofile(modules)
    try:
        yield modules
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


class Noting(TelegramServer):
    """Notes which modules had worked when the first call of a kind came."""

    def __init__(self, modules: Modules) -> None:
        super().__init__()
        self.modules = modules
        self.noted: dict[str, list[str]] = {}

    def note(self, kind: str) -> None:
        if self.modules.counting:
            self.noted.setdefault(kind, [*self.modules.names])

    async def _do_getupdates(self, params: Json, respond: Responder) -> object:
        self.note("confirmed")
        return await super()._do_getupdates(params, respond)

    async def _do_sendchataction(self, params: Json, respond: Responder) -> object:
        self.note("typing")
        return await super()._do_sendchataction(params, respond)


async def test_few_modules_stand_between_a_message_and_the_sign_that_it_was_taken(tmp_path: Path) -> None:
    shortest: dict[str, list[str]] = {}
    with modules_at_work() as modules:
        async with Noting(modules) as telegram, LlmServer(after="Fine.") as llm:
            ada = telegram.user("Ada", OWNER)
            home = configured(tmp_path, telegram, llm)
            path = home.home / "config.json"
            launch, paths = Launch(env=home.env), Paths.resolve(home.env, path)
            async with await Nanobot.from_config(load(path, env=home.env), paths=paths, launch=launch) as app:
                channels = app.channels(lambda link: None, lambda line: None)
                serving = asyncio.create_task(channels.run())
                ada.say("what a start does is done with this")
                await answered(telegram, ada.chat, paths.database, 1)
                for number in range(2, 2 + TRIES):
                    await at_rest(modules)
                    await ada.asks("hi", lambda: len(telegram.noted) == 2)
                    modules.counting = False
                    await answered(telegram, ada.chat, paths.database, number)
                    for kind, names in telegram.noted.items():
                        shortest[kind] = min(shortest.get(kind, names), names, key=len)
                    telegram.noted.clear()
                await channels.stop()
                await serving
    for kind, names in shortest.items():
        assert len(names) <= MOST, "\n".join([f"{len(names)} modules until {kind}:", *names])


async def at_rest(modules: Modules) -> None:
    """Count from a moment on in which nothing of nanobot works: the end of the answer before is on no road."""
    modules.counting = True
    async with asyncio.timeout(120):
        while True:
            modules.names = []
            await asyncio.sleep(0.2)
            if not modules.names:
                return


async def answered(telegram: TelegramServer, chat: int, database: Path, count: int) -> None:
    """Wait until so many answers are there and the program has noted that they are."""
    await telegram.until(lambda: telegram.visible(chat).count("bot: Fine.") == count)
    async with asyncio.timeout(120):
        with closing(sqlite3.connect(database)) as db:
            while db.execute("SELECT count(*) FROM outbox WHERE state = 'sent'").fetchone() != (count,):
                await asyncio.sleep(0.01)
