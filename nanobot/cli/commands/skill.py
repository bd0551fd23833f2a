"""`nanobot skill`: the skills at hand, a new one, and what is wrong with them."""

import argparse
import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from nanobot.agent.tools.files.offered import skill_folders
from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import TERMINAL_PERSON, Setup, set_up
from nanobot.cli.options import FAILED
from nanobot.command.skills import listed
from nanobot.config.paths import prepare_home
from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from nanobot.skills.shelf import FoundSkill, SkillShelf
from nanobot.skills.skill import FILE, Skill, new_text, read_skill
from nanobot.utils.text import printable
from nanobot.utils.translation import _, _n, sentences, yes_or_no


def run_skill(args: argparse.Namespace) -> int:
    """Run one of list, show, new and check; the exit code."""
    setup = set_up(args, os.environ)
    match args.skill_action:
        case "show":
            return asyncio.run(_show(setup, args.name))
        case "new":
            return _new(setup, args.name, " ".join(args.words))
        case "check" if args.name and (Path(args.name).expanduser() / FILE).is_file():
            return _judged([read_skill(Path(args.name).expanduser().resolve(), "workspace")], ())
        case "check":
            return asyncio.run(_check(setup, args.name))
        case _:
            return asyncio.run(_list(setup))


async def _list(setup: Setup) -> int:
    ledger, shelf = _opened(setup)
    try:
        text = listed(await shelf.all(), await shelf.broken(), "nanobot skill show")  # English: a command
    finally:
        await ledger.aclose()
    sys.stdout.write(render_markdown(text, look_of(sys.stdout, setup.env)))
    return 0


async def _show(setup: Setup, name: str) -> int:
    """Print a skill; where it does not count yet and somebody is here, ask."""
    ledger, shelf = _opened(setup)
    try:
        found = await shelf.one(name)
        _print(_facts(found))
        _print(found.skill.text)
        if found.counts or not found.skill.mark:
            return 0
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            _print(_("\nIt counts as content from outside. `/skills trust {name}` lets it count.", name=name))
            return 0
        _print(_("\nDoes it, and do the files beside it, tell a model to do what you want done?"))
        _print(_("y: it counts from now on. Enter: it is content from outside."))
        sys.stdout.flush()
        if yes_or_no(await asyncio.to_thread(sys.stdin.readline)) == "yes":
            pinned = await shelf.agree(TERMINAL_PERSON, found.skill)
            _print(sentences(_("From now on {words}.", words=pinned.words), _("/permissions takes it back.")))
    finally:
        await ledger.aclose()
    return 0


def _facts(found: FoundSkill) -> str:
    skill = found.skill
    where = _("In {folder}", folder=skill.folder)
    files = _("\nBeside it: {files}", files=skill.beside) if skill.files else ""
    return f"{skill.name}: {skill.description}\n{where}{files}\n"


def _new(setup: Setup, name: str, description: str) -> int:
    text = new_text(name, description)
    path = setup.paths.workspace / "skills" / name / FILE
    if path.exists():
        raise UsageError(_("There is a skill {path} already.", path=path))
    try:
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        with suppress(OSError):
            path.unlink()  # half a skill would stand in the way of the next try
        raise UsageError(
            _(
                "{path} cannot be written: {why}. Look for room and rights there.",
                path=path,
                why=error.strerror,
            )
        ) from error
    _print(
        _(
            "Made {path}. Write into it what is to be done; `nanobot skill check {name}` tells what is wrong.",
            path=path,
            name=name,
        )
    )
    return 0


async def _check(setup: Setup, name: str) -> int:
    """Say what is wrong with one skill or with all."""
    ledger, shelf = _opened(setup)
    try:
        if name:
            broken = [one for one in await shelf.broken() if f"/{name}" in one]
            return _judged([] if broken else [(await shelf.one(name)).skill], broken)
        return _judged([one.skill for one in await shelf.all()], await shelf.broken())
    finally:
        await ledger.aclose()


def _judged(skills: list[Skill], broken: "list[str] | tuple[str, ...]") -> int:
    wrong = [f"{one.name}: {' '.join(one.problems)}" for one in skills if one.problems] + list(broken)
    for line in wrong:
        _print(line)
    if not wrong:
        _print(_n("{number} skill, nothing wrong.", "{number} skills, nothing wrong.", len(skills)))
    return FAILED if wrong else 0


def _opened(setup: Setup) -> tuple[Ledger, SkillShelf]:
    prepare_home(setup.paths)
    ledger = Ledger(SqliteDatabase(setup.paths.database))
    return ledger, SkillShelf(skill_folders(setup.paths, setup.project, setup.env), ledger)


def _print(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
