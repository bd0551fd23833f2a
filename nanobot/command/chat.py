"""The commands about a chat and its people: what is shown, what stays here, who is who, what it costs."""

from collections.abc import Mapping

from nanobot.bus.events import Role
from nanobot.command.router import Command, CommandContext
from nanobot.command.settings import CHOICES, SettingName, SettingsControl
from nanobot.messages import Usage

_EVERYONE: frozenset[Role] = frozenset({"owner", "user", "guest"})
_SUMMARIES: Mapping[SettingName, str] = {
    "hints": "Show or hide what is done while it works",
    "streaming": "Show the answer while it is written, or when it is done",
    "privacy": "Keep pages and speech away from services that read them elsewhere",
}
_MEANINGS: Mapping[tuple[SettingName, str], str] = {
    ("hints", "live"): "what it does is shown while it works and folded up afterwards",
    ("hints", "keep"): "what it does is shown and stays",
    ("hints", "off"): "what it does is not shown",
    ("streaming", "edit"): "the answer is shown while it is written",
    ("streaming", "draft"): "the answer is shown as a draft while it is written",
    ("streaming", "off"): "the answer comes when it is done",
    ("privacy", "off"): "pages may be read with the help of the configured services",
    ("privacy", "on"): "pages and speech go to no service but the model",
}


def chat_commands(settings: SettingsControl) -> tuple[Command, ...]:
    """/usage /whoami /privacy /hints /streaming."""
    return (
        Command("usage", "Show tokens and money of today and of seven days", _usage, control=True),
        Command("whoami", "Show your id, your role and this chat", _whoami, control=True, roles=_EVERYONE),
        _setting("privacy", settings),
        _setting("hints", settings),
        _setting("streaming", settings),
    )


def _setting(name: SettingName, settings: SettingsControl) -> Command:
    async def run(ctx: CommandContext) -> None:
        chat, wanted = ctx.message.address.key, ctx.args.strip().casefold()
        if wanted:
            ctx.change_what_all_share()
            await settings.set(chat, name, wanted)
        value = await settings.get(chat, name)
        others = " or ".join(f"`/{name} {other}`" for other in CHOICES[name] if other != value)
        await ctx.reply(
            f"{name.capitalize()}: **{value}**, {_MEANINGS[name, value]}. {others} changes it for this chat."
        )

    usage = f"[{'|'.join(CHOICES[name])}]"
    return Command(name, _SUMMARIES[name], run, usage, control=True, surfaces="all" if name == "privacy" else "chat")


async def _usage(ctx: CommandContext) -> None:
    spent = await ctx.control.spending(ctx.message.address.key)
    lines = ["**Usage**", "", f"- Today: {_cost(spent.today)}", f"- Seven days: {_cost(spent.week)}"]
    if ctx.for_owner_alone and spent.all_week != spent.week:
        lines += [f"- Today, all chats: {_cost(spent.all_today)}", f"- Seven days, all chats: {_cost(spent.all_week)}"]
    if spent.all_week.requests and not spent.all_week.cost:
        lines += ["", "The provider does not tell what its answers cost."]
    await ctx.reply("\n".join(lines))


def _cost(usage: Usage) -> str:
    if not usage.requests and not usage.input:
        return "nothing"
    cached = f" ({usage.cached / usage.input:.0%} from the cache)" if usage.cached and usage.input else ""
    money = f", {usage.cost:.4f} USD" if usage.cost else ""
    asked = f", {usage.requests:,} request{'s' * (usage.requests != 1)}" if usage.requests else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out{asked}{money}"


async def _whoami(ctx: CommandContext) -> None:
    sender, address = ctx.message.sender, ctx.message.address
    name = f"{sender.name}, " if sender.name else ""
    topic = f", topic `{address.thread}`" if address.thread else ""
    await ctx.reply(
        f"You: {name}id `{sender.id}`, {sender.role}.\nThis chat: `{address.chat}`{topic} on {address.channel}."
    )
