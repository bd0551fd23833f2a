"""What the command line adds to the configuration."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from nanobot.security.projects import Project

if TYPE_CHECKING:
    from nanobot.agent.recording import Recorder
    from nanobot.cluster.share import Role


class Launch(Struct, frozen=True):
    """What the command line adds to the configuration.

    `model` wins over the configured one. `ephemeral` keeps the session in memory and leaves no trace on disk.
    `recorder` writes down what the model and the tools say in the one turn to come. With a `role` it is a gateway that
    shares the ledger of `gateway.ledger` with others. `project` is a folder of others in which the owner works.
    """

    model: str = ""
    ephemeral: bool = False
    env: Mapping[str, str] | None = None
    recorder: "Recorder | None" = None
    role: "Role | None" = None
    project: Project | None = None
