"""A conversation in the terminal."""

import os
import sys
from pathlib import Path
from shutil import get_terminal_size

from msgspec.structs import replace
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_input

from nanobot import __version__
from nanobot.bus.events import Address, CommandReply
from nanobot.channels.base import Agent
from nanobot.channels.terminal.channel import Surface, TerminalChannel
from nanobot.channels.terminal.files import FileReader, Locate
from nanobot.channels.terminal.input import PrivateHistory
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.render import Printer, render_line
from nanobot.channels.terminal.screen import PlainLines, Screen, terminal_output
from nanobot.channels.terminal.transcript import Transcript
from nanobot.cli.oneshot import HANG_UP, INTERRUPT, TERMINAL, SessionChoice, choose_session, on_signal
from nanobot.config.paths import Paths


async def converse(agent: Agent, paths: Paths, look: TextLook, choice: SessionChoice, locate: Locate) -> int:
    """Talk until the person leaves; the exit code. Says at the end how to come back.

    `locate` is that of a `FileReader`.
    """
    session = await choose_session(agent.sessions, choice)
    _greet(agent, look, session.title if session.messages else "")
    if session.messages:
        _recall(await agent.loop.recap(session.id), look)

    async def say(_address: Address, text: str, _key: str) -> None:
        sys.stdout.write(render_line(text, "dim", look))

    await agent.loop.announce_lost(TERMINAL.channel, say)
    surface = _surface(agent, paths.history if choice.kept else None, look)
    files = FileReader(paths.media, locate)
    channel = TerminalChannel(
        agent,
        surface,
        files=files,
        look=lambda: replace(look, width=get_terminal_size((80, 24)).columns),
        place=_short(Path.cwd()),
        echo=look.ansi,
    )
    with on_signal(HANG_UP, lambda number: channel.exit(128 + number)):
        if look.ansi:
            await channel.start()
        else:
            with on_signal(INTERRUPT, lambda _number: channel.interrupt()):
                await channel.start()
    await files.aclose()
    session = await agent.sessions.current(TERMINAL.key)
    if session.messages and choice.kept:
        sys.stdout.write("\n" + render_line(f"resume: nanobot agent -r {session.id}", "dim", look))
        sys.stdout.flush()
    return channel.exit_code


def _surface(agent: Agent, history: Path | None, look: TextLook) -> Surface:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not look.ansi:
        return PlainLines(sys.stdin.fileno(), sys.stdout, editor=editor)
    output = terminal_output(sys.stdout, os.environ.get("TERM"))
    lines = PrivateHistory(history) if history else InMemoryHistory()
    return Screen(create_input(), output, commands=agent.commands, history=lines, color=look.color, editor=editor)


def _greet(agent: Agent, look: TextLook, title: str) -> None:
    info = agent.provider_info
    why = f" ({info.chosen_because})" if info.chosen_because else ""
    lines = [f"nanobot {__version__} · {info.model}{why}", "/help lists the commands, Ctrl-D leaves"]
    if title:
        lines.append(f"back in: {title}")
    sys.stdout.write("".join(render_line(line, "dim", look) for line in lines))
    sys.stdout.flush()


def _recall(said: str, look: TextLook) -> None:
    """Show how the conversation ended that is gone on with."""
    printer, transcript = Printer(), Transcript()
    wide = replace(look, width=get_terminal_size((80, 24)).columns)
    pieces = transcript.apply(CommandReply("resume", said)) if said else ()
    sys.stdout.write("".join(printer(piece, wide) for piece in pieces) + "\n" * bool(said))
    sys.stdout.flush()


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}".removesuffix("/.") if path.is_relative_to(home) else str(path)
