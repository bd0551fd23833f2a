"""MCP servers: the programs and services of others that offer tools, resources and prompts.

Here are the values that tell of them; the modules beside load the SDK.
"""

from msgspec import Struct


class ServerState(Struct, frozen=True):
    """One configured server: where it is, what it offers, and in a sentence why it cannot be used now.

    `ready`: it has answered. `tools` are the names that the agent uses.
    """

    name: str
    place: str
    ready: bool = False
    tools: tuple[str, ...] = ()
    why: str = ""


class ServerOffer(Struct, frozen=True):
    """A resource or a prompt as its server lists it: by its URI or its name. `arguments` with a `?` may be left out."""

    key: str
    title: str = ""
    about: str = ""
    arguments: tuple[str, ...] = ()
