"""The tool by which the agent watches pages, feeds, searches and files for the person of the turn."""

from collections.abc import Mapping
from typing import ClassVar, Protocol

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import WatchArguments
from nanobot.bus.events import Sender
from nanobot.errors import NanobotError
from nanobot.results import ToolResult, error_result
from nanobot.schedule.appointments import Who
from nanobot.security.policy import Effect
from nanobot.utils.text import squeeze
from nanobot.utils.translation import N_, _
from nanobot.watch.target import read_target

_PAST = {
    "remove": N_("removed watch {number}"),
    "pause": N_("paused watch {number}"),
    "resume": N_("resumed watch {number}"),
}


class WatchControl(Protocol):
    """What a model may ask of watches; each raises `NanobotError`."""

    async def add(self, what: str, part: str, every: str, who: Who, sender: Sender) -> str: ...

    async def listed(self, who: Who) -> str: ...

    async def change(self, action: str, wanted: str, who: Who) -> str: ...

    async def news(self, sources: str, context: ToolContext) -> ToolResult:
        """What is new in these sources, or in all that the person watches, and was in no briefing."""


class WatchTool(OwnTool[WatchArguments], name="watch"):
    """`watch`: what is added runs by itself later, so it is judged as an appointment; its pages are judged as
    addresses."""

    own_words = True
    value_aliases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "do": {"create": "add", "delete": "remove", "cancel": "remove", "stop": "pause", "new": "news"}
    }

    def __init__(self, watches: WatchControl) -> None:
        self._watches = watches

    def canonical(self, arguments: Mapping[str, object]) -> dict[str, object]:
        given = super().canonical(arguments)
        return {**given, "what": str(given["what"])} if isinstance(given.get("what"), int) else given

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        args = self.meant(arguments)
        if args is None or args.do in ("list", "news"):
            return (Effect("send", context.address.key),)
        if args.do in _PAST:
            return (Effect("appointment", f"{args.do} watch {args.what}"),)
        shown = squeeze(f"{args.what} {args.part} {args.every}")
        return (Effect("appointment", f"watch {shown}"),)

    async def run(self, args: WatchArguments, context: ToolContext) -> ToolResult:
        who = Who(context.person, context.address.lasting, context.role, context.direct)
        sender = Sender(context.sender.id, context.sender.name, context.role, tuple(context.granted))
        try:
            if args.do == "news":
                return await self._watches.news(args.what, context)
            if args.do == "list":
                return ToolResult(await self._watches.listed(who), _("listed the watches"))
            if args.do in _PAST:
                said = await self._watches.change(args.do, args.what, who)
                return ToolResult(said, said, receipt=_(_PAST[args.do], number=args.what))
            said = await self._watches.add(args.what, args.part, args.every, who, sender)
        except NanobotError as error:
            return error_result("invalid_input", str(error))
        return ToolResult(said, said, receipt=_("watching {what}", what=read_target(args.what, args.part)))
