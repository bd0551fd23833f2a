"""What a conversation needs of the terminal that it is in: the screen, or plain lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from nanobot.channels.terminal.live import Live
from nanobot.channels.terminal.questions import QuestionLine

if TYPE_CHECKING:
    from nanobot.channels.terminal.channel import TerminalChannel


class Surface(Protocol):
    """Something that shows text and takes lines; with `arrows` single keys, too."""

    arrows: bool

    async def run(self, channel: "TerminalChannel") -> int:
        """Take input and tell the channel of it until `exit` is called; returns its code."""

    def exit(self, code: int) -> None: ...

    def clear_input(self) -> bool:
        """Empty the line being typed; False when it was empty."""

    @property
    def typed(self) -> str:
        """The line being typed, where the terminal itself does not hold it."""

    def give_back(self, text: str) -> None:
        """Put text that was sent and not read into the line being typed."""

    def fits(self, asked: Sequence[QuestionLine]) -> bool:
        """Whether a question can be shown whole above the line being typed."""

    async def edit(self, text: str, name: str) -> str:
        """What the person makes of a text in their editor, in a file of that name. Raises `UsageError`."""

    def ring(self, text: str) -> None:
        """Call somebody who looks elsewhere, with a few words where the terminal shows them."""

    def send_raw(self, sequence: str) -> bool:
        """Send a sequence to the terminal that prints nothing; False where it takes none."""

    def insert(self, text: str) -> None:
        """Put text into the line being typed, where the cursor is."""

    async def show(self, text: str, live: Live) -> None:
        """Print finished text, and replace the live part with it."""

    def refresh(self, live: Live) -> None:
        """Replace the live part."""
