"""The owner's commands about who may talk: /pair, /unpair, /group."""

from nanobot.bus.events import Address, Role
from nanobot.channels.telegram.access import Access
from nanobot.channels.telegram.seams import Say
from nanobot.command.router import Command, CommandContext
from nanobot.errors import UsageError

_OWNER: frozenset[Role] = frozenset({"owner"})


LET_IN = "You have been let in. Just write what you want to know; /help lists the commands."


def access_commands(access: Access, say: Say) -> tuple[Command, ...]:
    """Commands that work on `access`; for the owner alone. `say` tells people what became of them."""

    async def pair(ctx: CommandContext) -> None:
        if ctx.args:
            person = await access.approve(ctx.args.split()[0])
            await say(Address(ctx.message.address.channel, person.id), LET_IN, f"let-in-{ctx.message.id}")
            who = f"{person.name} ({person.id})" if person.name else person.id
            await ctx.reply(f"{who} may talk to me now. `/unpair {person.id}` takes that back.")
            return
        lines = [f"- `{one.id}` {one.name} ({one.role})" for one in await access.people()]
        more = "Who wants in sends me /pair and gives you the code; then write `/pair <code>`."
        await ctx.reply("\n".join(["**Who may talk to me**", "", *lines, "", more]))

    async def unpair(ctx: CommandContext) -> None:
        if not ctx.args:
            raise UsageError("Name whom: `/unpair <id>`. /pair lists the ids.")
        person_id = ctx.args.split()[0]
        await access.remove(person_id)
        await ctx.reply(f"{person_id} may not talk to me any more.")

    async def group(ctx: CommandContext) -> None:
        chat = ctx.message.address.chat
        if not chat.startswith("-"):
            raise UsageError("This is for groups. Write it in the group, with my name: `/group@… on`.")
        wish = ctx.args.strip().casefold()
        if wish == "on":
            await access.allow_group(chat, "")
            await ctx.reply("I answer in this group now, when I am mentioned or replied to. `/group off` ends it.")
        elif wish == "off":
            await access.forbid_group(chat)
            await ctx.reply("I am silent in this group now.")
        else:
            state = "on" if await access.group_allowed(chat) else "off"
            await ctx.reply(f"I am {state} in this group. `/group on` and `/group off` change it.")

    return (
        Command(
            "pair",
            "Let somebody in by their code, or list who may talk",
            pair,
            "[code]",
            control=True,
            roles=_OWNER,
            surfaces="chat",
        ),
        Command("unpair", "Let somebody in no longer", unpair, "<id>", control=True, roles=_OWNER, surfaces="chat"),
        Command("group", "Answer in this group, or not", group, "on|off", control=True, roles=_OWNER, surfaces="chat"),
    )
