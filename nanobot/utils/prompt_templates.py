"""Prompts kept as Markdown files with Jinja2 fields."""

from functools import cached_property
from pathlib import Path

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from loguru import logger

_PACKAGE = Path(__file__).resolve().parent.parent


def templates_dir() -> Path:
    """The shipped templates: inside the package in a wheel, beside it in a checkout or an editable install."""
    installed = _PACKAGE / "templates"
    return installed if installed.is_dir() else _PACKAGE.parent / "templates"


class PromptTemplates:
    """Renders templates by name such as `agent/identity.md`.

    A copy under `<workspace>/templates/` overrides the shipped file. An override that cannot be rendered is logged and
    the shipped one is used, so that a typing error never silences the agent.
    """

    def __init__(self, workspace: Path | None = None) -> None:
        self._workspace = workspace

    @cached_property
    def _shipped(self) -> SandboxedEnvironment:
        return _environment(templates_dir())

    @cached_property
    def _overriding(self) -> SandboxedEnvironment | None:
        if self._workspace is None:
            return None
        return _environment(self._workspace / "templates", templates_dir())

    def render(self, name: str, **values: object) -> str:
        """The text of a template. Raises `jinja2.TemplateError` only where the shipped file itself is broken."""
        if self._overriding is not None and self._workspace is not None:
            try:
                return self._overriding.get_template(name).render(values).strip()
            except (TemplateError, TypeError, ValueError, OSError) as error:
                logger.warning("template {} of the workspace is not used: {}", name, error)
        return self._shipped.get_template(name).render(values).strip()


def _environment(*folders: Path) -> SandboxedEnvironment:
    # The output is Markdown for a model, not HTML: escaping would spoil it.
    return SandboxedEnvironment(
        loader=FileSystemLoader(folders, encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
