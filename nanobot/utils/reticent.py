"""Values that hold keys and addresses with passwords, and never print them."""

from typing import ClassVar

from msgspec import Struct


class Reticent(Struct, frozen=True):
    """A value whose `unprinted` fields stand in no log line and no message of an error."""

    unprinted: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.unprinted)
        return f"{type(self).__name__}({', '.join(shown)})"
