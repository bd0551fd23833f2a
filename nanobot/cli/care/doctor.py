"""`nanobot doctor`: is it well, and if not, what is to be done."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable
from contextlib import aclosing, nullcontext
from pathlib import Path

from loguru import logger

from nanobot.app import Launch, Nanobot
from nanobot.archive.kept import write_private
from nanobot.bus.events import TERMINAL, InboundMessage, Sender
from nanobot.channels.telegram.access.people import Access
from nanobot.channels.telegram.settings import settings_of
from nanobot.cli.terminal import agreed, somebody_is_here
from nanobot.config.paths import prepare_home
from nanobot.doctor.checkup import Patient, examine, patient_of
from nanobot.doctor.findings import Finding, exit_code, one_line
from nanobot.doctor.home import repair
from nanobot.doctor.probes import send_to
from nanobot.doctor.report import as_json, as_text, bundle
from nanobot.errors import NanobotError, UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase
from nanobot.utils.logs import configure_logging
from nanobot.utils.text import printable
from nanobot.utils.translation import ENGLISH, N_, _, _n, sentences, speaking

#: Seconds that threads get to end at the end.
_LEAVE_SECONDS = 0.5
#: Seconds for the question at the end.
_QUESTION_SECONDS = 90.0
_QUESTION = N_(
    "Search the web: which version of Python is the newest stable one? Answer in one sentence with its source."
)
_WITHOUT = frozenset({"Model", "Network", "Configuration"})


def run_doctor(args: argparse.Namespace) -> int:
    """Print what the checks find; 0 where all is well, 1 for warnings, 2 where something does not work."""
    file = Path(args.bundle) if args.bundle else None
    if file is not None and file.exists():
        raise UsageError(
            _("{file} exists already. Name a file that does not, so that nothing is overwritten.", file=file)
        )
    return asyncio.run(_ended(_look(args, file)))


async def _ended(look: Awaitable[int]) -> int:
    """The exit code of `look`. What still waits for a name server that does not answer is not waited for."""
    code = await look
    sys.stdout.flush()
    ending = asyncio.create_task(asyncio.get_running_loop().shutdown_default_executor())
    done, _ = await asyncio.wait({ending}, timeout=_LEAVE_SECONDS)
    if not done:
        os._exit(code)  # a thread that asks for a name can take half a minute, and nothing can end it
    return code


async def _look(args: argparse.Namespace, file: Path | None) -> int:
    patient = await patient_of(os.environ, args.config or "", args.workspace or "")
    logs, secrets = patient.paths.logs, patient.loaded.secrets
    configure_logging(logs / "nanobot.log" if logs.is_dir() else None, secrets, verbose=args.debug)
    if not (logs.is_dir() or args.debug):
        logger.remove()  # what is worth a line is a finding
    if args.fix:
        for line in await asyncio.to_thread(repair, patient.paths):
            sys.stderr.write(printable(_("fixed: {line}\n", line=line)))
    with speaking(ENGLISH) if file is not None else nullcontext():  # whoever helps reads it
        found = await examine(patient)
    if file is not None:
        write_private(file, bundle(patient, found))
        sys.stdout.write(printable(_("Written to {file}. Read it before you pass it on.\n", file=file)))
        return exit_code(found)
    if args.json:
        sys.stdout.write(printable(f"{as_json(found)}\n"))
        return exit_code(found)
    sys.stdout.write(printable(as_text(found, everything=args.all)))
    sys.stdout.flush()
    if not args.quick and not any(one.name in _WITHOUT and one.state == "bad" for one in found):
        found = [*found, *await _asked(patient, send=args.send)]
    return exit_code(found)


async def _asked(patient: Patient, *, send: bool) -> list[Finding]:
    """One real question through model and search, and where it is wanted its answer through Telegram; printed."""
    sys.stdout.write(_("\nOne real question, through model and search:\n"))
    sys.stdout.flush()
    answered, answer = await _answered(patient)
    found = [answered]
    if (
        answer
        and patient.loaded.config.channels.telegram.enabled
        and (send or (somebody_is_here() and agreed(_("Send the answer to you on Telegram? [y/N] "))))
    ):
        found.append(await _sent(patient, answer))
    for one in found:
        sys.stdout.write(printable("\n".join([*one.lines, ""])))
    return found


async def _answered(patient: Patient) -> tuple[Finding, str]:
    name, began = "Question", time.monotonic()
    launch = Launch(ephemeral=True, env=patient.env)
    message = InboundMessage(TERMINAL, Sender("local", role="owner"), _(_QUESTION))
    try:
        prepare_home(patient.paths)
        configure_logging(patient.paths.logs / "nanobot.log", patient.loaded.secrets)
        async with (
            asyncio.timeout(_QUESTION_SECONDS),
            await Nanobot.from_config(patient.loaded, paths=patient.paths, launch=launch) as app,
        ):
            ended = await app.loop.process(message)
    except TimeoutError:
        fix = _("Try again, or choose a faster model (agents.defaults.model).")
        return Finding(name, "bad", _("no answer within {seconds:.0f} s", seconds=_QUESTION_SECONDS), fix), ""
    except NanobotError as error:
        return Finding(name, "bad", one_line(str(error)), _("The findings above say what to do.")), ""
    if ended.outcome == "failed" or not ended.text.strip():
        return Finding(name, "bad", one_line(ended.error or ended.text), _("The findings above say what to do.")), ""
    sources = [one for one in ended.sources if one.url]
    words = _(
        "{answer} ({seconds:.0f} s, {usage}, {sources})",
        answer=one_line(ended.text),
        seconds=time.monotonic() - began,
        usage=ended.usage.text,
        sources=_n("{number} source", "{number} sources", len(sources)),
    )
    if not sources:
        return Finding(
            name, "warn", words, _("It was answered without looking anything up: see Search and Model.")
        ), ended.text
    return Finding(name, "ok", words), ended.text


async def _sent(patient: Patient, answer: str) -> Finding:
    """The answer as a message to the owner."""
    settings = settings_of(patient.loaded.config.channels.telegram, patient.env)
    file = patient.paths.database
    async with aclosing(Ledger(SqliteDatabase(file) if file.is_file() else MemoryDatabase())) as ledger:
        owner = await Access(ledger, settings.channel, settings.allow_from).owner()
    if not owner:
        fix = _("Start `nanobot gateway` and open the link that it prints.")
        return Finding("Telegram message", "warn", _("the bot has no owner yet to whom it could be sent"), fix)
    return await send_to(
        settings, owner, sentences(_("nanobot doctor asked one question to try the whole way."), answer)
    )
