"""What a turn may use up, and the watch over it."""

import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from nanobot.messages import Usage
from nanobot.providers.base import ReasoningEffort

Spent = Literal["steps", "seconds", "tokens"]


class TurnLimits(Struct, frozen=True):
    """The budget of one turn. A step is one model request with the tool calls it asked for.

    `max_seconds` is wall time. `max_tokens` counts input and output of every request of the turn. A tool result longer
    than `max_tool_result_chars` characters is cut. `lookup_repeats` is how often the same lookup may run.
    """

    max_steps: int = 40
    max_seconds: float = 1_200.0
    max_tokens: int = 2_000_000
    max_tool_result_chars: int = 60_000
    lookup_repeats: int = 2


class ModelSettings(Struct, frozen=True):
    """How every request of the agent is asked: `max_tokens` limits one answer, None leaves it to the provider."""

    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None


class Budget:
    """Counts one turn against its limits. `clock` is monotonic, in seconds."""

    def __init__(self, limits: TurnLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._started = clock()
        self.steps = 0
        self.usage = Usage()

    @property
    def seconds(self) -> float:
        return self._clock() - self._started

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.limits.max_seconds - self.seconds)

    def spent(self) -> Spent | None:
        """Which limit is reached, or None while another step may begin."""
        if self.steps >= self.limits.max_steps:
            return "steps"
        if self.seconds >= self.limits.max_seconds:
            return "seconds"
        if self.usage.input + self.usage.output >= self.limits.max_tokens:
            return "tokens"
        return None
