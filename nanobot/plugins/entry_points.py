"""Plug-ins: packages of others that are installed beside nanobot, found by their entry points.

Only those that the configuration names are imported. One that is broken is named, and costs nothing else.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Literal, cast, get_args

from loguru import logger
from msgspec import Struct, field

from nanobot.agent.tools.base import ToolLike
from nanobot.config.schema import AgentDefaults, Config
from nanobot.errors import SkipTool, UsageError
from nanobot.plugins.hooks import Hooks
from nanobot.providers.base import LLMProvider
from nanobot.utils.text import nearest, one_line
from nanobot.utils.translation import _, apart, listed, sentences
from nanobot.web.fetch.page import PluginReader
from nanobot.web.search.base import SearchBackend

Group = Literal["nanobot.tools", "nanobot.channels", "nanobot.providers", "nanobot.search", "nanobot.readers"]
GROUPS: tuple[Group, ...] = get_args(Group)


class PluginSetup(Struct, frozen=True):
    """What a plug-in is given: `settings` are its own of the configuration, `env` nanobot's variables, `folder` is its
    place in the home, which it makes when it needs one."""

    settings: Mapping[str, object] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()


class PluginPart(Struct, frozen=True):
    """One thing that a package offers."""

    package: str
    entry: EntryPoint


class Plugins:
    """The packages that are named in `enabled`. `settings` are those of each; `home` is where their folders lie.

    What went wrong is kept in `problems`, by the package.
    """

    def __init__(
        self, enabled: tuple[str, ...], settings: Mapping[str, Mapping[str, object]], env: Mapping[str, str], home: Path
    ) -> None:
        self._settings = {_plain(name): values for name, values in settings.items()}
        self._env = env
        self._home = home
        there = _installed()
        self._wanted = {name: there.get(name) for name in map(_plain, enabled)}
        self._parts = [PluginPart(name, entry) for name, one in self._wanted.items() for entry in _entries(one)]
        offering = {one.package for one in self._parts}
        self.problems = {name: _absent(name, there) for name in self._wanted if name not in offering}

    def of(self, group: Group) -> tuple[PluginPart, ...]:
        """What the packages offer of one kind, the first of a name."""
        found = {one.entry.name: one for one in reversed(self._parts) if one.entry.group == group}
        return tuple(reversed(found.values()))

    def make(self, part: PluginPart, *more: object) -> object:
        """What a part makes of its setup, and of what else its kind is given. Raises `UsageError` where it cannot."""
        name = part.package
        setup = PluginSetup(self._settings.get(name, {}), self._env, self._home / "plugins" / name)
        try:
            factory: Callable[..., object] = part.entry.load()
            return factory(setup, *more)
        except SkipTool as reason:
            raise UsageError(str(reason)) from reason
        except Exception as error:
            logger.opt(exception=error).error("plug-in {} failed", name)
            said = one_line(str(error), 200)
            why = f"{type(error).__name__}: {said}"
            self.problems[name] = _("{part} cannot be used: {why}", part=part.entry.name, why=why)
            raise UsageError(_("The plug-in {name} is broken: {why}", name=name, why=self.problems[name])) from error

    def made(self, group: Group, *more: object) -> Iterator[tuple[str, object]]:
        """Everything of one kind by its name; what cannot be made is left out and noted."""
        for part in self.of(group):
            try:
                yield part.entry.name, self.make(part, *more)
            except UsageError as error:
                why = _("{part} cannot be used: {why}", part=part.entry.name, why=error)
                self.problems.setdefault(part.package, why)

    def tools(self) -> dict[str, Callable[[], ToolLike]]:
        """A factory for every tool; it raises `SkipTool` where that cannot be made."""
        return {part.entry.name: partial(self._tool, part) for part in self.of("nanobot.tools")}

    def _tool(self, part: PluginPart) -> ToolLike:
        try:
            tool = self.make(part)
        except UsageError as error:
            raise SkipTool(str(error)) from error
        if not callable(getattr(tool, "call", None)):
            none = _("the plug-in {package} gave no tool under {name}", package=part.package, name=part.entry.name)
            raise SkipTool(none)
        return cast("ToolLike", tool)

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of the providers that there are."""
        return tuple(one.entry.name for one in self.of("nanobot.providers"))

    def provider(self, model: str, defaults: AgentDefaults) -> LLMProvider | None:
        """The provider of a plug-in where `model` begins with its name, as in `mine/large`, or the configuration names
        it. Raises `UsageError` where it is broken."""
        parts = {one.entry.name: one for one in self.of("nanobot.providers")}
        name, mark, rest = (model or defaults.model).partition("/")
        wanted = name if mark and name in parts else "" if model else defaults.provider
        if wanted not in parts:
            return None
        return cast("LLMProvider", self.make(parts[wanted], rest if wanted == name else defaults.model))

    def engines(self) -> dict[str, Callable[[], SearchBackend]]:
        """The search engines, by `plugin:<name>`."""
        return {f"plugin:{name}": partial(cast, "SearchBackend", one) for name, one in self.made("nanobot.search")}

    def readers(self) -> tuple[PluginReader, ...]:
        """What reads pages."""
        return tuple(one for _name, one in self.made("nanobot.readers") if isinstance(one, PluginReader))

    def lines(self) -> list[str]:
        """For /status: a line for each package, with what it offers or what is wrong with it."""
        lines = []
        for name, there in self._wanted.items():
            version = f" {there.version}" if there else ""
            offers = listed(f"{one.group.removeprefix('nanobot.')}: {one.name}" for one in _entries(there))
            told = apart(filter(None, (offers, self.problems.get(name, ""))))
            lines.append(_("Plug-in {name}: {what}", name=f"{name}{version}", what=told))
        return lines


def begin(config: Config, env: Mapping[str, str], home: Path) -> tuple[Hooks | None, Plugins | None]:
    """The hooks and the plug-ins of a configuration, each None where it has none."""
    hooks = config.hooks
    any_hook = hooks.before_tool or hooks.after_tool or hooks.turn_end
    named = config.plugins.enabled
    plugins = Plugins(named, config.plugins.settings, env, home) if named else None
    return Hooks(hooks, env) if any_hook else None, plugins


def _installed() -> dict[str, Distribution]:
    """The packages beside nanobot by their names; of two of a name the one that is imported."""
    return {_plain(one.metadata["Name"] or ""): one for one in reversed([*distributions()])}


def _entries(package: Distribution | None) -> tuple[EntryPoint, ...]:
    """What a package offers that nanobot knows."""
    return tuple(one for one in package.entry_points if one.group in GROUPS) if package else ()


def _absent(name: str, there: Mapping[str, Distribution]) -> str:
    """Why nothing is found of a package: it is not there, or offers nothing."""
    if name in there:
        return _("it is installed and offers nothing that nanobot knows")
    near = nearest(name, [key for key, one in there.items() if _entries(one)])
    absent = _("it is not installed beside nanobot.")
    return sentences(absent, _("Did you mean {name}?", name=near) if near else "")


def _plain(name: str) -> str:
    """The name of a package as all compare it: small letters, and one hyphen for what joins words."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
