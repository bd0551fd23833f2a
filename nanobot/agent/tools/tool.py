"""A tool of ours: a name, a schema made from a pydantic model, and a `call` that never raises."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from loguru import logger
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.providers.base import ToolSpec
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Access
from nanobot.utils.text import nearest

Args = TypeVar("Args", bound=BaseModel)


class Tool(ToolLike, Generic[Args]):
    """A tool whose arguments are a pydantic model.

    Subclasses set `name`, `description`, `Arguments` and `access`, and write `run`. Unknown arguments are refused with
    the nearest known name; `argument_aliases` maps other spellings to the canonical ones. A tool that does not say what
    it does may change something: the owner alone has it, and is asked before every call. What it answers,
    failures too, reaches the model as content from outside, unless `own_words` says that every byte is nanobot's own.
    """

    name: ClassVar[str]
    description: str
    access: Access = "changes"
    own_words: ClassVar[bool] = False
    aliases: ClassVar[tuple[str, ...]] = ()
    argument_aliases: ClassVar[dict[str, str]] = {}
    Arguments: type[Args]

    @property
    def spec(self) -> ToolSpec:
        schema = self.Arguments.model_json_schema()
        for part in (schema, *schema["properties"].values()):
            part.pop("title", None)  # the name again, in other letters
        return ToolSpec(self.name, self.description, schema)

    async def run(self, args: Args, context: ToolContext) -> ToolResult:
        """Do the work. An exception that escapes is a bug; `call` contains it."""
        raise NotImplementedError

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        """Validate, run, and return a result whatever happens."""
        try:
            args = self.Arguments.model_validate(self.canonical(arguments))
        except ValidationError as error:
            return error_result("invalid_input", f"Invalid parameters. Reason: {self._reasons(error)}")
        try:
            result = await self.run(args, context or ToolContext())
            return result if self.own_words else replace(result, untrusted=True)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the tool boundary: a broken tool must not end the turn
            logger.opt(exception=error).error("tool {} failed", self.name)
            broken = error_result("failed", f"{self.name} failed: {type(error).__name__}: {error}")
            return replace(broken, untrusted=not self.own_words)

    def canonical(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments under their canonical names, without those that are null: models send these for "not given"."""
        given = {key: value for key, value in arguments.items() if value is not None}
        others = {self.argument_aliases[key]: value for key, value in given.items() if key in self.argument_aliases}
        return others | {key: value for key, value in given.items() if key not in self.argument_aliases}

    def _reasons(self, error: ValidationError) -> str:
        known = list(self.Arguments.model_fields)
        reasons = []
        for item in error.errors():
            place = ".".join(str(part) for part in item["loc"])
            given = item.get("input")
            if item["type"] == "extra_forbidden":
                near = nearest(place, known)
                hint = f", did you mean {near!r}?" if near else f", known are {', '.join(known)}"
                reasons.append(f"unknown parameter {place!r}{hint}")
            elif item["type"] == "missing":
                reasons.append(f"parameter {place!r} is missing")
            else:
                said = item["msg"].removeprefix("Value error, ")
                about = "" if said.startswith(place) else f"{place}: "
                reasons.append(f"{about}{said} (got {given!r:.100})" if place else said)
        return "; ".join(reasons)
