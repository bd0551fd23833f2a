"""The tools that are offered, by name."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from copy import copy

from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.errors import SkipTool
from nanobot.messages import Role
from nanobot.providers.base import ToolSpec
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import OWN, PERSONAL, Verdict
from nanobot.session.pins import ToolWords
from nanobot.utils.logs import without_secrets
from nanobot.utils.text import nearest
from nanobot.utils.translation import Later, _, told

ToolFactory = Callable[[], ToolLike]
RunTool = Callable[[ToolLike, dict[str, object], ToolContext | None], Awaitable[ToolResult]]


def skipped(why: str) -> ToolFactory:
    """The factory of a tool that cannot be offered."""

    def factory() -> ToolLike:
        raise SkipTool(why)

    return factory


class ToolRegistry:
    """Tools by their canonical name; aliases find the same tool.

    `run` is what runs a call that is allowed.
    """

    def __init__(self) -> None:
        self._tools: dict[str, ToolLike] = {}
        self._aliases: dict[str, str] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        self._skipped: dict[str, str] = {}
        self._alone = asyncio.Lock()  # of exclusive tools, for all sessions
        self.run: RunTool = lambda tool, arguments, context: tool.call(arguments, context)

    def register(self, tool: ToolLike) -> None:
        """Offer a tool. A second tool of the same name replaces the first."""
        self.replace({tool.name: lambda: tool})

    def register_factory(self, name: str, factory: ToolFactory) -> None:
        """Build and offer a tool, or keep the reason why it cannot be offered."""
        self.replace({name: factory})

    def replace(self, factories: Mapping[str, ToolFactory], prefix: str | None = None) -> "ToolRegistry":
        """Offer these tools in the place of those of their names and of all whose names begin with `prefix`; what was
        offered before, for who goes on with it."""
        before = copy(self)
        gone = {name for name in (*self._tools, *self._skipped) if prefix is not None and name.startswith(prefix)}
        gone |= factories.keys()
        # Not the same dicts: a turn may go on with those.
        self._tools = {name: tool for name, tool in self._tools.items() if name not in gone}
        self._skipped = {name: why for name, why in self._skipped.items() if name not in gone}
        self._aliases = dict(self._aliases)
        self._specs = None
        for name, factory in factories.items():
            try:
                tool = factory()
            except SkipTool as reason:
                self._skipped[name] = reason.args[0] if reason.args else str(reason)
                continue
            self._tools[tool.name] = tool
            self._aliases |= dict.fromkeys(tool.aliases, tool.name)
        return before

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names, sorted."""
        return tuple(sorted(self._tools))

    @property
    def skipped(self) -> dict[str, str]:
        """Tools that cannot be offered, and why."""
        return {name: told(why) if isinstance(why, Later) else _(why) for name, why in self._skipped.items()}

    def get(self, name: str) -> ToolLike | None:
        """The tool of that name or alias."""
        return self._tools.get(name) or self._tools.get(self._aliases.get(name, ""))

    def specs(
        self, role: Role = "owner", granted: frozenset[str] = frozenset(), *, direct: bool = True
    ) -> tuple[ToolSpec, ...]:
        """What a model is told, sorted by name; made once and kept until the set of tools changes.

        In turns that are not the owner's it is told of tools that read what anybody may read, and in those of a user of
        what the owner has `granted` and what is their own. Where others read along, that is not `direct`, nobody has
        files, commands and what is their own.
        """
        if self._specs is None:
            self._specs = tuple(self._tools[name].spec for name in self.names)
        if role == "owner" and direct:
            return self._specs
        granted = granted | {OWN} if role == "user" else frozenset()

        def is_offered(tool: ToolLike) -> bool:
            if tool.grant in PERSONAL and not direct:
                return False
            talks = role == "user" and tool.access == "talks"
            return role == "owner" or tool.access == "public" or talks or tool.grant in granted

        return tuple(spec for spec in self._specs if is_offered(self._tools[spec.name]))

    def described(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolWords, ...]:
        """What strangers say of these tools, which a model is told."""
        told = (self._tools[spec.name].foreign_words for spec in specs)
        return tuple(filter(None, told))

    async def execute(
        self, name: str, arguments: dict[str, object], verdict: Verdict, context: ToolContext | None = None
    ) -> ToolResult:
        """Run one call that `verdict` allows; one about any other call allows nothing.

        Never raises (besides cancellation); an unknown name is answered with the nearest known one. What comes back
        holds no key or token of the configuration.
        """
        tool = self.get(name)
        if tool is None:
            near = nearest(name, [*self._tools, *self._aliases])
            hint = f" Did you mean {self._aliases.get(near, near)!r}?" if near else ""
            known = ", ".join(self.names) or "none"
            return error_result("not_found", f"There is no tool named {name!r}.{hint} Available tools: {known}.")
        if not verdict.covers(tool.name, arguments):
            why = ("; ".join(verdict.reasons) or "it was not judged").removesuffix(".")
            advice = "Find another way, or say what you could not do."
            return error_result(
                "denied", f"The call was not run: {why}. {advice}", message=_("not run: {reason}", reason=why)
            )
        if not tool.exclusive:
            return _cleaned(await self.run(tool, arguments, context))
        async with self._alone:
            return _cleaned(await self.run(tool, arguments, context))


def _cleaned(result: ToolResult) -> ToolResult:
    """A result without the keys and tokens of the configuration, which no model, file or person is to read in it."""
    texts = (result.text, result.message, result.receipt, result.diff)
    text, message, receipt, diff = map(without_secrets, texts)
    sources = tuple(replace(one, title=without_secrets(one.title)) for one in result.sources)
    return replace(result, text=text, message=message, receipt=receipt, diff=diff, sources=sources)
