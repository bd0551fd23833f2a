"""Which session a run of the terminal belongs to."""

from msgspec import Struct

from nanobot.bus.events import Address
from nanobot.errors import StoreError, UsageError
from nanobot.session.store import SessionInfo, SessionStore

TERMINAL = Address("terminal", "local")


class SessionChoice(Struct, frozen=True):
    """`resume` names a session, `go_on` means the last one, neither a fresh one. `kept`: it outlives the program."""

    resume: str = ""
    go_on: bool = False
    kept: bool = True


async def choose_session(store: SessionStore, choice: SessionChoice) -> SessionInfo:
    """Make the chosen session the terminal's current one. Raises `UsageError` when there is no such session."""
    if choice.resume:
        try:
            return await store.resume(TERMINAL.key, choice.resume)
        except StoreError as error:
            raise UsageError(f"{error} (That is a command inside `nanobot agent`.)") from error
    if choice.go_on:
        return await store.current(TERMINAL.key)
    return await store.start(TERMINAL.key)
