"""Hooks: small commands of the owner that are told of each call of a tool and of the end of each turn.

A hook before a call may refuse it, after the judge has allowed it; none can allow what was refused.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from loguru import logger

from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.agent.tools.registry import RunTool
from nanobot.bus.events import InboundMessage, TurnFinished
from nanobot.config.schema_tools import HookConfig, HooksConfig
from nanobot.results import ToolResult, error_result
from nanobot.utils.logs import without_secrets
from nanobot.utils.processes import run_program
from nanobot.utils.text import one_line, shorten
from nanobot.utils.translation import _

#: What of nanobot's variables a hook sees.
_PASSED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
#: The exit code by which a hook refuses a call, and characters of its reason and of an answer that it is told.
DENIED, _REASON, _ANSWER = 2, 500, 20_000


class Hooks:
    """The hooks of the configuration. `env` are nanobot's own variables. Call `aclose` at the end."""

    def __init__(self, config: HooksConfig, env: Mapping[str, str]) -> None:
        self._config = config
        self._env = {key: env[key] for key in _PASSED if key in env}
        self._work: set[asyncio.Task[None]] = set()

    def around(self, inner: RunTool) -> RunTool:
        """What runs a call that was allowed, with the hooks before and after it."""

        async def run(tool: ToolLike, arguments: dict[str, object], context: ToolContext | None) -> ToolResult:
            told = _call(tool.name, arguments, context or ToolContext())
            if refused := await self._refused(tool.name, {"event": "beforeTool", **told}):
                why = refused.removesuffix(".")
                # English: a model reads it
                words = f"The call was not run: {why}. Find another way, or say what you could not do."
                return error_result("denied", words, message=_("not run: {why}", why=why))
            result = await inner(tool, arguments, context)
            said = {"error": result.error or "", "summary": result.message, "receipt": result.receipt}
            after = {"event": "afterTool", **told, "result": {**said, "characters": len(result.text)}}
            for one in _for(self._config.after_tool, tool.name):
                await self._told(one, after)
            return result

        return run

    def turn_ended(self, message: InboundMessage, session: str, finished: TurnFinished) -> None:
        """Tell the hooks of the end of a turn, beside what goes on."""
        if not self._config.turn_end:
            return
        told: dict[str, object] = {
            "event": "turnEnd",
            "session": session,
            "person": message.person,
            "chat": message.address.key,
            "cause": message.cause,
            "outcome": finished.outcome,
            "answer": shorten(finished.text, _ANSWER),
            "error": finished.error,
            "receipts": list(finished.receipts),
            "steps": finished.steps,
            "seconds": round(finished.seconds, 3),
        }

        async def tell() -> None:
            for one in self._config.turn_end:
                await self._told(one, told)

        task = asyncio.create_task(tell())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def aclose(self) -> None:
        """Wait for what still runs; each has its own time."""
        if self._work:
            await asyncio.wait(set(self._work))

    async def _refused(self, tool: str, told: Mapping[str, object]) -> str:
        """Why a hook does not let a call run; empty where all let it. One that fails lets nothing run."""
        for one in _for(self._config.before_tool, tool):
            name = one.command[0]
            code, said = await self._run(one, told)
            if code == DENIED:
                return said or _("the hook {hook} refused it", hook=name)
            if code != 0:
                what = said or _("ended with code {code}", code=code)
                return _("the hook {hook} that has to agree {what}", hook=name, what=what)
        return ""

    async def _told(self, hook: HookConfig, told: Mapping[str, object]) -> None:
        """Run a hook that decides nothing; that it failed is logged."""
        code, said = await self._run(hook, told)
        if code != 0:
            logger.warning("the hook {} failed: {}", hook.command[0], said or f"exit code {code}")

    async def _run(self, hook: HookConfig, told: Mapping[str, object]) -> tuple[int, str]:
        """The exit code of a hook and what it said on standard error; -1 where it did not come to an end."""
        given = without_secrets(json.dumps(told, ensure_ascii=False, default=str)).encode("utf-8", "replace")
        try:
            ended = await run_program(hook.command, hook.timeout, self._env, given=given)
        except TimeoutError:
            return -1, _("took longer than {seconds:g} s", seconds=hook.timeout)
        except (OSError, ValueError) as error:
            return -1, _("cannot start: {why}", why=error)
        return ended.code, one_line(ended.error.decode("utf-8", "replace"), _REASON)


def _for(hooks: Sequence[HookConfig], tool: str) -> tuple[HookConfig, ...]:
    return tuple(one for one in hooks if fnmatchcase(tool, one.tool))


def _call(name: str, arguments: Mapping[str, object], context: ToolContext) -> dict[str, object]:
    return {
        "tool": name,
        "arguments": dict(arguments),
        "session": context.session,
        "turn": context.turn_id,
        "person": context.person,
        "chat": context.address.key,
        "tainted": bool(context.taint),
        "scheduled": context.scheduled,
    }
