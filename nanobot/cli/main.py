"""The entry point: parses the command line, runs the command, turns every error into a sentence and an exit code."""

import errno
import gc
import io
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TextIO

from nanobot.cli.actions import BY_NAME
from nanobot.cli.habits import parse
from nanobot.cli.options import BROKEN_PIPE, FAILED, INTERRUPTED, TEMPORARY, USAGE
from nanobot.errors import ConfigError, NanobotError, ProviderError, TemporaryError, UsageError, innermost
from nanobot.utils.text import printable
from nanobot.utils.translation import N_, _, settle

#: Objects made before a first collection of a long run, and the number of standard error.
_COLLECT_AFTER, _STDERR = 50_000, 2


class _Aside(io.TextIOWrapper):
    """Standard error: what cannot be said there, as on a full disk, keeps no answer from standard output."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Prints no traceback, unless `--debug` asks for one."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what the locale cannot show is replaced, never an error
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
        return _report(innermost(error), debug="--debug" in arguments)
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
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr.fileno() == _STDERR:
        raw = io.FileIO(_STDERR, "w", closefd=False)
        sys.stderr = _Aside(io.BufferedWriter(raw), sys.stderr.encoding, line_buffering=True)


def _left(arguments: Sequence[str]) -> int:
    try:
        return _run(arguments)
    except SystemExit as leaving:  # argparse has printed help, the version or what is wrong
        return leaving.code if isinstance(leaving.code, int) else FAILED


def _run(arguments: Sequence[str]) -> int:
    args = parse(arguments)
    _start_lean()
    _finish_restore(args)
    module, _mark, name = BY_NAME[args.command].run.partition(":")  # nothing is imported for the other commands
    run: Callable[[Namespace], int] = getattr(import_module(module), name)
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
    without, which httpx itself provides for. Nothing of what an import makes is garbage.
    """
    gc.disable()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # so Python marks "not to be had"


def _report(error: BaseException, *, debug: bool) -> int:
    if isinstance(error, BrokenPipeError):
        return _silence()
    if debug:
        sys.stderr.write(printable("".join(traceback.format_exception(error))))
    if isinstance(error, OSError) and (not _writable(sys.stdout) or _in_printing(error)):
        _silence()
        sys.stderr.write(
            _("nanobot: the output could not be written: {why}. Free some room or print elsewhere.", why=error.strerror)
            + "\n"
        )
    elif told := _of_a_place(error):
        sys.stderr.write(printable(f"nanobot: {told}\n"))
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
    if isinstance(error, ConfigError | UsageError) or _of_a_place(error):
        return USAGE
    if isinstance(error, TemporaryError) or (isinstance(error, ProviderError) and error.retryable):
        return TEMPORARY
    return FAILED


def _of_a_place(error: BaseException) -> str:
    """What is wrong with a place that a person named or where they are; empty for any other error."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return _("this name is too long: {name}", name=error.filename)
    if isinstance(error, FileNotFoundError) and error.filename is None:
        try:
            os.getcwd()  # noqa: PTH109 - pathlib is not needed for it
        except FileNotFoundError:
            return _("the folder that you are in was deleted. Go to another one, such as with `cd`, and start again.")
    return ""


def _in_printing(error: OSError) -> bool:
    """True where what is printed could not be: of more than a buffer holds, a stream keeps nothing to try again."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    return error.filename is None and last.startswith(os.path.dirname(__file__))  # noqa: PTH120


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
