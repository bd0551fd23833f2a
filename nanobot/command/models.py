"""`/model`: the model of a chat, another one by its name or from a picker, and what is known of each."""

from collections.abc import Sequence

from nanobot.command.router import CommandContext
from nanobot.errors import UsageError
from nanobot.providers.base import ModelOffer, ProviderInfo
from nanobot.utils.translation import N_, _, listed, sentences

#: Names that the text shows where nothing can be chosen, and what a picker offers at most.
_SHOWN, _OFFERED = 20, 1_000
_OTHER = N_("`/model <name>` uses another one, `/model default` the configured one.")
_WHICH = N_("Which model is this chat to use?")


async def choose_model(ctx: CommandContext) -> None:
    """Use the model that is named behind the command; of a part of a name offer those that hold it. Without a name show
    the one in use and offer the others."""
    refused: UsageError | None = None
    if ctx.args:
        try:
            await _switch(ctx, ctx.args)
        except UsageError as error:  # it is the name of none, and perhaps a part of some
            refused = error
        else:
            return
    part = ctx.args.casefold()
    offers = [one for one in await ctx.control.models(ctx.key) if part in one.name.casefold()]
    number = await _chosen(ctx, offers[:_OFFERED]) if offers else None
    if number:
        await _switch(ctx, offers[number - 1].name)
    elif number == 0:
        await ctx.reply(sentences(_current(ctx), _("It stays.")))
    elif refused is not None:
        raise refused
    else:
        await ctx.reply(sentences(_current(ctx), _(_OTHER)) + _listed(offers))


async def _chosen(ctx: CommandContext, offers: Sequence[ModelOffer]) -> int | None:
    """The number of the one that the person chooses, 0 where they leave it; None where they cannot choose here."""
    try:
        ctx.change_what_all_share()
        lines = tuple(one.line for one in offers)
        return await ctx.control.offer(ctx.message, _(_WHICH), lines, picker=True)
    except UsageError:
        return None


async def _switch(ctx: CommandContext, name: str) -> None:
    ctx.change_what_all_share()
    info = await ctx.control.set_model(ctx.key, "" if name.casefold() == "default" else name)
    service = _("{name} ({about})", name="", about=info.name) if info.name != info.model else ""
    said = [
        _("This chat now uses **{model}**{service}.", model=info.model, service=service),
        ctx.control.model_facts(info),
    ]
    known = await ctx.control.store.list(ctx.key)
    if known and known[0].messages:
        said.append(_("The conversation so far goes to it once in full, without a cache."))
    await ctx.reply(sentences(*said))


def _current(ctx: CommandContext) -> str:
    info: ProviderInfo = ctx.control.provider(ctx.key)
    return sentences(_("Model: **{model}**{about}.", model=info.model, about=info.about), ctx.control.model_facts(info))


def _listed(offers: Sequence[ModelOffer]) -> str:
    """Presets and what the service offers, in two sentences."""
    named = [one.name for one in offers if one.kind == "preset"]
    there = [one.name for one in offers if one.kind == "service"]
    told = [_("Your presets are {names}.", names=_quoted(named))] if named else []
    if more := there[_SHOWN:]:
        shown = _quoted(there[:_SHOWN])
        told.append(_("Its service offers {names}, and {number} more.", names=shown, number=len(more)))
    elif there:
        told.append(_("Its service offers {names}.", names=_quoted(there)))
    return "\n\n" + sentences(*told) if told else ""


def _quoted(names: Sequence[str]) -> str:
    return listed(f"`{name}`" for name in names)
