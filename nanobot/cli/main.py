"""The entry point: parses the command line, runs the command, turns every error into a sentence and an exit code."""

import gc
import io
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TextIO

from nanobot.cli.habits import parse
from nanobot.cli.options import BROKEN_PIPE, FAILED, INTERRUPTED, TEMPORARY, USAGE
from nanobot.errors import ConfigError, NanobotError, ProviderError, TemporaryError, UsageError
from nanobot.utils.text import printable
from nanobot.utils.translation import N_, _, settle

#: Objects made before a first collection of a long run.
_COLLECT_AFTER = 50_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Prints no traceback, unless `--debug` asks for one."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="stand_in")  # what the locale cannot show is replaced, never an error
    arguments = list(sys.argv[1:] if argv is None else argv)
    settle(os.environ)
    os.umask(0o077)  # conversations, lists of tools, recordings: whatever is written is its owner's alone
    try:
        code = _left(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _silence()
    except Exception as error:  # noqa: BLE001 - the process boundary: a person sees a sentence, not a traceback
        return _report(_innermost(error), debug="--debug" in arguments)
    return code


def _open_streams() -> None:
    """Give a process that was started without standard streams, as daemons are, empty ones: nothing comes, all goes.

    Output without a buffer (`PYTHONUNBUFFERED`) gets one of a line: only a buffer still knows after an error that
    something could not be written, which argparse, for one, passes over.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8", closefd=False))
        elif mode == "w" and isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            setattr(sys, name, os.fdopen(stream.fileno(), mode, 1, stream.encoding, closefd=False))


def _left(arguments: Sequence[str]) -> int:
    try:
        return _run(arguments)
    except SystemExit as leaving:  # argparse has printed help, the version or what is wrong
        return leaving.code if isinstance(leaving.code, int) else FAILED


def _run(arguments: Sequence[str]) -> int:
    args = parse(arguments)
    _start_lean()
    _finish_restore(args)
    run = _command(args.command)
    # What was imported stays until the end: no collection looks at it again, not even the last ones, which were a fifth
    # of the CPU time of a question.
    gc.freeze()
    gc.enable()
    return run(args)


def _finish_restore(args: Namespace) -> None:
    """Go on with a restore that was broken off, before anything else looks at the home."""
    from nanobot.config.paths import Paths

    home = Paths.resolve(os.environ, args.config).home
    if (home / ".restore").exists() and args.command != "restore":
        from nanobot.session.lock import home_lock, home_use_lock, restore_lock
        from nanobot.upkeep.restoring import finish

        with home_use_lock(home):
            pass  # a restore that is under way is no broken one, and says so
        with home_lock(home), restore_lock(home):
            finish(home)


def _start_lean() -> None:
    """Spare this process work that no command needs. Only for a process that is ours: it changes global settings.

    httpx imports its own command line (click, rich, pygments) where click is installed; marked as missing, it does
    without, which httpx itself provides for. httpcore looks for sniffio on the whole path several times a request, to
    learn that this is asyncio; marked as missing, the answer is at hand. Nothing of what an import makes is garbage.
    """
    gc.disable()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    for name in ("httpx._main", "sniffio"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None is how Python marks "not to be had"


def _command(name: str) -> Callable[[Namespace], int]:
    """What runs a command; nothing is imported for the others."""
    match name:
        case "gateway":
            from nanobot.cli.gateway import run_gateway

            return run_gateway
        case "demo":
            from nanobot.cli.commands.demo import run_demo

            return run_demo
        case "replay":
            from nanobot.cli.replay import run_replay

            return run_replay
        case "agent":
            from nanobot.cli.agent_command import run_agent

            return run_agent
        case _:
            return _kept(name) or _looked_after(name)


def _kept(name: str) -> Callable[[Namespace], int] | None:
    """A command about what nanobot keeps for its people."""
    match name:
        case "people" | "permissions" | "schedule" | "watch":
            from nanobot.cli.commands.people import run_people, run_permissions, run_schedule, run_watch

            runs = {"people": run_people, "permissions": run_permissions, "schedule": run_schedule}
            return runs.get(name, run_watch)
        case "soul":
            from nanobot.cli.commands.soul import run_soul

            return run_soul
        case "skill":
            from nanobot.cli.commands.skill import run_skill

            return run_skill
        case "sessions":
            from nanobot.cli.commands.sessions import run_sessions

            return run_sessions
        case "library":
            from nanobot.cli.commands.library import run_library

            return run_library
        case "usage":
            from nanobot.cli.commands.usage import run_usage

            return run_usage
        case _:
            return None


def _looked_after(name: str) -> Callable[[Namespace], int]:
    """A command that sets nanobot up or says how it is."""
    match name:
        case "onboard":
            from nanobot.cli.onboard.command import run_onboard

            return run_onboard
        case "config":
            from nanobot.cli.care.config import run_config

            return run_config
        case "import":
            from nanobot.cli.care.migrate import run_import

            return run_import
        case "doctor":
            from nanobot.cli.care.doctor import run_doctor

            return run_doctor
        case "help":
            from nanobot.cli.commands.help import run_help

            return run_help
        case "completion":
            from nanobot.cli.commands.completion import run_completion

            return run_completion
        case "mcp":
            from nanobot.cli.commands.mcp import run_mcp

            return run_mcp
        case "update":
            from nanobot.cli.care.update import run_update

            return run_update
        case "backup" | "restore":
            from nanobot.cli.care.backup import run_backup, run_restore

            return run_backup if name == "backup" else run_restore
        case _:
            from nanobot.cli.care.status import run_status

            return run_status


def _innermost(error: BaseException) -> BaseException:
    """The first real error of a group of tasks that ended together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report(error: BaseException, *, debug: bool) -> int:
    if isinstance(error, BrokenPipeError):
        return _silence()
    if debug:
        sys.stderr.write(printable("".join(traceback.format_exception(error))))
    if isinstance(error, OSError) and not _writable(sys.stdout):
        _silence()
        sys.stderr.write(
            _("nanobot: the output could not be written: {why}. Free some room or print elsewhere.", why=error.strerror)
            + "\n"
        )
    elif isinstance(error, NanobotError):
        sys.stderr.write(printable(f"nanobot: {error}\n"))
    elif not debug:
        kind = type(error).__name__
        told = f"{kind}: {error}" if str(error) else kind
        broke = N_(
            "nanobot: something inside broke ({told}). Nothing was lost. "
            "Run the same command with --debug to see where."
        )
        sys.stderr.write(printable(_(broke, told=told) + "\n"))
    return exit_code_of(error)


def exit_code_of(error: BaseException) -> int:
    """2 for what a person can put right, 75 for what may work later, else 1."""
    if isinstance(error, ConfigError | UsageError):
        return USAGE
    if isinstance(error, TemporaryError) or (isinstance(error, ProviderError) and error.retryable):
        return TEMPORARY
    return FAILED


def _writable(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    return True


def _silence() -> int:
    """The reader has gone: say nothing, not even at the interpreter's own flush on exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if not _writable(stream):
            os.dup2(nowhere, stream.fileno())
    return BROKEN_PIPE
