"""All checks of one installation, run beside each other."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nanobot.builder.agent import Builder
from nanobot.builder.judging import judged
from nanobot.builder.launch import Launch
from nanobot.builder.values import health_file
from nanobot.channels.telegram.read.voice import CommandTranscriber, transcriber_of
from nanobot.channels.telegram.settings import settings_of
from nanobot.config.loader import Loaded, located
from nanobot.config.paths import Paths, named_folder
from nanobot.config.proxy import Proxies
from nanobot.config.schema import Config
from nanobot.doctor import gateway, home, machine, network
from nanobot.doctor.findings import Check, Finding, bad, findings_of, off, ok, one_line, said_once, warn
from nanobot.doctor.probes import for_a_try, try_bot, try_context, try_model, try_search
from nanobot.errors import ConfigError, StoreError, UsageError
from nanobot.money.budget import Budget, prices_of
from nanobot.providers.base import LLMProvider
from nanobot.providers.registry import choose
from nanobot.providers.vendors import VENDORS, vendor_of
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from nanobot.upkeep.nightly import backup_folder
from nanobot.utils.host import midnight_in, zone_of
from nanobot.utils.translation import _, _n
from nanobot.web.search.catalog import DUCKDUCKGO, Catalog

#: Whose name is looked for, and whose clock is asked, where nothing else is set up; it searches then.
_SEARCHES = "https://duckduckgo.com"


class Patient(Struct, frozen=True):
    """The installation that is looked at. `broken` is why its configuration cannot be read; all else has its default
    then. `talking`: it is this process that talks, and neither its terminal nor its MCP servers are asked anew."""

    builder: Builder
    broken: tuple[str, ...] = ()
    talking: bool = False

    @property
    def loaded(self) -> Loaded:
        return self.builder.loaded

    @property
    def paths(self) -> Paths:
        return self.builder.paths

    @property
    def env(self) -> Mapping[str, str]:
        return self.builder.env

    @property
    def health_file(self) -> Path:
        """The gateway's."""
        return health_file(self.loaded.config, self.paths)

    @property
    def proxies(self) -> Proxies:
        """The proxies for pages and searches, and those of the environment for all else."""
        return Proxies(self.loaded.config.tools.web.proxy, self.env)


async def patient_of(env: Mapping[str, str], config: str = "", workspace: str = "") -> Patient:
    """What `nanobot doctor` looks at; `config` and `workspace` are paths that a person has named. Makes no folder."""
    try:
        loaded, paths = located(env, config, workspace)
        return Patient(await Builder.begin(loaded, paths, Launch(ephemeral=True), env))
    except ConfigError as error:
        paths = Paths.resolve(env, config, workspace)
        builder = await Builder.begin(Loaded(Config(), paths.config), paths, Launch(ephemeral=True), env)
        return Patient(builder, tuple(map(str, error.problems)))


async def examine(patient: Patient) -> list[Finding]:
    """What all checks find, in the order in which they are told."""
    checks: list[Check] = [("Configuration", partial(_configuration, patient))]
    checks += [*_kept(patient), *_machine(patient), *([] if patient.talking else _shown(patient)), *_way_out(patient)]
    if not patient.broken:
        checks += [*_model(patient), *_search(patient), *_telegram(patient), *_around(patient)]
    found = said_once(await findings_of(checks))
    if patient.broken:
        words = _("model, search, Telegram, MCP servers and budget: the configuration cannot be read")
        found.append(Finding("Not tried", "off", words, _("Put the configuration right, then run it again.")))
    return found


def _in_thread(work: Callable[[], Finding]) -> Callable[[], Awaitable[Finding]]:
    return lambda: asyncio.to_thread(work)


async def _configuration(patient: Patient) -> list[Finding]:
    """Whether a start would read it and go on, by running the first half of one."""
    fix = _("`nanobot config check` says the same after your change.")
    if patient.broken:
        return [bad(one_line(why), fix) for why in patient.broken]
    refused, warned = await judged(patient.loaded, patient.paths, patient.env)
    found = [bad(_("nanobot would not start: {reason}", reason=one_line(why)), fix) for why in refused]
    found += [warn(one_line(why), fix) for why in warned]
    told = (
        _("{path}; a start would go on", path=patient.loaded.path)
        if patient.loaded.exists
        else _("{path} is not there: all defaults; a start would go on", path=patient.loaded.path)
    )
    return found or [ok(told)]


def _kept(patient: Patient) -> list[Check]:
    paths, telegram = patient.paths, patient.loaded.config.channels.telegram.enabled
    named = [one if isinstance(one, str) else one.path for one in patient.loaded.config.library.folders]
    folders = [named_folder(one, patient.env) for one in named]
    running = gateway.gateway_at(patient.health_file)
    kept = running is not None and running.runs
    where = patient.health_file
    shared = bool(patient.loaded.config.gateway.ledger)
    alone: list[Check] = [
        ("Database", _in_thread(partial(home.database, paths.database, paths.home / "files" / "files.db"))),
        ("Schedule", _in_thread(partial(home.schedule, paths.database, kept=kept))),
    ]
    return [
        ("Permissions", _in_thread(partial(home.permissions, paths))),
        ("Gateway", _in_thread(partial(gateway.gateway, where, paths.home, telegram=telegram))),
        *([("Database", partial(_postgresql, patient))] if shared else alone),
        ("Library", _in_thread(partial(home.library, paths, folders))),
    ]


async def _postgresql(patient: Patient) -> Finding:
    """Whether the database answers that gateways share."""
    try:
        from nanobot.cluster.ledger import PostgresLedger
    except ImportError:
        fix = 'pip install "nanobot[cluster]"'  # English: it is typed
        return bad(_("gateway.ledger needs a driver of PostgreSQL"), fix)
    channel = settings_of(patient.loaded.config.channels.telegram, patient.env).channel
    try:
        database = PostgresLedger(patient.loaded.config.gateway.ledger, channel).database
        version = await database.alone(lambda db: db.version())
    except StoreError as error:
        fix = _("Start it, or correct gateway.ledger; the gateways go on by themselves as soon as it is back.")
        return bad(one_line(str(error)), fix)
    return ok(_("PostgreSQL {version} answers at {place}", version=version, place=database.place))


def _machine(patient: Patient) -> list[Check]:
    config, env = patient.loaded.config, patient.env
    backups = backup_folder(config.backup, patient.paths)
    return [
        ("Disk", _in_thread(partial(machine.disk, patient.paths.home, patient.paths.workspace, backups))),
        ("Time zone", _in_thread(partial(machine.time_zone, config.agents.defaults.timezone, env))),
        ("Versions", _in_thread(machine.versions)),
        ("Sandbox", partial(machine.sandbox, config.tools)),
    ]


def _shown(patient: Patient) -> list[Check]:
    return [
        ("Locale", _in_thread(partial(machine.locale, patient.env))),
        ("Terminal", _in_thread(partial(machine.terminal, patient.env))),
    ]


def _addresses(patient: Patient) -> list[str]:
    """The services that this configuration talks to, as far as it names them."""
    config, found = patient.loaded.config, []
    if config.channels.telegram.enabled and not patient.broken:
        with suppress(UsageError):  # another check tells it
            found.append(settings_of(config.channels.telegram, patient.env).base_url.removesuffix("/bot"))
    for name, one in config.providers.items():
        vendor = vendor_of(name)
        found.append(one.api_base or (vendor.base_url if vendor is not None else ""))
    found += [one.base_url for one in VENDORS if any(patient.env.get(key) for key in one.keys)]
    return list(dict.fromkeys(filter(None, found))) or ([_SEARCHES] if config.tools.web.enable else [])


def _way_out(patient: Patient) -> list[Check]:
    direct = Proxies(env=patient.env)

    async def names() -> list[Finding]:
        found = await network.names_of(_addresses(patient), direct)
        fake_ip = patient.loaded.config.tools.web.fetch.fake_ip
        named = network.judged_names(found, fake_ip=fake_ip)
        return [replace(named, name="DNS"), replace(await network.ipv6(found, 443), name="IPv6")]

    return [
        ("Proxy", partial(network.proxy, (patient.proxies, direct))),
        ("DNS and IPv6", names),
        ("Clock", lambda: network.clock(_addresses(patient), direct)),
    ]


def _model(patient: Patient) -> list[Check]:
    builder = patient.builder

    async def chosen() -> LLMProvider:
        own = builder.plugins.provider("", builder.defaults) if builder.plugins is not None else None
        return own or await choose(for_a_try(builder.models.choice()))

    async def model() -> list[Finding]:
        found, info = await try_model(chosen, prices_of(builder.loaded.config.prices))
        if info is None or found.state == "bad":
            return [found]
        able = info.capabilities
        sees = (
            Finding("Pictures", "ok", _("{model} can see them", model=info.model))
            if able.vision
            else Finding("Pictures", "off", _("the model sees none; it is told that one was sent"))
        )
        return [found, await try_context(info), sees]

    return [("Model", model)]


def _search(patient: Patient) -> list[Check]:
    """Every engine that is set up; those that step in without a key are not asked."""
    web = patient.loaded.config.tools.web
    if not web.enable:
        return []
    catalog = Catalog(web.search, patient.env, web.proxy)
    zone = zone_of(patient.loaded.config.agents.defaults.timezone, patient.env)
    kept = patient.paths.home / "usage.db" if patient.paths.home.is_dir() else None

    def check(name: str) -> Check:
        async def engine() -> Finding:
            return await try_search(catalog.link(name), kept, zone)

        return f"Search: {name}", engine

    named = [name for name in catalog.order() if catalog.configured(name)]
    wanted = [name for name in named if name != DUCKDUCKGO or name in (web.search.fallback or ())]
    return [check(name) for name in wanted or named]


def _telegram(patient: Patient) -> list[Check]:
    config = patient.loaded.config.channels.telegram
    if not config.enabled:
        return []

    async def bot() -> list[Finding]:
        return await try_bot(settings_of(config, patient.env))

    return [("Telegram token", bot), ("Voice", partial(_voice, patient))]


async def _voice(patient: Patient) -> Finding:
    """Whether voice messages can be written down, and where that is done."""
    config = patient.loaded.config
    keys = {name: one.api_key for name, one in config.providers.items()}
    wanted = config.channels.telegram.transcription
    writer = transcriber_of(wanted, keys, patient.env)
    if writer is None:
        fix = _("docs/telegram.md tells how: a program of your own, or a key of OpenAI or Groq.")
        return off(_("voice messages are not written down"), fix if wanted.enabled else "")
    await writer.aclose()
    if not isinstance(writer, CommandTranscriber):
        here, elsewhere = _("voice messages are written down here"), _("voice messages are written down elsewhere")
        return ok(here if writer.local else elsewhere)
    if shutil.which(wanted.command[0]) is None:
        fix = _("Install it, or correct channels.telegram.transcription.command.")
        return bad(_("the program {command} is not there", command=wanted.command[0]), fix)
    return ok(_("voice messages are written down by {program}", program=Path(wanted.command[0]).name))


def _around(patient: Patient) -> list[Check]:
    return [("MCP", partial(_servers, patient)), ("Budget", partial(_budget, patient))]


async def _servers(patient: Patient) -> list[Finding]:
    external, found = patient.builder.external, list[Finding]()
    if not patient.talking:
        await external.connect()
    for one in external.states():
        again = _("`nanobot mcp test {name}` tries it again.", name=one.name)
        told = ok(_n("{number} tool", "{number} tools", len(one.tools))) if one.ready else bad(one_line(one.why), again)
        found.append(replace(told, name=f"MCP: {one.name}"))
    if not patient.talking:
        await external.aclose()
    return found or [off(_("no server is set up"))]


async def _budget(patient: Patient) -> Finding:
    """What of the caps is used."""
    config, file = patient.loaded.config, patient.paths.database
    if config.gateway.ledger or not file.is_file():
        return ok(_("nothing was spent here"))
    zone = zone_of(config.agents.defaults.timezone, patient.env)
    try:
        async with aclosing(Ledger(SqliteDatabase(file))) as ledger:
            return ok(await Budget(config, ledger, partial(midnight_in, zone)).overview())
    except StoreError:  # another check tells why
        return off(_("nothing can be read of it"))
