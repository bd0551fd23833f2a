"""Plug-ins: packages of others that are installed beside nanobot, found by their entry points.

Only those that the configuration names are imported. One that is broken is named, and costs nothing else.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import EntryPoint, distributions
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
    """One thing that a package offers: under `name`, in a `group`, by what `entry` points to."""

    package: str
    version: str
    group: Group
    name: str
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
        self._wanted = tuple(dict.fromkeys(map(_plain, enabled)))
        self._parts = tuple(_parts(frozenset(self._wanted)))
        there = {one.package for one in self._parts}
        self.problems: dict[str, str] = {name: _absent(name) for name in self._wanted if name not in there}

    def of(self, group: Group) -> tuple[PluginPart, ...]:
        """What the packages offer of one kind, the first of a name."""
        found: dict[str, PluginPart] = {}
        for one in self._parts:
            if one.group == group:
                found.setdefault(one.name, one)
        return tuple(found.values())

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
            self.problems[name] = _("{part} cannot be used: {why}", part=part.name, why=why)
            raise UsageError(_("The plug-in {name} is broken: {why}", name=name, why=self.problems[name])) from error

    def made(self, group: Group, *more: object) -> Iterator[tuple[str, object]]:
        """Everything of one kind by its name; what cannot be made is left out and noted."""
        for part in self.of(group):
            try:
                yield part.name, self.make(part, *more)
            except UsageError as error:
                self.problems.setdefault(part.package, str(error))

    def tools(self) -> dict[str, Callable[[], ToolLike]]:
        """A factory for every tool; it raises `SkipTool` where that cannot be made."""

        def factory(part: PluginPart) -> Callable[[], ToolLike]:
            def make() -> ToolLike:
                try:
                    tool = self.make(part)
                except UsageError as error:
                    raise SkipTool(str(error)) from error
                if not callable(getattr(tool, "call", None)):
                    none = _("the plug-in {package} gave no tool under {name}", package=part.package, name=part.name)
                    raise SkipTool(none)
                return cast("ToolLike", tool)

            return make

        return {part.name: factory(part) for part in self.of("nanobot.tools")}

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of the providers that there are."""
        return tuple(one.name for one in self.of("nanobot.providers"))

    def provider(self, model: str, defaults: AgentDefaults) -> LLMProvider | None:
        """The provider of a plug-in where `model` begins with its name, as in `mine/large`, or the configuration names
        it. Raises `UsageError` where it is broken."""
        parts = {one.name: one for one in self.of("nanobot.providers")}
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
        for name in self._wanted:
            parts = [one for one in self._parts if one.package == name]
            version = f" {parts[0].version}" if parts else ""
            offers = listed(f"{one.group.removeprefix('nanobot.')}: {one.name}" for one in parts)
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


def _parts(wanted: frozenset[str]) -> Iterator[PluginPart]:
    for one in distributions():
        name = _plain(one.metadata["Name"] or "")
        if name in wanted:
            for entry in one.entry_points:
                for group in GROUPS:
                    if entry.group == group:
                        yield PluginPart(name, one.version, group, entry.name, entry)


def _absent(name: str) -> str:
    """Why nothing is found of a package: it is not there, or offers nothing."""
    known = {_plain(one.metadata["Name"] or ""): one for one in distributions()}
    if name in known:
        return _("it is installed and offers nothing that nanobot knows")
    offering = [key for key, one in known.items() if any(entry.group in GROUPS for entry in one.entry_points)]
    near = nearest(name, offering)
    absent = _("it is not installed beside nanobot.")
    return sentences(absent, _("Did you mean {name}?", name=near) if near else "")


def _plain(name: str) -> str:
    """The name of a package as all compare it: small letters, and one hyphen for what joins words."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
