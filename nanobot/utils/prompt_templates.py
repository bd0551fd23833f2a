"""Prompts kept as Markdown files with Jinja2 fields."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from loguru import logger

from nanobot.utils.host import shipped

#: A part that depends on a field, a field, and an include: all that the shipped templates hold.
_IF = re.compile(r"\{% if (\w+) %\}\n?((?:(?!\{%).)*)\{% endif %\}\n?", re.DOTALL)
_PLAIN = re.compile(r'\{\{ *(\w+) *\}\}|\{% include "([\w/]+\.md)" %\}\n?')
_MORE = re.compile(r"\{[{%#]")


class PromptTemplates:
    """Renders templates by name such as `agent/identity.md`.

    A copy under `<workspace>/templates/` overrides the shipped file. An override that cannot be rendered is logged and
    the shipped one is used, so that a typing error never silences the agent.
    """

    def __init__(self, workspace: Path | None = None) -> None:
        self._own = workspace / "templates" if workspace is not None else None

    def render(self, name: str, **values: object) -> str:
        """The text of a template. Raises `jinja2.TemplateError` only where the shipped file itself is broken."""
        if self._own is not None:
            try:
                if self._own.is_dir():
                    return _rendered(name, values, self._own, shipped("templates"))
            except (ValueError, TypeError, OSError, LookupError, ArithmeticError, RecursionError) as error:
                logger.warning("template {} of the workspace is not used: {}", name, error)
        return _as_shipped(name, tuple(values.items()))


@lru_cache(maxsize=32)
def _as_shipped(name: str, values: tuple[tuple[str, object], ...]) -> str:
    """What the program brings with it stays as it is while it runs."""
    return _rendered(name, dict(values), shipped("templates"))


def _rendered(name: str, values: Mapping[str, object], *folders: Path) -> str:
    plain = _plain(name, values, folders)
    return (_by_jinja(name, values, folders) if plain is None else plain).strip()


def _plain(name: str, values: Mapping[str, object], folders: tuple[Path, ...]) -> str | None:
    """A template with nothing but parts of the above kinds, without loading Jinja (30 ms); None for any other."""
    path = next((path for folder in folders if (path := folder / name).is_file()), None)
    text = path.read_text(encoding="utf-8").removesuffix("\n") if path is not None else "{%"
    text = _IF.sub(lambda part: part[0] if part[1] not in values else part[2] if values[part[1]] else "", text)
    if _MORE.search(_PLAIN.sub("", text)):
        return None
    parts: list[str] = []
    begin = 0
    for found in _PLAIN.finditer(text):
        part = str(values[found[1]]) if found[1] in values else None
        part = _plain(found[2], values, folders) if found[2] else part
        if part is None:
            return None
        parts += [text[begin : found.start()], part]
        begin = found.end()
    return "".join([*parts, text[begin:]])


def _by_jinja(name: str, values: Mapping[str, object], folders: tuple[Path, ...]) -> str:
    """Raises `ValueError` for a template that Jinja refuses, `jinja2.TemplateNotFound` for one that is not there."""
    from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound
    from jinja2.sandbox import SandboxedEnvironment

    # The output is Markdown for a model, not HTML: escaping would spoil it.
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(folders, encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return environment.get_template(name).render(values)
    except TemplateNotFound:
        raise
    except TemplateError as error:
        raise ValueError(str(error)) from error
