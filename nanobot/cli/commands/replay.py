"""`nanobot replay FILE`: a turn that `--record` has written, again and without a network."""

import argparse
import asyncio
import sys

from nanobot.agent.recording import Recording, Replay, read
from nanobot.bus.events import TurnFinished
from nanobot.cli.oneshot import UserPrompt, ask
from nanobot.cli.options import FAILED
from nanobot.cli.output import TextWriter
from nanobot.utils.host import typed_path
from nanobot.utils.logs import configure_logging
from nanobot.utils.text import strip_unsafe


def run_replay(args: argparse.Namespace) -> int:
    """Repeat a recorded turn: 0 when it comes out as recorded, else 1. Needs no configuration and no key."""
    configure_logging(None, verbose=args.debug)
    return asyncio.run(_replay(read(typed_path(args.file))))


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
