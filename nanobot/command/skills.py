"""`/skills`: which skills there are, what one says, and letting it count."""

from collections.abc import Sequence

from msgspec.structs import replace

from nanobot.command.router import CommandContext
from nanobot.errors import UsageError
from nanobot.skills.shelf import FoundSkill, SkillShelf
from nanobot.skills.skill import Place
from nanobot.utils.text import shorten, strip_unsafe
from nanobot.utils.translation import N_, _, _n, sentences
from nanobot.utils.translation import listed as in_a_row

_WIDTH = 160
#: What the model is asked for; the first sentence is what people see of it.
# English: a model reads it
_LEARN = (
    "Keep what worked in this conversation as a skill, with the tool learn.{about} If one of the "
    "skills below is about the same, read it and change that one, under its name. Else choose a "
    "short name. The description says what it does and when it is of use. The text is for somebody "
    "who knows nothing of this talk: the steps with the tools and arguments that worked, what to "
    "leave out because it failed, how one sees that the result is right. Write what is always so; "
    "what belonged to this one time is an example at most. No keys, no names of people."
)
_WHERE: dict[Place, str] = {
    "workspace": N_("of the workspace"),
    "folder": N_("of this folder"),
    "home": N_("of your home"),
    "shipped": N_("came with nanobot"),
}


async def show_skills(ctx: CommandContext) -> None:
    """Run `/skills WORDS`. Raises `NanobotError`."""
    shelf = _shelf(ctx)
    verb, *words = ctx.args.split() or [""]
    if verb == "trust" and 1 <= len(words) <= 2:
        await _trust(ctx, shelf, words[0], "".join(words[1:]))
    elif verb and not words:
        found = await shelf.one(verb)
        await ctx.reply(f"{_line(found)}\n\n{_quoted(found)}")
    elif verb:
        raise UsageError(_("/skills alone lists them; besides there is `/skills [<name> | trust <name>]`."))
    else:
        await ctx.reply(listed(await shelf.all(), await shelf.broken()))


async def learn(ctx: CommandContext) -> None:
    """Run `/learn WORDS`: the agent writes down what worked, and the owner sees it before it is kept."""
    shelf = _shelf(ctx)
    if not ctx.for_owner_alone:
        raise UsageError(_("Only the owner lets me learn a skill, in a chat of their own."))
    if not ctx.control.provider(ctx.key).capabilities.language_model:
        raise UsageError(
            _("A skill is written by a language model, and none answers here. /model shows what there is.")
        )
    known = [f"- {one.skill.name}: {one.skill.description}" for one in await shelf.all() if one.counts]
    about = f" It is about: {ctx.args}." if ctx.args else ""  # English: a model reads it
    # English: a model reads it
    asked = "\n".join([_LEARN.format(about=about), "", "Skills that there are:", *known])
    ctx.hand_on(replace(ctx.message, content=asked))


def _shelf(ctx: CommandContext) -> SkillShelf:
    if ctx.services.skills is None:
        raise UsageError(_("There are no skills here."))
    return ctx.services.skills()


def listed(found: Sequence[FoundSkill], broken: Sequence[str], trust: str = "/skills trust") -> str:
    """All skills as Markdown, and what keeps others from being offered. `trust` is what lets one count."""
    lines = [_("**Skills**"), "", *map(_line, found)] if found else [_("There are no skills.")]
    lines += ["", _("Not offered:"), *(f"- {strip_unsafe(one)}" for one in broken)] if broken else []
    unread = [one.skill.name for one in found if not one.counts]
    how = _("`{trust} {name}` shows one and lets it count.", trust=trust, name=unread[0]) if unread else ""
    closing = sentences(_("Unread ones count as content from outside."), how)
    return "\n".join([*lines, "", closing] if unread else lines)


def _line(found: FoundSkill) -> str:
    skill = found.skill
    used = _n(", used {number} time", ", used {number} times", found.used) if found.used else ""
    unread = "" if found.counts else _(", not read by you yet")
    hidden = _("; hides {names}", names=in_a_row(f"`{one}`" for one in found.hidden)) if found.hidden else ""
    how = f"{_(_WHERE[skill.place])}{used}{unread}{hidden}"
    return _("- `{name}` ({how}): {about}", name=skill.name, how=how, about=shorten(skill.description, _WIDTH))


def _quoted(found: FoundSkill) -> str:
    """The text of a skill, as a text and not as words of nanobot."""
    skill = found.skill
    files = _("\n\nBeside it: {files}", files=skill.beside) if skill.files else ""
    problems = f"\n\n{' '.join(skill.problems)}" if skill.problems else ""
    return f"```\n{strip_unsafe(skill.text).replace('```', chr(39) * 3)}\n```{files}{problems}"


async def _trust(ctx: CommandContext, shelf: SkillShelf, name: str, given: str) -> None:
    """Show what a skill says, and let it count where exactly that was shown before."""
    if not ctx.for_owner_alone:
        raise UsageError(_("Only the owner lets a skill count, in a chat of their own."))
    found = await shelf.one(name)
    skill = found.skill
    if found.counts:
        await ctx.reply(
            _("The skill {name} counts already. `/permissions` takes that back for one that you let count.", name=name)
        )
    elif given and given == skill.seal:
        kept = await shelf.agree(ctx.message.person, skill)
        await ctx.reply(_("From now on {words}.", words=kept.words))
    elif not skill.mark:
        raise UsageError(_("The skill {name} never counts: {problems}", name=name, problems=" ".join(skill.problems)))
    else:
        closing = _(
            "Let it count only if it, and the files beside it, tell a model to do what you want done: "
            "`/skills trust {name} {seal}`",
            name=name,
            seal=skill.seal,
        )
        shell = f"nanobot skill show {name}"  # English: a command
        await ctx.show_before_it_counts(f"{_line(found)}\n\n{_quoted(found)}", closing, shell, again=bool(given))
