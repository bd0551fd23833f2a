"""The skills at hand: found in their folders, which of them the owner has let count, and how often each was read.

A skill that did not come with nanobot counts as content from outside until the owner has said yes to exactly its
content. What was said yes to is kept among the permissions; another content asks again.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from loguru import logger
from msgspec import Struct

from nanobot.errors import StoreError, UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.permissions import Permission, Permissions
from nanobot.skills.skill import FILE, NAME, Place, Skill, read_skill
from nanobot.utils.ranking import terms
from nanobot.utils.text import nearest, shorten
from nanobot.utils.translation import _, apart, listed, sentences

#: The kind under which a yes stands among the permissions.
KIND = "skill"
#: Folders that are looked at in one place, and characters of a description and of the whole list for a model.
_MOST, _WIDTH, _LIST = 200, 200, 2_400
_USED = "skill-used:"
#: The share of the words of the shorter of two descriptions that makes them alike, and the fewest such words.
_ALIKE, _LEAST_ALIKE = 0.5, 2
Folders = Sequence[tuple[Place, Path]]


class FoundSkill(Struct, frozen=True):
    """A skill, whether it `counts`, how often it was read, and the folders with others of its name that do not count.

    What does not count is content from outside. One that has `changed` counted before it did.
    """

    skill: Skill
    counts: bool
    used: int = 0
    hidden: tuple[Path, ...] = ()
    changed: bool = False


class SkillShelf:
    """The skills in these folders; of two with one name the first counts."""

    def __init__(self, folders: Folders, ledger: Ledger) -> None:
        self._folders = folders
        self._ledger = ledger
        self.permissions = Permissions(ledger)

    async def all(self) -> tuple[FoundSkill, ...]:
        """Every skill that can be offered, by name."""
        skills, hidden, _broken = await asyncio.to_thread(self._look)
        given, used = await self._given(skills), await self._uses()
        agreed, named = {one.about for one in given}, {_named(one) for one in given}

        def found(one: Skill) -> FoundSkill:
            counts = one.place == "shipped" or _about(one) in agreed
            changed = not counts and one.name in named
            return FoundSkill(one, counts, used.get(one.name, 0), tuple(hidden[one.name]), changed)

        return tuple(found(one) for one in sorted(skills, key=lambda one: one.name))

    async def one(self, name: str) -> FoundSkill:
        """The skill of that name. Raises `UsageError` with the nearest name where there is none."""
        found = {one.skill.name: one for one in await self.all()}
        if name not in found:
            near = nearest(name, found)
            others = _("There are: {names}.", names=listed(found) or _("none"))
            hint = _("Did you mean {name!r}?", name=near) if near else others
            raise UsageError(sentences(_("There is no skill {name!r}.", name=name), hint))
        return found[name]

    async def broken(self) -> tuple[str, ...]:
        """Folders with a SKILL.md that cannot be offered, each with the reason."""
        return tuple((await asyncio.to_thread(self._look))[2])

    async def agree(self, person: str, skill: Skill) -> Permission:
        """Let a skill count as it is now, in the place of what counted before. Raises `UsageError` where it is too
        large to be judged."""
        if not skill.mark:
            why = apart(skill.problems)
            raise UsageError(_("The skill {name} is too large to count: {why}", name=skill.name, why=why))
        given = agreement(skill)
        old = [one for one in await self.permissions.all() if one.kind == KIND and _named(one) == skill.name]
        await self.permissions.add(person, (given,))
        for one in old:
            if one.about != given.about:
                await self.permissions.take_back(one.id)
        return given

    async def count(self, name: str) -> None:
        """One more use of a skill."""
        try:
            used = (await self._uses()).get(name, 0)
            await self._ledger.set_notes({f"{_USED}{name}": str(used + 1)})
        except StoreError as error:
            logger.warning("that the skill {} was used is not counted: {}", name, error)

    async def listing(self) -> str:
        """What a model is told of the skills: those of the owner with their descriptions, as far as there is room, and
        the others by their names alone, for what they say is a stranger's until the owner has read it."""
        found = await self.all()
        own = [one for one in found if one.counts and one.skill.place != "shipped"]
        bare = [one.skill.name for one in found if one not in own]
        lines, room = list[str](), _LIST
        for one in own:
            line = f"- {one.skill.name}: {shorten(one.skill.description, _WIDTH)}"
            if (room := room - len(line)) < 0:
                bare.append(one.skill.name)
            else:
                lines.append(line)
        more = f"{'Also' if lines else 'There are'}: {_names(bare)}." if bare else ""
        return "\n".join(filter(None, (*lines, more)))

    def _look(self) -> tuple[list[Skill], dict[str, list[Path]], list[str]]:
        """The skills by their place, the folders that each hides, and what is wrong with what cannot be offered."""
        skills, hidden, broken = dict[str, Skill](), defaultdict[str, list[Path]](list), list[str]()
        for place, folder in self._within():
            try:
                skill = read_skill(folder, place)
            except UsageError as error:
                broken.append(str(error))
                continue
            if not NAME.fullmatch(skill.name) or not skill.description:
                broken.append(f"{folder}: {' '.join(skill.problems)}")
            elif skill.name in skills:
                hidden[skill.name].append(folder)
            else:
                skills[skill.name] = skill
        return list(skills.values()), hidden, broken

    def _within(self) -> Iterable[tuple[Place, Path]]:
        for place, folder in self._folders:
            try:
                below = sorted(one for one in folder.iterdir() if (one / FILE).is_file())
            except OSError:
                continue
            yield from ((place, one) for one in below[:_MOST])

    async def _given(self, skills: Iterable[Skill]) -> tuple[Permission, ...]:
        """What was said yes to; nothing where the store does not say."""
        if all(one.place == "shipped" for one in skills):
            return ()
        try:
            return tuple(one for one in await self.permissions.all() if one.kind == KIND)
        except StoreError as error:
            logger.warning("which skills count could not be read: {}", error)
            return ()

    async def _uses(self) -> dict[str, int]:
        kept = await self._ledger.notes(_USED)
        return {key.removeprefix(_USED): int(value) for key, value in kept.items() if value.isdigit()}


def similar(name: str, description: str, known: Iterable[FoundSkill]) -> tuple[FoundSkill, ...]:
    """Those of these skills that have the name, or a description of mostly the same words."""
    wanted = set(terms(description))

    def near(one: FoundSkill) -> bool:
        said = set(terms(one.skill.description))
        shared = len(wanted & said)
        return one.skill.name == name or (shared >= _LEAST_ALIKE and shared >= _ALIKE * min(len(wanted), len(said)))

    return tuple(one for one in known if near(one))


def agreement(skill: Skill) -> Permission:
    """What a yes to a skill is kept as: it holds for exactly its content."""
    return Permission(
        KIND,
        _about(skill),
        _("the skill {name} counts, as it was shown (mark {mark})", name=skill.name, mark=skill.seal),
    )


def _about(skill: Skill) -> str:
    return json.dumps({"skill": skill.name, "mark": skill.mark}) if skill.mark else ""


def _named(permission: Permission) -> str:
    try:
        told = json.loads(permission.about)
    except ValueError:
        return ""
    return str(told.get("skill", "")) if isinstance(told, dict) else ""


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:100])
    return f"{shown} and {len(names) - 100} more" if len(names) > 100 else shown
