"""All checks of one installation, run beside each other."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from nanobot.channels.telegram.settings import settings_of
from nanobot.config.loader import Loaded
from nanobot.config.paths import Paths
from nanobot.doctor.findings import Check, Finding, findings_of, said_once
from nanobot.doctor.probes import try_context, try_model, try_search, try_token, try_updates
from nanobot.money.prices import Prices
from nanobot.providers.base import LLMProvider
from nanobot.session.lock import token_lock
from nanobot.utils.host import zone_of
from nanobot.web.search.catalog import Catalog
from nanobot.web.usage import UsageLedger


class Patient(Struct, frozen=True):
    """The installation that is looked at. `model` makes the provider to try, and raises where there is none."""

    loaded: Loaded
    paths: Paths
    env: Mapping[str, str]
    model: Callable[[], Awaitable[LLMProvider]]
    prices: Prices


async def examine(patient: Patient) -> list[Finding]:
    """What all checks find, in the order in which they are told."""
    return said_once(await findings_of([*_model(patient), *_search(patient), *_telegram(patient)]))


def _model(patient: Patient) -> list[Check]:
    async def model() -> list[Finding]:
        found, info = await try_model(patient.model, patient.prices)
        return [found] if info is None or found.state == "bad" else [found, await try_context(info)]

    return [("Model", model)]


def _search(patient: Patient) -> list[Check]:
    """Every engine that is set up; those that step in without a key are not asked."""
    web = patient.loaded.config.tools.web
    if not web.enable:
        return []
    catalog = Catalog(web.search, patient.env, web.proxy)
    zone = zone_of(patient.loaded.config.agents.defaults.timezone, patient.env)

    def check(name: str) -> Check:
        async def engine() -> Finding:
            usage = UsageLedger(patient.paths.home / "usage.db", zone=zone)
            try:
                return await try_search(catalog.link(name), usage)
            finally:
                usage.close()

        return f"Search: {name}", engine

    return [check(name) for name in catalog.order() if catalog.configured(name)]


def _telegram(patient: Patient) -> list[Check]:
    config = patient.loaded.config.channels.telegram
    if not config.enabled:
        return []

    async def token() -> Finding:
        return await try_token(settings_of(config, patient.env))

    async def updates() -> Finding:
        settings = settings_of(config, patient.env)
        return await try_updates(settings, ours=token_lock(settings.token).held)

    return [("Telegram token", token), ("Telegram updates", updates)]
