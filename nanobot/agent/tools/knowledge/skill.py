"""`skill`: how something is done, read when it is to be done."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from msgspec.structs import replace

from nanobot.agent.tools.base import Question, ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import SkillArguments
from nanobot.errors import StoreError, UsageError
from nanobot.results import Source, ToolResult, error_result
from nanobot.security.policy import Effect
from nanobot.skills.shelf import FoundSkill, SkillShelf, agreement
from nanobot.skills.skill import read_beside
from nanobot.utils.text import one_line, strip_unsafe
from nanobot.utils.translation import N_, _, sentences


class SkillTool(OwnTool[SkillArguments], name="skill"):
    """`skill`: the text of a skill, or of a file beside it; without a name the list of all.

    One that the owner has not let count is content from outside. Where they are there, they are asked once, with its
    text before them.
    """

    own_words: ClassVar[bool] = True

    def __init__(self, shelf: SkillShelf) -> None:
        self._shelf = shelf

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        return (Effect("read", f"skill {self.canonical(arguments).get('name', '')}".strip()),)

    async def run(self, args: SkillArguments, context: ToolContext) -> ToolResult:
        try:
            if not args.name:
                return ToolResult(await self._shelf.listing() or "There are none.", _("the skills"))
            found = await self._shelf.one(args.name)
        except (UsageError, StoreError) as error:
            return error_result("not_found", str(error))
        try:
            beside = await asyncio.to_thread(read_beside, found.skill, args.file) if args.file else ""
        except UsageError as error:  # it tells the names of the files, which are a stranger's as their content is
            return replace(error_result("not_found", str(error)), untrusted=not found.counts)
        counts = found.counts or await self._asked(found, context)
        if not args.file:
            await self._shelf.count(found.skill.name)
        text = strip_unsafe(beside) if args.file else _told(found)
        name = f"{found.skill.name}{f', {args.file}' * bool(args.file)}"
        result = ToolResult(text, _("read the skill {name}", name=name))
        if counts:
            return result
        return replace(result, untrusted=True, sources=(Source(0, f"file:skill {found.skill.name}", read=True),))

    async def _asked(self, found: FoundSkill, context: ToolContext) -> bool:
        """Whether the owner lets a skill count that they see now; no where nobody is there to be asked."""
        skill = found.skill
        if context.approve is None or not skill.mark or not context.direct:
            return False
        beside = _("Files beside it: {files}", files=skill.beside) if skill.files else _("No files beside it.")
        facts = [
            _(
                "It lies in {folder} and would tell nanobot how to do things. You have not read it as it is now.",
                folder=skill.folder,
            ),
            _("Without a yes it is read as content from outside."),
            beside,
        ]
        if found.changed:
            facts = [sentences(_("It was changed in {folder} since you let it count.", folder=skill.folder), beside)]
        if compiled := [one for one in skill.files if one.endswith((".pyc", ".pyo"))]:
            named = one_line(", ".join(compiled), 200)
            facts.append(_("Nobody can read what is compiled: {files}", files=named))
        title = N_("Let the skill {name} count as it is now?") if found.changed else N_("Let the skill {name} count?")
        decided = await context.approve(
            Question(
                _(title, name=skill.name),
                "\n".join(facts),
                strip_unsafe(skill.text),
                (agreement(skill),),
                act=_("let the skill {name} count", name=skill.name),
                done=_("the skill {name} counts", name=skill.name),
            )
        )
        return decided.yes


def _told(found: FoundSkill) -> str:
    skill = found.skill
    files = f"; beside it: {skill.beside}" if skill.files else ""
    return f"Skill {skill.name} (in {skill.folder}{files})\n\n{strip_unsafe(skill.text)}"
