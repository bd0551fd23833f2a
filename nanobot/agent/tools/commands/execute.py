"""Running commands: what a call means, what it may reach, and how its result reads.

A command line of plain words is run as the program that it names; any other one by `/bin/sh`. Either way the whole is
known before it is judged, and what was judged is run.
"""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.commands.around import FilesAround, first_line
from nanobot.agent.tools.commands.background import BACKGROUND_SECONDS, BackgroundTasks
from nanobot.agent.tools.commands.processes import END_SECONDS, CommandLimits, RunningCommand, brief, limited, readable
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.files.common import to_its_end
from nanobot.agent.tools.offers import ExecArguments
from nanobot.config.schema_tools import ExecConfig
from nanobot.errors import NanobotError, PathError, UsageError
from nanobot.files.origins import FROM_COMMAND
from nanobot.files.outputs import keep_output
from nanobot.files.snapshots import ChangedBy
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.files.store import FileStore
from nanobot.results import ToolResult, error_result
from nanobot.security.network import Exceptions
from nanobot.security.policy import Effect, EffectKind
from nanobot.security.sandbox import Confinement, Lifeline, Sandbox
from nanobot.utils.translation import ENGLISH, _, speaking

if TYPE_CHECKING:
    from nanobot.web.host_proxy import HostProxy

#: Files that a result names as hidden.
_HIDDEN_NAMED = 10
#: Signs that only a shell reads; a command without them is run as the program that it names.
_SHELL_SIGNS = frozenset("|&;<>()$`\\*?[]#~=%{}!\n")
#: Seconds of a command where the configuration sets no limit.
_LONGEST = 3_600
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?(:[0-9]{1,5})?")
#: Variables of nanobot's own environment that every command gets; others only where the configuration names them.
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")

_NOT_JUDGED = "The call is not the one that was judged any more. Send it again."
_UNGUARDED = (
    "The command was not started: the conversation or a file in its reach holds content from outside, and what steers "
    "nanobot or runs by itself (memory, skills, hooks) is too much to be kept from the command. Use the tools "
    "for files, or /new."
)


class _Plan(Struct, frozen=True):
    """What one call would run: `argv` in `cwd`, with `hosts` that it asks for."""

    argv: tuple[str, ...]
    cwd: Path
    where: str
    hosts: tuple[str, ...]

    @property
    def target(self) -> str:
        """What a rule, a question and a lasting answer are about: the words, and what is not as usual."""
        network = f" (network: {', '.join(self.hosts)})" if self.hosts else ""
        return f"{shlex.join(self.argv)}{self.where}{network}"


class ExecSetup(Struct, frozen=True):
    """What commands run among: the files of everybody, what runs in the background, and nanobot's own variables.

    `whitelist` are the private addresses that hosts may have, `find_proxy` gives the proxy that a public one is behind.
    """

    spaces: FileSpaces
    tasks: BackgroundTasks
    env: Mapping[str, str]
    whitelist: tuple[str, ...] = ()
    find_proxy: Callable[[str], str | None] = lambda _url: None


class ExecTool(OwnTool[ExecArguments], name="exec"):
    """Runs commands in `sandbox`, in the folders of whoever speaks.

    What a command prints counts as the person's own where nothing in its reach came from outside; else it is marked.
    """

    own_words = True

    def __init__(self, config: ExecConfig, sandbox: Sandbox, setup: ExecSetup) -> None:
        self._config = config
        self._sandbox = sandbox
        self._setup = setup
        self._own_processes = sandbox.name == "bubblewrap"
        self._ending: set[asyncio.Task[None]] = set()

    # Before the call

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        """The command with all that it may reach; one that makes no sense is forbidden with its reason."""
        try:
            plan = self._plan(self.read(self.canonical(arguments)), context)
        except (ValueError, PathError) as error:
            return (Effect("forbidden", str(arguments.get("cwd", "")), reason=str(error)),)
        script = plan.argv[2] if plan.argv[:2] == ("sh", "-c") and "\n" in plan.argv[2] else ""
        return (Effect(self._kind(plan, context), plan.target, script),)

    def _kind(self, plan: _Plan, context: ToolContext) -> EffectKind:
        """What is asked beside content from outside alone is looked up there alone: whether all can be kept."""
        if self._is_open(plan, context):
            return "run_open"
        if context.taint:
            with contextlib.suppress(NanobotError):
                return "run" if self._files(context).snapshots.whole() else "run_lossy"
            return "run_lossy"
        return "run"

    def _is_open(self, plan: _Plan, context: ToolContext) -> bool:
        """Whether it runs without a sandbox, or reaches hosts that are not granted to every command here."""
        return not self._sandbox.network_closed or not set(plan.hosts) <= set(self._granted(context))

    def _granted(self, context: ToolContext) -> tuple[str, ...]:
        """The hosts that are open without asking: none while content from outside stands in the conversation."""
        return () if context.taint else self._config.network

    def _plan(self, args: ExecArguments, context: ToolContext) -> _Plan:
        """Raises `ValueError` and `PathError`."""
        if bool(args.command.strip()) == bool(args.argv):
            raise ValueError("give either command or argv")
        if any("\0" in word for word in (args.command, *args.argv)):
            raise ValueError("a command holds no NUL character")
        roots = self._files(context).roots
        place = roots.place(args.cwd) if args.cwd else None
        cwd = place.path if place else roots.workspace
        if not cwd.is_dir():
            raise ValueError(f"cwd: {args.cwd} is no folder")
        hosts = tuple(sorted({one.strip().lower().rstrip(".") for one in args.network}))
        if wrong := [one for one in hosts if not _HOST.fullmatch(one)]:
            raise ValueError(f"network: {wrong[0]!r} is no name of a host, such as example.org")
        where = f" (in {place.shown})" if place and cwd != roots.workspace else ""
        return _Plan(args.argv or self._words(args.command), cwd, where, hosts)

    def _words(self, line: str) -> tuple[str, ...]:
        """The program and its arguments that a line means; the shell's where it takes one."""
        if _SHELL_SIGNS.isdisjoint(line):
            with contextlib.suppress(ValueError):
                words = tuple(shlex.split(line))
                if words and shutil.which(words[0], path=self._path):
                    return words
        return ("sh", "-c", line)

    def _files(self, context: ToolContext) -> FileStore:
        """The files of whoever speaks. Raises `PathError` where there are none."""
        return self._setup.spaces.of(FileUser(context.role, context.person, context.direct, "exec" in context.granted))

    # The call

    async def run(self, args: ExecArguments, context: ToolContext) -> ToolResult:
        try:
            plan = await asyncio.to_thread(self._plan, args, context)
            store = self._files(context)
            if args.background:
                self._setup.tasks.judge_room()
        except (PathError, UsageError, ValueError) as error:
            return error_result("invalid_input", f"The command was not started: {error}")
        around = await self._around(plan, store, context)
        if isinstance(around, ToolResult):
            return around
        hosts = tuple(dict.fromkeys((*plan.hosts, *self._granted(context)))) if self._sandbox.network_closed else ()
        seconds = args.timeout or (BACKGROUND_SECONDS if args.background else self._config.timeout or _LONGEST)
        limits = CommandLimits(seconds, self._config.memory_mb, self._config.processes)
        line = args.command.strip() or shlex.join(args.argv)
        told = ChangedBy(context.chat, brief(line), shared=args.background)
        try:
            work = await self._begin(plan, around, hosts, limits, told)
        except OSError as error:
            await asyncio.to_thread(around.drop)
            return error_result("failed", f"The command was not started: {error}")
        except BaseException:
            around.settle(told)
            raise
        if args.background:
            return await self._in_background(work, line, context)
        try:
            await work.command.wait(context.progress)
            return await asyncio.to_thread(self._result, work, line)
        finally:
            self._let_go(work)

    async def _around(self, plan: _Plan, store: FileStore, context: ToolContext) -> FilesAround | ToolResult:
        """The files around the command as they are now, or why it is not started."""
        asked = self._is_open(plan, context)
        judged = {one.kind for one in context.allowed if one.target == plan.target}
        if judged.isdisjoint({"run_open"} if asked else {"run", "run_lossy"}):
            return error_result("denied", _NOT_JUDGED)
        # Whether content from outside can reach what the command prints and writes.
        lets_in = bool(context.taint or plan.hosts or self._config.network) or not self._sandbox.network_closed
        around = FilesAround(store, tainted=bool(context.taint), foreign=lets_in)
        try:
            await to_its_end(around.prepare)
        except (NanobotError, OSError) as error:
            await asyncio.to_thread(around.drop)
            return error_result("denied", f"The command was not started. {error}")
        except BaseException:
            around.drop()
            raise
        lossy = bool(context.taint) and not around.whole and not asked and "run_lossy" not in judged
        if around.too_many or lossy:
            await asyncio.to_thread(around.drop)
            return error_result("denied", _NOT_JUDGED if lossy else _UNGUARDED)
        return around

    async def _begin(
        self, plan: _Plan, around: FilesAround, hosts: tuple[str, ...], limits: CommandLimits, told: ChangedBy
    ) -> "_Work":
        """Start the command, with a way to `hosts` and to no other. Raises `OSError`."""
        async with AsyncExitStack() as stack:
            proxy = self._proxy(hosts) if hosts else None
            socket = await stack.enter_async_context(proxy.serve()) if proxy else None
            lifeline, roots = Lifeline(), around.store.roots
            stack.callback(lifeline.cut)
            confinement = Confinement(
                (*(one.path for one in roots.roots if one.writable), around.home),
                tuple(one.path for one in roots.roots if not one.writable),
                (
                    *(one for one in roots.forbidden if any(root.path in one.parents for root in roots.roots)),
                    *around.keys,
                ),
                around.protected,
                socket,
                lifeline.inside,
            )
            own = self._own_processes
            line = self._sandbox.command(limited(plan.argv, limits, own_processes=own), plan.cwd, confinement)
            env = self._variables(around.home) | _without_byte_code(plan, around.home)
            command = await RunningCommand.start(line, plan.cwd, env, limits, lifeline)
            return _Work(command, around, told, stack.pop_all(), proxy)

    def _proxy(self, hosts: tuple[str, ...]) -> "HostProxy":
        from nanobot.web.client import Guard
        from nanobot.web.host_proxy import HostProxy

        return HostProxy(Guard(Exceptions.parse(self._setup.whitelist)), hosts, self._setup.find_proxy)

    @property
    def _path(self) -> str:
        return ":".join(filter(None, (self._setup.env.get("PATH", os.defpath), self._config.path_append.strip(":"))))

    def _variables(self, home: Path) -> dict[str, str]:
        """All that a command gets of the environment: no key of ours is among it unless the owner named it."""
        known = {name: self._setup.env[name] for name in _KEPT_VARIABLES if name in self._setup.env}
        temporary = "/tmp" if self._own_processes else self._setup.env.get("TMPDIR", "/tmp")  # noqa: S108 - its own there
        ours = {"PATH": self._path, "HOME": str(home), "TERM": "dumb", "TMPDIR": temporary}
        asked = {name: self._setup.env[name] for name in self._config.allowed_env_keys if name in self._setup.env}
        return {"LANG": "C.UTF-8", **known, **ours, **asked}

    async def _in_background(self, work: "_Work", line: str, context: ToolContext) -> ToolResult:
        task = await self._setup.tasks.add(context.address, line, work.command, work.finish)
        number = task.number
        receipt = _("started {command} in the background (task {number})", command=brief(line), number=number)
        text = (
            f"Task {task.number} runs in the background, also after this turn; it ends with nanobot. "
            f"The tool task reads and stops it (id {task.number})."
        )
        return ToolResult(text, receipt, receipt=receipt)

    def _result(self, work: "_Work", line: str) -> ToolResult:
        command = work.command
        notes = work.around.settle(work.told)
        changed = work.around.tally.receipt
        text = self._output(command, work.around) or "(no output)"
        advice = ["A longer timeout, or background: true, lets it go on."] if command.ended_by == "time" else []
        refused = work.proxy.refused if work.proxy else ()
        advice += (
            [f"Refused, for nobody granted it: {', '.join(refused)}. Name such hosts in network."] if refused else []
        )
        hidden = [work.around.store.roots.shown(one) for one in work.around.keys[:_HIDDEN_NAMED]]
        advice += [f"Hidden from it, for content from outside stands here: {', '.join(hidden)}."] if hidden else []
        with speaking(ENGLISH):  # the model reads it
            plain = command.outcome
        head = "\n".join((f"{plain} ({changed})" if changed else plain, *advice, *notes))
        ran = _("ran {command}: {outcome}", command=brief(line), outcome=command.outcome)
        if changed:
            ran = _("{ran} ({changed})", ran=ran, changed=changed)
        told = map(first_line, notes)  # the rest is advice for the model
        return ToolResult(
            f"{head}\n\n{text}",
            command.outcome,
            "timeout" if command.ended_by == "time" else None,
            untrusted=work.around.foreign,
            partial=bool(command.process.returncode),
            receipt="; ".join((ran, *told)),
        )

    def _output(self, command: RunningCommand, around: FilesAround) -> str:
        """What it wrote; of what is long its beginning and end, and where the whole is."""
        size, most = command.size, self._config.max_output_chars
        if size <= most:
            return readable(command.read(0, size)).strip("\n")
        half = most // 2
        try:
            place = keep_output(around.store, command.output(), FROM_COMMAND if around.foreign else ())
            kept = f"read_file pages through the whole: {place}"
        except (PathError, OSError) as error:  # a command may have put anything in the place of the folder
            kept = f"The whole could not be kept: {error}"
        left = f"[… {size - 2 * half:,} bytes are left out here. {kept}]"
        return f"{readable(command.read(0, half))}\n{left}\n{readable(command.read(size - half, half))}"

    def _let_go(self, work: "_Work") -> None:
        """End what still runs, which takes longer than a call that is cancelled may take."""
        ending = asyncio.create_task(work.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        """Wait until what was cancelled has ended, then end what runs in the background."""
        if self._ending:
            await asyncio.wait(self._ending, timeout=END_SECONDS)
        await self._setup.tasks.aclose()


def _without_byte_code(plan: _Plan, home: Path) -> dict[str, str]:
    """For a command that names skills, or runs among them: compiled Python beside their scripts is neither loaded nor
    written, for it would run in the place of what the owner has read. Other commands start faster with theirs."""
    if not any("skills" in one.casefold() for one in (*plan.argv, *plan.cwd.parts)):
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(home / ".compiled")}


class _Work(Struct, frozen=True):
    """A command with what belongs to it: the files around it, and its way out if it has one."""

    command: RunningCommand
    around: FilesAround
    told: ChangedBy
    stack: AsyncExitStack
    proxy: "HostProxy | None" = None

    async def finish(self) -> str:
        """After a command in the background; what is to be told of it."""
        notes = await asyncio.to_thread(self.around.settle, self.told)
        await self.stack.aclose()
        return "; ".join((*filter(None, (self.around.tally.receipt,)), *map(first_line, notes)))

    async def end(self) -> None:
        """After any other, whether it has ended by itself or not."""
        if self.command.running:
            await self.command.end("stopped")
            await asyncio.to_thread(self.around.settle, self.told)
        self.command.close()
        await self.stack.aclose()
