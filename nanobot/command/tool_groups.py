"""What the agent can do, in words of people: its tools as a few groups that are on or off, and why."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from nanobot.utils.text import shorten

#: Characters of the description of a tool that others wrote.
_WIDTH = 100
#: Group → what it does, and the tools that are in it; a tool of no group stands for itself.
_GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Web": ("searches the web, reads pages and documents", ("web_search", "web_fetch")),
    "Files": (
        "reads, finds, writes and deletes files; `/undo` takes a change back",
        ("read_file", "list_dir", "glob", "grep", "write_file", "edit_file", "delete_file"),
    ),
    "Commands": ("runs commands in a sandbox", ("exec", "task")),
    "Talking": ("asks you, shows its steps, sends messages and files", ("ask", "todo", "message")),
    "Memory": ("notes facts, finds what was said and noted, and your documents", ("remember", "recall", "library")),
    "Skills": (
        "reads how something is done before it does it, keeps what worked; `/skills` lists them",
        ("skill", "learn"),
    ),
    "Documentation": ("looks things up in the documentation of nanobot", ("nanobot_docs",)),
}


class ToolGroup(Struct, frozen=True):
    """Tools that belong together. `on` are those that are offered, `off` those that are not, each with the reason."""

    name: str
    does: str
    on: tuple[str, ...]
    off: tuple[tuple[str, str], ...]

    @property
    def line(self) -> str:
        """The group as a line of Markdown; a tool of no group without the words of one."""
        whys = list(dict.fromkeys(why.rstrip(".") for _, why in self.off))
        if self.name not in _GROUPS:
            return f"- {self.name} {self.does}" if self.on else f"- {self.name} (off): {'; '.join(whys)}"
        if not self.on:
            return f"- **{self.name}** (off): {'; '.join(whys)}"
        missing = [f"`{name}` is off: {why.rstrip('.')}" for name, why in self.off]
        names = ", ".join(f"`{name}`" for name in self.on)
        return f"- **{self.name}** (on): {'; '.join([f'{self.does} ({names})', *missing])}"


def tool_groups(tools: Sequence[tuple[str, str, str]]) -> tuple[ToolGroup, ...]:
    """The groups of tools, each a name, what it does in its own words, and why it is missing, if it is."""
    groups = [_group(name, does, [one for one in tools if one[0] in names]) for name, (does, names) in _GROUPS.items()]
    others = [_group(f"`{one[0]}`", shorten(one[1], _WIDTH), [one]) for one in tools if not _known(one[0])]
    return tuple(group for group in (*groups, *others) if group.on or group.off)


def tools_line(tools: Sequence[tuple[str, str, str]]) -> str:
    """Which groups are on and which off, in one line."""
    groups = [group for group in tool_groups(tools) if group.name in _GROUPS]
    others = [name for name, _, why in tools if not why and not _known(name)]
    remote = sum(name.startswith("mcp_") for name in others)
    on = [group.name.lower() for group in groups if group.on]
    on += [name for name in others if not name.startswith("mcp_")]
    on += [f"{remote} tool{'s' * (remote != 1)} of MCP servers"] if remote else []
    off = [group.name.lower() for group in groups if not group.on]
    return "; ".join(filter(None, [f"{', '.join(on)} on" if on else "none", f"{', '.join(off)} off" if off else ""]))


def missing_lines(skipped: Mapping[str, str]) -> list[str]:
    """Tools that are not offered, each group of them that has one reason in a line."""
    names: dict[str, list[str]] = {}
    for name, reason in sorted(skipped.items()):
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(found)}: {reason}" for reason, found in names.items()]


def _known(name: str) -> bool:
    return any(name in names for _, names in _GROUPS.values())


def _group(name: str, does: str, tools: Iterable[tuple[str, str, str]]) -> ToolGroup:
    found = list(tools)
    off = tuple((one, why) for one, _, why in found if why)
    return ToolGroup(name, does, tuple(one for one, _, why in found if not why), off)
