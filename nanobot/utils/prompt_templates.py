"""Prompts kept as Markdown files with fields.

`{{ name }}` is a field, `{% if name %} ... {% endif %}` a part that stands there where the field says something, and
`{% include "agent/name.md" %}` another template.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from loguru import logger

from nanobot.utils.host import shipped

_IF = re.compile(r"\{% if (\w+) %\}\n?((?:(?!\{%).)*)\{% endif %\}\n?", re.DOTALL)
_FIELD = re.compile(r'\{\{ *(\w+) *\}\}|\{% include "(\w[\w/]*\.md)" %\}\n?')
_MORE = re.compile(r"\{[{%#].{,40}")


class PromptTemplates:
    """Renders templates by name such as `agent/identity.md`.

    A copy under `<workspace>/templates/` overrides the shipped file. An override that cannot be rendered is logged and
    the shipped one is used, so that a typing error never silences the agent.
    """

    def __init__(self, workspace: Path | None = None) -> None:
        self._workspace = workspace

    def render(self, name: str, **values: object) -> str:
        """The text of a template. Raises `FileNotFoundError` where there is none."""
        if self._workspace is not None:
            try:
                return _rendered(name, values, (self._workspace / "templates", shipped("templates"))).strip()
            except (ValueError, LookupError, OSError, RecursionError) as error:
                logger.warning("template {} of the workspace is not used: {}", name, error)
        return _rendered(name, values, (shipped("templates"),)).strip()


def _rendered(name: str, values: Mapping[str, object], folders: tuple[Path, ...]) -> str:
    """Raises `ValueError` for anything else in braces, and `LookupError` for a field that nobody gives."""
    path = next((path for folder in folders if (path := folder / name).is_file()), folders[-1] / name)
    text = _IF.sub(lambda part: part[2] if values[part[1]] else "", path.read_text(encoding="utf-8").removesuffix("\n"))
    if more := _MORE.search(_FIELD.sub("", text)):
        # English: the log reads it
        raise ValueError(f"{name} holds {more[0]!r}, which is no field, condition or include")
    return _FIELD.sub(lambda one: _rendered(one[2], values, folders) if one[2] else str(values[one[1]]), text)
