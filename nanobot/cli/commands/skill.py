"""`nanobot skill`: the skills at hand, a new one, and what is wrong with them."""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from nanobot.agent.tools.files.offered import skill_folders
from nanobot.cli.agent_command import TERMINAL_PERSON, Setup, set_up
from nanobot.cli.commands.home import own_ledger, show
from nanobot.cli.options import FAILED
from nanobot.cli.terminal import agreed, say, somebody_is_here
from nanobot.command.skills import listed
from nanobot.config.paths import prepare_home
from nanobot.errors import UsageError
from nanobot.skills.shelf import FoundSkill, SkillShelf
from nanobot.skills.skill import FILE, Skill, new_text, read_skill
from nanobot.utils.host import typed_path
from nanobot.utils.translation import _, _n, sentences


def run_skill(args: argparse.Namespace) -> int:
    """Run one of list, show, new and check; the exit code."""
    setup = set_up(args, os.environ)
    match args.skill_action:
        case "show":
            return asyncio.run(_show(setup, args.name))
        case "new":
            return _new(setup, args.name, " ".join(args.words))
        case "check" if args.name and (typed_path(args.name) / FILE).is_file():
            return _judged([read_skill(typed_path(args.name).resolve(), "workspace")], ())
        case "check":
            return asyncio.run(_check(setup, args.name))
        case _:
            return asyncio.run(_list(setup))


async def _list(setup: Setup) -> int:
    async with _opened(setup) as shelf:
        text = listed(await shelf.all(), await shelf.broken(), "nanobot skill show")  # English: a command
    show(text, setup)
    return 0


async def _show(setup: Setup, name: str) -> int:
    """Print a skill; where it does not count yet and somebody is here, ask."""
    async with _opened(setup) as shelf:
        found = await shelf.one(name)
        say(_facts(found))
        say(found.skill.text)
        if found.counts or not found.skill.mark:
            return 0
        if not somebody_is_here():
            ask = _("In a terminal, `nanobot skill show {name}` asks whether it counts.", name=name)
            say(f"\n{sentences(_('It counts as content from outside.'), ask)}")
            return 0
        say(_("\nDoes it, and do the files beside it, tell a model to do what you want done?"))
        question = _("y: it counts from now on. Enter: it is content from outside.")
        if await asyncio.to_thread(agreed, f"{question}\n"):
            pinned = await shelf.agree(TERMINAL_PERSON, found.skill)
            say(sentences(_("From now on {words}.", words=pinned.words), _("`nanobot permissions` takes it back.")))
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
    say(
        _(
            "Made {path}. Write into it what is to be done; `nanobot skill check {name}` tells what is wrong.",
            path=path,
            name=name,
        )
    )
    return 0


async def _check(setup: Setup, name: str) -> int:
    """Say what is wrong with one skill or with all."""
    async with _opened(setup) as shelf:
        if name:
            broken = [one for one in await shelf.broken() if f"/{name}" in one]
            return _judged([] if broken else [(await shelf.one(name)).skill], broken)
        return _judged([one.skill for one in await shelf.all()], await shelf.broken())


def _judged(skills: list[Skill], broken: "list[str] | tuple[str, ...]") -> int:
    wrong = [f"{one.name}: {' '.join(one.problems)}" for one in skills if one.problems] + list(broken)
    for line in wrong:
        say(line)
    if not wrong:
        say(_n("{number} skill, nothing wrong.", "{number} skills, nothing wrong.", len(skills)))
    return FAILED if wrong else 0


@asynccontextmanager
async def _opened(setup: Setup) -> AsyncIterator[SkillShelf]:
    prepare_home(setup.paths)
    async with own_ledger(setup.paths) as ledger:
        yield SkillShelf(skill_folders(setup.paths, setup.project, setup.env), ledger)
