"""A conversation in the terminal."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from shutil import get_terminal_size

from msgspec import Struct
from msgspec.structs import replace
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_input

from nanobot import __version__
from nanobot.app import Nanobot
from nanobot.bus.events import TERMINAL, Address, CommandReply
from nanobot.channels.base import AgentHere, LocateCall, TerminalAgent
from nanobot.channels.terminal.channel import TerminalChannel
from nanobot.channels.terminal.files import FileReader
from nanobot.channels.terminal.input import PrivateHistory
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.render import Printer, render_line
from nanobot.channels.terminal.screen import PlainLines, Screen, terminal_output
from nanobot.channels.terminal.surface import Surface
from nanobot.channels.terminal.transcript import Transcript
from nanobot.cli.care.editor import edited
from nanobot.cli.oneshot import HANG_UP, INTERRUPT, SessionChoice, on_signal
from nanobot.config.paths import Paths
from nanobot.config.schema import TerminalConfig
from nanobot.utils.translation import N_, _, told

_NEW_HERE = N_("New here? `nanobot onboard` in a shell sets up a model and Telegram with three questions.")


class Beginning(Struct, frozen=True):
    """What stands above a conversation: who answers and `why` that model, and how the session ended that goes on.

    `place` says where the agent runs that is not in this process; `hint` is for who is new. `kept`: the conversation
    outlives the program.
    """

    model: str
    why: str = ""
    title: str = ""
    recap: str = ""
    place: str = ""
    hint: str = ""
    kept: bool = True
    config: TerminalConfig = TerminalConfig()


@asynccontextmanager
async def own_agent(app: Nanobot, choice: SessionChoice) -> AsyncIterator[AgentHere]:
    """The agent in this process, in the session that was chosen. Others may run beside it with the same home, so its
    conversation has an address of its own. The one that it is in at the end is the last one, with
    which `--continue` goes on. Raises `UsageError` where there is none of that id."""
    own_address = Address(TERMINAL.channel, TERMINAL.chat, f"process-{os.getpid()}")
    own = AgentHere(app, own_address, partial(app.files.locate, copy=choice.kept))
    session = await app.sessions.open(TERMINAL.key, choice.resume, go_on=choice.go_on)
    await app.sessions.resume(own.address.key, session.id)
    try:
        yield own
    finally:
        await app.sessions.resume(TERMINAL.key, (await app.sessions.current(own.address.key)).id)


async def beginning_of(
    app: Nanobot, key: str, choice: SessionChoice, config: TerminalConfig, configured: bool
) -> Beginning:
    """What stands above a conversation in this process, whose address has that key.

    Without a configuration, who has no model or has not talked yet is told how to set one up.
    """
    session = await app.sessions.current(key)
    talked = configured or session.messages or len(await app.sessions.list(key, limit=2)) > 1
    info, begun = app.provider_info, bool(session.messages)
    recap = await app.loop.recap(session.id) if begun else ""
    hint = "" if talked and (configured or info.capabilities.language_model) else _(_NEW_HERE)
    title = session.title if begun else ""
    return Beginning(info.model, told(info.chosen_because), title, recap, hint=hint, kept=choice.kept, config=config)


async def converse(
    agent: TerminalAgent, begin: Beginning, paths: Paths, look: TextLook, typed: str = ""
) -> tuple[TerminalChannel, str]:
    """Talk until the person leaves, who was typing `typed`; what is being typed then. Says how to come back."""

    async def locate(file: Path) -> str:
        place = await asyncio.to_thread(file.resolve)  # the agent may run in another folder
        return "".join((await agent.call(LocateCall(str(place)))).texts)

    _greet(begin, look)
    surface = _surface(agent, begin, paths, look)
    if typed:
        surface.give_back(typed)
    files = FileReader(paths.media, locate)
    channel = TerminalChannel(
        agent,
        surface,
        files=files,
        look=lambda: replace(look, width=get_terminal_size((80, 24)).columns),
        place=_short(Path.cwd()),
        echo=look.ansi,
        long_turn=begin.config.notify_after,
    )
    with on_signal(HANG_UP, lambda number: channel.exit(128 + number)):
        if look.ansi:
            await channel.start()
        else:
            with on_signal(INTERRUPT, lambda _number: channel.interrupt()):
                await channel.start()
    await files.aclose()
    if channel.state.messages and begin.kept:
        back = _("resume: nanobot agent -r {session}", session=channel.state.session)
        sys.stdout.write("\n" + render_line(back, "dim", look))
        sys.stdout.flush()
    return channel, surface.typed


def _surface(agent: TerminalAgent, begin: Beginning, paths: Paths, look: TextLook) -> Surface:
    edit = partial(edited, env=os.environ)
    if not look.ansi:
        return PlainLines(sys.stdin.fileno(), sys.stdout, edit)
    output = terminal_output(sys.stdout, os.environ.get("TERM"))
    lines = PrivateHistory(paths.history) if begin.kept else InMemoryHistory()
    return Screen(
        create_input(),
        output,
        edit,
        commands=agent.commands,
        history=lines,
        color=look.color,
        notify=begin.config.notify,
    )


def _greet(begin: Beginning, look: TextLook) -> None:
    """Say who answers, and show how the conversation ended that is gone on with."""
    model = _("{model} ({why})", model=begin.model, why=begin.why) if begin.why else begin.model
    lines = [f"nanobot {__version__} · {model}", _("/help lists the commands, Ctrl-D leaves")]
    lines += [one for one in (begin.hint, begin.place) if one]
    lines += [_("back in: {title}", title=begin.title)] if begin.title else []
    sys.stdout.write("".join(render_line(line, "dim", look) for line in lines))
    printer, transcript = Printer(), Transcript()
    pieces = transcript.apply(CommandReply("resume", begin.recap)) if begin.recap else ()
    sys.stdout.write("".join(printer(piece, look) for piece in pieces) + "\n" * bool(begin.recap))
    sys.stdout.flush()


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}".removesuffix("/.") if path.is_relative_to(home) else str(path)
