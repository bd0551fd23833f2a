"""The logins at MCP servers, in one file of the home that its owner alone can read.

What is kept of a server: its tokens, the client that it registered for us, when the token ends, and where new ones are
to be had. Needs no SDK.
"""

import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.config.paths import replace_file
from nanobot.utils.logs import add_secrets
from nanobot.utils.secrecy import Reticent

#: The names under which servers give what nobody else may see.
_SECRET_NAMES = ("access_token", "refresh_token", "client_secret")

#: Two servers may renew their logins at the same time, each in a thread.
_CHANGING = threading.Lock()


class KeptLogin(Reticent, frozen=True):
    """One login. `tokens`, `client`, `service` and `resource` are as servers sent them; `ends` is in Unix seconds."""

    unprinted = ("tokens", "client")

    tokens: Mapping[str, object] = field(default_factory=dict)
    client: Mapping[str, object] = field(default_factory=dict)
    service: Mapping[str, object] = field(default_factory=dict)
    resource: Mapping[str, object] = field(default_factory=dict)
    ends: float | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        both = (*self.tokens.items(), *self.client.items())
        return tuple(str(value) for name, value in both if name in _SECRET_NAMES and value)


class LoginFile(Struct, frozen=True):
    """The file. A key is the name of a server with its address: another address is another login."""

    path: Path

    def get(self, key: str) -> KeptLogin:
        """What is kept; nothing but defaults where nothing is. No log shows its secrets from now on."""
        kept = self._read().get(key, KeptLogin())
        add_secrets(kept.secrets)
        return kept

    def change(self, key: str, **fields: object) -> None:
        """Keep something more of one login. Raises `OSError`."""
        with _CHANGING:
            known = self._read()
            known[key] = replace(known.get(key, KeptLogin()), **fields)
            add_secrets(known[key].secrets)
            self._write(known)

    def forget(self, name: str) -> bool:
        """Forget every login at the server of this name; False where there was none. Raises `OSError`."""
        with _CHANGING:
            known = self._read()
            left = {key: kept for key, kept in known.items() if key.partition(" ")[0] != name}
            if len(left) != len(known):
                self._write(left)
        return len(left) != len(known)

    def _read(self) -> dict[str, KeptLogin]:
        try:
            known: dict[str, KeptLogin] = msgspec.json.decode(self.path.read_bytes(), type=dict[str, KeptLogin])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            logger.warning("the logins at MCP servers in {} cannot be read: {}", self.path, type(error).__name__)
            return {}
        return known

    def _write(self, known: Mapping[str, KeptLogin]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.path, msgspec.json.encode(known))
