"""`nanobot agent --record FILE` and `nanobot replay FILE`: a turn in a file, and the same again without a network."""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nanobot.agent.recording import Recorder, Recording, Replay, read
from nanobot.bus.events import TurnFinished
from nanobot.cli.oneshot import UserPrompt, ask
from nanobot.cli.options import FAILED
from nanobot.cli.output import TextWriter
from nanobot.command.builtin import builtin_router
from nanobot.errors import NanobotError, UsageError
from nanobot.utils.logs import configure_logging
from nanobot.utils.text import strip_unsafe
from nanobot.utils.translation import N_, _


@contextmanager
def record(name: str, question: UserPrompt) -> Iterator[Recorder]:
    """A recorder of one turn. Raises `UsageError` for a command, which is no turn, and for a file that is there.

    Raises `NanobotError` after a turn that could not be written down whole.
    """
    if builtin_router().match(question.text) is not None:
        raise UsageError(_("--record writes down a turn of the agent; a command is none. Ask a question with it."))
    recorder = Recorder(Path(name).expanduser(), question.text, question.context)
    try:
        yield recorder
    finally:
        recorder.close()
    if recorder.problem:
        whole = N_("The recording {file} is not whole: {problem}. The answer itself is complete.")
        raise NanobotError(_(whole, file=name, problem=recorder.problem))


def run_replay(args: argparse.Namespace) -> int:
    """Repeat a recorded turn: 0 when it comes out as recorded, else 1. Needs no configuration and no key."""
    configure_logging(None, verbose=args.debug)
    return asyncio.run(_replay(read(Path(args.file).expanduser())))


async def _replay(recording: Recording) -> int:
    replay = Replay(recording)
    ended: list[TurnFinished] = []
    question = UserPrompt(recording.head.question, recording.head.context)
    code = await ask(replay, question, TextWriter(sys.stdout, sys.stderr), ended.append)
    await replay.loop.aclose()
    differences = replay.differences(ended[0])
    for sentence in differences:
        sys.stderr.write(f"nanobot: {strip_unsafe(sentence)}\n")
    if ended[0].outcome == "cancelled":
        return code
    return FAILED if differences else 0
