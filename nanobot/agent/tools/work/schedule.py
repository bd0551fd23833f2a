"""The tool by which the agent keeps appointments for the person of the turn."""

from collections.abc import Mapping
from typing import ClassVar

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import ScheduleArguments
from nanobot.errors import NanobotError
from nanobot.results import ToolResult, error_result
from nanobot.schedule.appointments import Appointments, Who
from nanobot.schedule.job import JobKind, Once
from nanobot.security.policy import Effect
from nanobot.utils.text import squeeze
from nanobot.utils.translation import N_, _

#: Else one task could set others, and they more, while nobody looks.
_ALONE = "What runs by itself sets no tasks and nothing that repeats; it may set a reminder for one time."
_KINDS: Mapping[str, JobKind] = {"remind": "remind", "task": "ask", "briefing": "briefing"}
_PAST = {"remove": N_("removed job {number}"), "pause": N_("paused job {number}"), "resume": N_("resumed job {number}")}


class ScheduleTool(OwnTool[ScheduleArguments], name="schedule"):
    """`schedule`: what is set runs by itself later, so it is asked for beside content from outside."""

    own_words = True
    value_aliases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "do": {
            **dict.fromkeys(("add", "create"), "remind"),
            **dict.fromkeys(("delete", "cancel"), "remove"),
            "ask": "task",
            "news": "briefing",
        }
    }

    def __init__(self, appointments: Appointments) -> None:
        self._appointments = appointments

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        args = self.meant(arguments)
        if args is None or args.do == "list":
            return (Effect("send", context.address.key),)
        if args.do in _PAST:
            return (Effect("appointment", f"{args.do} job {args.id}"),)
        shown = f"{args.do}, {args.when}: {args.text}"
        return (Effect("appointment", squeeze(shown), shown),)

    async def run(self, args: ScheduleArguments, context: ToolContext) -> ToolResult:
        who = Who(context.person, context.address.lasting, context.role, context.direct)
        try:
            if args.do == "list":
                return ToolResult(await self._appointments.listed(who), _("listed the schedule"))
            if args.do in _PAST:
                said = await self._appointments.change(args.do, str(args.id or ""), who)
                receipt = _(_PAST[args.do], number=args.id)
                return ToolResult(said, receipt, receipt=receipt)
            if context.scheduled and (args.do != "remind" or not isinstance(self._appointments.read(args.when), Once)):
                return error_result("denied", _ALONE)
            made = await self._appointments.add(_KINDS[args.do], args.text, args.when, who)
        except NanobotError as error:
            return error_result("invalid_input", str(error))
        told = f"{made.line}. {made.note}".strip()
        return ToolResult(f"{told[0].upper()}{told[1:]}", made.line, receipt=made.line)
