"""`nanobot agent`: decides between a conversation and one question, and puts the parts together."""

import argparse
import asyncio
import os
import select
import sys
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.files.offered import files_of
from nanobot.app import Launch, Nanobot
from nanobot.bus.events import Address
from nanobot.cli.oneshot import SessionChoice, UserPrompt, ask
from nanobot.cli.output import JsonWriter, StreamJsonWriter, TextWriter, Writer
from nanobot.cli.terminal import agreed, note, somebody_is_here, warn
from nanobot.command.builtin import builtin_router
from nanobot.config.loader import Loaded, located
from nanobot.config.paths import Paths, prepare_home, template_news
from nanobot.errors import UsageError
from nanobot.security.projects import NOT_TRUSTED, TRUSTED, Project, project_of
from nanobot.session.ledger import Ledger
from nanobot.session.lock import home_use_lock
from nanobot.session.permissions import Permission, Permissions
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.host import typed_path
from nanobot.utils.logs import configure_logging
from nanobot.utils.translation import _, listed

if TYPE_CHECKING:
    from nanobot.agent.recording import Recorder


#: Who is asked whether a folder is trusted.
TERMINAL_PERSON = "terminal:local"
#: Bytes of standard input that are read; the rest is left out, and said so.
_MOST_BYTES = 1_000_000
#: Seconds without a byte on standard input after which a line says that it is waited for.
_NOTE_AFTER = 2.0


class Setup(Struct, frozen=True):
    """What every command that needs the agent starts from. `project`: where the person works, as it was found."""

    loaded: Loaded
    paths: Paths
    env: Mapping[str, str]
    project: Project | None = None


def set_up(args: argparse.Namespace, env: Mapping[str, str]) -> Setup:
    """Read the configuration, make the folders, open the log. Raises `ConfigError`."""
    loaded, paths = located(env, args.config, args.workspace)
    own = Paths.resolve(env, args.config, loaded.config.agents.defaults.workspace).workspace
    project = project_of(Path.cwd(), paths.workspace, own, paths.home)
    prepare_home(paths)
    configure_logging(paths.logs / "nanobot.log", loaded.secrets, verbose=args.debug)
    for line in template_news(paths) if paths.workspace == own else ():
        note(line)
    for problem in loaded.problems:
        warn(problem)
    for where, reason in loaded.disabled.items():
        warn(_("{key} is switched off: {reason}", key=where, reason=reason))
    return Setup(loaded, paths, env, project)


def run_agent(args: argparse.Namespace) -> int:
    """Talk or answer one question; the exit code."""
    env = os.environ
    question = _question(args)
    if question is None and not somebody_is_here():
        raise UsageError(_('There is no message and no terminal to ask for one. Use: nanobot -m "your question"'))
    if question is None and (args.json or args.stream_json):
        raise UsageError(_('--json and --stream-json need a message. Use: nanobot -m "your question" --json'))
    if question is None and args.record:
        raise UsageError(_('--record needs a message. Use: nanobot agent --record FILE -m "your question"'))
    setup = set_up(args, env)
    if setup.project is not None:
        setup = replace(setup, project=_judged(setup.project, setup.paths, interactive=question is None))
    if question is not None and "@" in question.text:
        question = asyncio.run(_with_files(question, setup))
    if question is not None and args.record:
        from nanobot.agent.recording import record

        with record(typed_path(args.record), question.text, question.context) as recorder:
            return asyncio.run(_run(args, setup, question, recorder))
    return asyncio.run(_run(args, setup, question))


async def _with_files(question: UserPrompt, setup: Setup) -> UserPrompt:
    """The question with the files that it names; what cannot be read is said."""
    from nanobot.channels.terminal.files import FileReader

    tools = files_of(setup.loaded.config.tools, setup.paths, setup.project, setup.env)
    files = FileReader(setup.paths.media, partial(tools.locate, copy=question.session.kept))
    try:
        found = await files.read(question.text)
    finally:
        await files.aclose()
        await tools.aclose()
    for problem in found.problems:
        warn(problem)
    context = (question.context, found.context)
    return replace(question, context="\n\n".join(filter(None, context)), media=tuple(found.media))


async def _run(
    args: argparse.Namespace, setup: Setup, question: UserPrompt | None, recorder: "Recorder | None" = None
) -> int:
    if (code := await _in_the_gateway(args, setup, question)) is not None:
        return code
    launch = Launch(args.model or "", args.ephemeral, setup.env, recorder, project=setup.project)
    with home_use_lock(setup.paths.home):
        async with await Nanobot.from_config(setup.loaded, paths=setup.paths, launch=launch) as app:
            if question is not None:
                return await ask(app, question, writer_for(args, setup.env), recorder.end if recorder else None)
            return await conversation(args, setup, app)


async def _in_the_gateway(args: argparse.Namespace, setup: Setup, question: UserPrompt | None) -> int | None:
    """The exit code where a running gateway of this home has served the terminal; None where none does."""
    kept_apart = args.alone or args.ephemeral or args.record or args.workspace or setup.loaded.config.gateway.ledger
    if kept_apart or not setup.paths.socket.is_socket():
        return None
    from nanobot.cli.join import ask_gateway, talk_in_gateway

    return await (ask_gateway(args, setup, question) if question is not None else talk_in_gateway(args, setup))


def _judged(project: Project, paths: Paths, *, interactive: bool) -> Project:
    """The project with what the owner says of it; asked once, where somebody is there to be asked."""
    known = asyncio.run(_trust(project, paths, None))
    if known is None and not project.holds:
        known = asyncio.run(_trust(project, paths, True))  # what steers there from now on is nanobot's own
    elif known is None and interactive:
        text = _(
            "{folder} is not nanobot's own. What would tell nanobot there what to do: {held}.\n"
            "Do you trust what was written there?\ny: it counts from now on. Enter: it is text like any other. ",
            folder=project.folder,
            held=listed(project.holds),
        )
        known = asyncio.run(_trust(project, paths, agreed(text)))
    elif known is None and project.workspace:
        told = _(
            "{held} in {folder} does not count, because nobody has said that it may. `nanobot agent` asks once, in the "
            "terminal.",
            held=listed(project.holds),
            folder=project.folder,
        )
        note(told)
    return replace(project, trusted=bool(known))


async def _trust(project: Project, paths: Paths, answer: bool | None) -> bool | None:
    """What the owner has said of a folder, after keeping an `answer`; None where they have not been asked."""
    async with aclosing(Ledger(SqliteDatabase(paths.database))) as ledger:
        permissions, place = Permissions(ledger), str(project.folder)
        if answer is not None:
            yes = _("what stands in the folder {folder} may tell nanobot what to do", folder=place)
            no = _("what stands in the folder {folder} may not tell nanobot what to do", folder=place)
            words = yes if answer else no
            await permissions.add(TERMINAL_PERSON, (Permission(TRUSTED if answer else NOT_TRUSTED, place, words),))
        held = await permissions.held(TERMINAL_PERSON, tainted=False)
    if (NOT_TRUSTED, place) in held:
        return False
    return True if (TRUSTED, place) in held else None


async def conversation(args: argparse.Namespace, setup: Setup, app: Nanobot) -> int:
    """Talk in the terminal until the person leaves; the exit code."""
    from nanobot.channels.terminal.look import look_of
    from nanobot.channels.terminal.render import render_line
    from nanobot.cli.interactive import beginning_of, converse, own_agent

    look = look_of(sys.stdout, setup.env, color=args.color, plain=args.plain)
    app.loop.runner.approvals.channels.add("terminal")

    async def say(_address: Address, text: str, _key: str) -> None:
        sys.stdout.write(render_line(text, "dim", look))

    choice, config = session_of(args), setup.loaded.config.channels.terminal
    async with own_agent(app, choice) as own, app.at_work():
        begin = await beginning_of(app, own.address.key, choice, config, setup.loaded.exists)
        await app.loop.announce_lost("terminal", say)
        channel, _typed = await converse(own, begin, setup.paths, look, vars(args).get("typed", ""))
        return channel.exit_code


def _question(args: argparse.Namespace) -> UserPrompt | None:
    """What to ask, from the words, `-m` and the pipe; None for a conversation."""
    words = " ".join(args.words)
    if args.message is not None and words:
        raise UsageError(_("The message is there twice: give it as words or with -m, not both."))
    text = args.message if args.message is not None else words
    context = _piped(sys.stdin.buffer) if text == "-" or not sys.stdin.isatty() else ""
    if args.message is None and not context and words.isalpha() and words.islower():
        _judge_command(words)
    if text == "-" or not text.strip():
        text, context = context, ""
        if args.message is not None and not text.strip():
            raise UsageError(_("The message is empty."))
    if not text.strip():
        return None
    return UserPrompt(text.rstrip("\n"), context, session_of(args), args.timeout)


def _judge_command(word: str) -> None:
    """Raises `UsageError` for a word alone that is a command of every conversation, and none of a shell."""
    match = builtin_router().match(f"/{word}")
    if match and match.command:
        told = _(
            "There is no command {word!r}. Did you mean /{name} in the last conversation? "
            "nanobot --continue -m /{name}\nAs a message: nanobot -m {word}",
            word=word,
            name=match.command.name,
        )
        raise UsageError(told)


def _piped(stream: BinaryIO) -> str:
    """What standard input brings, up to the limit. Says on stderr that it waits, and that there was more.

    Raises `UsageError` for data that is no text.
    """
    try:
        if not select.select([stream], [], [], _NOTE_AFTER)[0]:
            sys.stderr.write(_("nanobot: waiting for the end of standard input …") + "\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        pass  # a stream without a descriptor is simply read
    data = stream.read(_MOST_BYTES + 1)
    if b"\x00" in data[:8_192]:
        raise UsageError(_("Standard input is not text. Convert it first, or give the question with -m and no pipe."))
    cut = len(data) > _MOST_BYTES
    if cut:
        most = _MOST_BYTES // 1_000_000
        sys.stderr.write(_("nanobot: standard input is longer than {most} MB; the rest was cut.", most=most) + "\n")
    return data[:_MOST_BYTES].decode("utf-8", "ignore" if cut else "replace").removeprefix("\ufeff")


def session_of(args: argparse.Namespace) -> SessionChoice:
    return SessionChoice(args.session or "", args.go_on, not args.ephemeral)


def writer_for(args: argparse.Namespace, env: Mapping[str, str]) -> Writer:
    """What prints the answer to one question: for people, or as JSON."""
    if args.json:
        return JsonWriter(sys.stdout)
    if args.stream_json:
        return StreamJsonWriter(sys.stdout)
    if not (sys.stdout.isatty() or args.color == "always"):
        return TextWriter(sys.stdout, sys.stderr)  # a pipe: no look needs to be found out
    from nanobot.channels.terminal.look import look_of

    out, err = (look_of(stream, env, color=args.color, plain=args.plain) for stream in (sys.stdout, sys.stderr))
    if not out.ansi:
        return TextWriter(sys.stdout, sys.stderr)
    from nanobot.cli.rendered import RenderedWriter

    return RenderedWriter(sys.stdout, sys.stderr, out, err)
