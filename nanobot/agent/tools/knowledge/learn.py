"""`learn`: what worked in a conversation, kept as a skill after a yes, and tried once on what was recorded of it."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.base import Question, ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.files.change import WriteFileTool
from nanobot.agent.tools.offers import LearnArguments
from nanobot.errors import ProviderError, StoreError, UsageError
from nanobot.files.spaces import FileSpaces
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Effect
from nanobot.session.store import SessionStore
from nanobot.skills.shelf import FoundSkill, SkillShelf, similar
from nanobot.skills.skill import FILE, NAME, front_matter, skill_text
from nanobot.utils.ranking import terms
from nanobot.utils.text import shorten
from nanobot.utils.translation import _

#: Bytes of a conversation in which the work is looked for; characters of a result, and of all of them, in a replay.
_LOOK_BACK, _RESULT, _RESULTS = 2_000_000, 4_000, 60_000
#: The shares of the words and of the figures of an answer that make another one the same result.
_SAME_WORDS, _SAME_FIGURES = 0.5, 0.8
_NO_YES = "A skill is kept only after a yes of the owner, and nobody could be asked here. Nothing was kept."
_REPLAY = (
    "You follow a skill. Below stands what its tools answered when this task was done before; there are no others. "
    "Do the task as the skill says, with these answers alone, and write the answer to the person and nothing else.\n\n"
    "# The skill\n\n{skill}\n\n# What the tools answered\n\n{results}"
)


class RecordedWork(Struct, frozen=True):
    """A turn as it is kept: what was asked, the calls with what they answered, and the answer."""

    question: str
    results: str
    answer: str


class LearnTool(OwnTool[LearnArguments], name="learn"):
    """`learn`: writes `skills/NAME/SKILL.md` of the workspace. The owner sees the change and says yes, whoever wishes
    it; with that yes it counts. Then the skill is tried once on the last turn that made calls.
    """

    own_words: ClassVar[bool] = True

    def __init__(self, spaces: FileSpaces, shelf: SkillShelf, store: SessionStore) -> None:
        self._write = WriteFileTool(spaces)
        self._shelf = shelf
        self._store = store

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        if context.role != "owner":
            return (Effect("forbidden", "skills", reason="skills are the owner's"),)
        args = self.meant(arguments)
        return (Effect("read"),) if args is None else self._write.effects(_file(args), context)

    async def run(self, args: LearnArguments, context: ToolContext) -> ToolResult:
        if not NAME.fullmatch(args.name):
            return error_result(
                "invalid_input", "The name is made of small letters, digits and hyphens: weekly-report."
            )
        try:
            known = await self._shelf.all()
            if not await self._agreed(args, known, context):
                return error_result("denied", _NO_YES, message=_("not kept"))
            result = await self._write.call(_file(args), context)
            if result.error:
                return result
            counts = await self._agreed_to(args, {one.skill.name: one for one in known}, context.person)
            work = recorded(await self._store.history(context.session, size=_LOOK_BACK))
        except (UsageError, StoreError) as error:
            return error_result("failed", str(error))
        tried = await _tried(work, args.text, context)
        return replace(result, text=f"{result.text} {counts} {tried}")

    async def _agreed_to(self, args: LearnArguments, before: Mapping[str, FoundSkill], person: str) -> str:
        """Let the skill count as it was shown, and say so. Raises `UsageError` and `StoreError`.

        What lies beside its SKILL.md was not in the question: it has to count already.
        """
        kept = (await self._shelf.one(args.name)).skill
        old = before.get(args.name)
        same = old is not None and old.counts and old.skill.folder == kept.folder
        if (kept.files and not same) or kept.text != front_matter(_text(args))[1].strip():
            return f"More is in its folder than what was shown: /skills trust {args.name} shows it and lets it count."
        await self._shelf.agree(person, kept)
        return "It counts as a skill from now on."

    async def _agreed(self, args: LearnArguments, known: Sequence[FoundSkill], context: ToolContext) -> bool:
        """Whether the owner wants it. No rule and no lasting answer stands for a yes to what this skill says; that of a
        question of just now, which showed all of it, does."""
        if context.approve is None:
            return False
        if any(one.kind == "control" and one.shown for one in context.asked):
            return True
        near = [f"{one.skill.name}: {one.skill.description}" for one in similar(args.name, args.description, known)]
        path = f"skills/{args.name}/{FILE}"
        facts = [_("It would be written to {path} and count at once.", path=path), *_likes(args.name, near)]
        shown = next((one.shown for one in context.allowed if one.kind == "control"), "")
        asked = Question(
            _("Keep the skill {name}?", name=args.name),
            "\n".join(facts),
            shown or _text(args),
            act=_("keep the skill {name}", name=args.name),
            done=_("kept the skill {name}", name=args.name),
            diff=bool(shown),
        )
        return (await context.approve(asked)).yes


def _likes(name: str, near: Sequence[str]) -> list[str]:
    """Similar skills, of which one with the same name is changed or hidden."""
    told = [_("Similar: {skill}", skill=shorten(one, 200)) for one in near]
    if any(one.startswith(f"{name}: ") for one in near):
        told.append(_("There is a skill {name} already; this takes its place.", name=name))
    return told


def _text(args: LearnArguments) -> str:
    return skill_text(args.name, args.description, args.text)


def _file(args: LearnArguments) -> dict[str, object]:
    return {"path": f"skills/{args.name}/{FILE}", "content": _text(args)}


def recorded(messages: Sequence[Message]) -> RecordedWork | None:
    """The last turn before the running one that made calls and has an answer; None where there is none."""
    starts = [place for place, one in enumerate(messages) if isinstance(one, UserMessage) and one.kind == "user"]
    for start, end in reversed(list(pairwise(starts))):
        turn = messages[start:end]
        results = [one for one in turn if isinstance(one, ToolMessage)]
        answer = next((one.text for one in reversed(turn) if isinstance(one, AssistantMessage) and not one.calls), "")
        if results and answer.strip():
            calls = {call.id: call for one in turn if isinstance(one, AssistantMessage) for call in one.calls}
            told = (
                f"{one.name} {shorten(calls[one.call_id].arguments, 500) if one.call_id in calls else ''}\n"
                f"{shorten(one.text, _RESULT)}"
                for one in results
            )
            return RecordedWork(turn[0].text, "\n\n".join(told)[:_RESULTS], answer)
    return None


async def _tried(work: RecordedWork | None, text: str, context: ToolContext) -> str:
    """What came of following the skill with the recorded results and the model of the turn."""
    if work is None:
        return "It was not tried: no turn before this one made calls that could be replayed."
    if context.ask is None:
        return "It was not tried: no language model answers here."
    try:
        said = await context.ask(_REPLAY.format(skill=text, results=work.results), work.question)
    except ProviderError as error:
        return f"It was not tried: {error}"
    if is_same(work.answer, said):
        return "Replayed on the recorded results of that turn, the same result came again."
    return (
        "Replayed on the recorded results of that turn, the same result did not come again. Tell the person, and make "
        "the steps clearer if they want that."
    )


def is_same(before: str, after: str) -> bool:
    """Whether an answer says what another one said: most of its words, and nearly all of its figures."""
    wanted, said = set(terms(before)), set(terms(after))
    figures, given = set(re.findall(r"\d+(?:[.,:]\d+)*", before)), set(re.findall(r"\d+(?:[.,:]\d+)*", after))
    words = not wanted or len(wanted & said) >= _SAME_WORDS * len(wanted)
    return words and (not figures or len(figures & given) >= _SAME_FIGURES * len(figures))
