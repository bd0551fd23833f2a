"""What the command line adds to the configuration, and what all parts of a running agent share."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from nanobot.agent.tools.files.offered import FileTools
from nanobot.agent.tools.knowledge.offered import LibraryTools
from nanobot.bus.alarms import Alarms
from nanobot.command.settings import ChatSettings
from nanobot.config.paths import Paths
from nanobot.security.projects import Project
from nanobot.session.ledger import Ledger
from nanobot.utils.prompt_templates import PromptTemplates

if TYPE_CHECKING:
    from nanobot.agent.recording import Recorder
    from nanobot.agent.work.watches import Watches
    from nanobot.channels.telegram.send.messages import TelegramMessages
    from nanobot.cluster.share import Role, Share
    from nanobot.plugins.entry_points import Plugins
    from nanobot.schedule.appointments import Appointments
    from nanobot.schedule.heartbeat import Heartbeat


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


class SharedServices(Struct, frozen=True):
    """What all parts of a running agent share."""

    paths: Paths
    env: Mapping[str, str]
    ledger: Ledger
    chats: ChatSettings
    files: FileTools
    library: LibraryTools
    templates: PromptTemplates
    alarms: Alarms = field(default_factory=Alarms)
    share: "Share | None" = None
    messengers: "dict[str, TelegramMessages]" = field(default_factory=dict)
    appointments: "Callable[[], Appointments] | None" = None
    heartbeat: "Callable[[], Heartbeat | None]" = lambda: None
    plugins: "Plugins | None" = None
    watches: "Callable[[], Watches] | None" = None

    async def aclose(self) -> None:
        await self.ledger.aclose()
