"""`/model`: the model of a chat, another one by its name or from a picker, and what is known of each."""

from collections.abc import Sequence

from nanobot.command.router import CommandContext
from nanobot.errors import UsageError
from nanobot.providers.base import ModelOffer, ProviderInfo

#: Names that the text shows where nothing can be chosen, and what a picker offers at most.
_SHOWN, _OFFERED = 20, 1_000
_OTHER = "`/model <name>` uses another one, `/model default` the configured one."
_WHICH = "Which model is this chat to use?"


async def choose_model(ctx: CommandContext) -> None:
    """Use the model that is named behind the command; of a part of a name offer those that hold it. Without a name show
    the one in use and offer the others."""
    if ctx.args:
        try:
            await _switch(ctx, ctx.args)
        except UsageError as error:
            await _switch_to_part(ctx, error)
        return
    offers = await ctx.control.models(ctx.key)
    number = await _chosen(ctx, offers[:_OFFERED]) if offers else None
    if number is None:
        await ctx.reply(f"{_current(ctx)} {_OTHER}{_listed(offers)}")
    elif not number:
        await ctx.reply(f"{_current(ctx)} It stays.")
    else:
        await _switch(ctx, offers[number - 1].name)


async def _switch_to_part(ctx: CommandContext, error: UsageError) -> None:
    """Offer the models whose names hold what was written; `error` says why it is the name of none."""
    part = ctx.args.casefold()
    offers = [one for one in await ctx.control.models(ctx.key) if part in one.name.casefold()]
    number = await _chosen(ctx, offers[:_OFFERED]) if offers else None
    if number is None:
        raise error
    if number:
        await _switch(ctx, offers[number - 1].name)
    else:
        await ctx.reply(f"{_current(ctx)} It stays.")


async def _chosen(ctx: CommandContext, offers: Sequence[ModelOffer]) -> int | None:
    """The number of the one that the person chooses, 0 where they leave it; None where they cannot choose here."""
    try:
        ctx.change_what_all_share()
        lines = tuple(one.line for one in offers)
        return await ctx.control.offer(ctx.message, _WHICH, lines, picker=True)
    except UsageError:
        return None


async def _switch(ctx: CommandContext, name: str) -> None:
    ctx.change_what_all_share()
    info = await ctx.control.set_model(ctx.key, "" if name.casefold() == "default" else name)
    said = [
        f"This chat now uses **{info.model}**{f' ({info.name})' if info.name != info.model else ''}.",
        ctx.control.model_facts(info),
    ]
    known = await ctx.control.store.list(ctx.key)
    if known and known[0].messages:
        said.append("The conversation so far goes to it once in full, without a cache.")
    await ctx.reply(" ".join(filter(None, said)))


def _current(ctx: CommandContext) -> str:
    info: ProviderInfo = ctx.control.provider(ctx.key)
    facts = ctx.control.model_facts(info)
    return f"Model: **{info.model}**{info.about}.{f' {facts}' if facts else ''}"


def _listed(offers: Sequence[ModelOffer]) -> str:
    """Presets and what the service offers, in two sentences."""
    named = [one.name for one in offers if one.kind == "preset"]
    there = [one.name for one in offers if one.kind == "service"]
    more = f", and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
    told = [f"Your presets are {_quoted(named)}."] if named else []
    told += [f"Its service offers {_quoted(there[:_SHOWN])}{more}."] if there else []
    return "\n\n" + " ".join(told) if told else ""


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
