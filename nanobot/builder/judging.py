"""Whether a start with a configuration would go on, and what it would warn of."""

from collections.abc import Mapping

from nanobot.builder.agent import NO_CLUSTER, Builder
from nanobot.builder.launch import Launch
from nanobot.builder.values import no_channel
from nanobot.channels.telegram.receive.webhook import judge_listening
from nanobot.channels.telegram.settings import doubts, settings_of
from nanobot.config.loader import Loaded
from nanobot.config.paths import Paths, judge_home
from nanobot.errors import ConfigError, NanobotError
from nanobot.utils.translation import _


async def judged(loaded: Loaded, paths: Paths, env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Why the agent, or the gateway of a channel that is switched on, would refuse to start; and what a start warns of.

    It is the start that judges: its first half is run, and what was made is closed again.
    """
    refused: list[str] = []
    warned: list[str] = []
    try:
        judge_home(paths)
    except ConfigError as error:
        refused.append(str(error))
    builder = await Builder.begin(loaded, paths, Launch(ephemeral=True), env)
    try:
        await (await builder.models.provider()).aclose()
    except NanobotError as error:
        refused.append(str(error))
    finally:
        await builder.aclose()
    if loaded.config.channels.telegram.enabled:
        warned.extend(doubts(loaded.config.channels.telegram))
        try:
            settings = settings_of(loaded.config.channels.telegram, env)
            if settings.webhook is not None:
                await judge_listening(settings.webhook)
        except NanobotError as error:
            refused.append(str(error))
    refused += _judged_ledger(loaded.config.gateway.ledger)
    if "channels.telegram" in loaded.disabled:
        refused.append(no_channel(loaded, paths))
    return refused, builder.warnings() + warned


def _judged_ledger(address: str) -> list[str]:
    """Why no gateway could share this database; whether it answers is not asked."""
    if not address:
        return []
    try:
        from nanobot.cluster.postgres import place_of

        place_of(address)
    except ImportError:
        return [_(NO_CLUSTER)]
    except NanobotError as error:
        return [str(error)]
    return []
