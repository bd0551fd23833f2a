"""Checks of the way out: proxy, names, IPv6, and the clock against that of a server."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from nanobot.config.proxy import Proxies, UnusableProxy, address_of
from nanobot.doctor.findings import Finding, State, bad, off, ok, one_line, warn
from nanobot.providers.http import is_private
from nanobot.security.network import INVENTED
from nanobot.utils.connections import Connections, look_up, reason_of
from nanobot.utils.translation import N_, _

#: Seconds for one connection, and for one answer.
_CONNECT, _ANSWER = 3.0, 5.0
#: Seconds by which the clock may be wrong, and by which certificates and logins begin to fail.
_SOME, _MUCH = 30.0, 300.0
_NO_NAMES = N_("Check the connection and the DNS of this machine (/etc/resolv.conf).")
Names = Mapping[str, Sequence[str]]


async def names_of(urls: Sequence[str], proxies: Proxies) -> dict[str, tuple[str, ...]]:
    """The addresses of the hosts that are reached from here without a proxy; none for one whose name is not found."""
    hosts = dict.fromkeys(
        urlsplit(url).hostname or "" for url in urls if not is_private(url) and _proxy_of(url, proxies) is None
    )
    return dict(zip(hosts, await asyncio.gather(*(_resolved(host) for host in hosts)), strict=True))


def _proxy_of(url: str, proxies: Proxies) -> str | None:
    try:
        return proxies.of(url)
    except UnusableProxy:
        return ""


async def _resolved(host: str) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(_ANSWER):
            return tuple(await look_up(host, 443))
    except OSError:
        return ()


async def proxy(proxies: Sequence[Proxies]) -> Finding:
    """Which proxies are in force, and whether something listens there."""
    named: dict[str, None] = {}
    try:
        for one in proxies:
            named |= dict.fromkeys(found for scheme in ("https", "http") if (found := one.for_scheme(scheme)))
    except UnusableProxy as error:
        return bad(one_line(str(error)), _("Write it as http://host:port or socks5://host:port."))
    if not named:
        return ok(_("none is set; connections are direct"))
    for url in named:
        parts = urlsplit(url)
        if why := await _refused(parts.hostname or "", parts.port or (1080 if "socks" in parts.scheme else 80)):
            fix = _(
                "Start it, or correct HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, tools.web.proxy; NO_PROXY lists exceptions."
            )
            return bad(
                _("proxy {proxy} does not answer ({why})", proxy=address_of(url), why=why),
                fix,
                network="unreached",
            )
    return ok(
        _("{proxies} answers", proxies=", ".join(_("proxy {proxy}", proxy=address_of(url)) for url in named)),
    )


async def _refused(host: str, port: int) -> str:
    """Why no connection comes about; empty where one does."""
    try:
        async with asyncio.timeout(_CONNECT):
            writer = (await asyncio.open_connection(host, port))[1]
    except TimeoutError:
        return _("no answer within {seconds:.0f} s", seconds=_CONNECT)
    except OSError as error:
        return reason_of(error)
    writer.close()
    return ""


def judged_names(names: Names, *, fake_ip: bool) -> Finding:
    """Whether names are found, and whether a proxy on this machine makes their addresses up."""
    if not names:
        return off(_("no name has to be found from here"))
    missing = [host for host, found in names.items() if not found]
    if missing:
        words = _("not found: {hosts}", hosts=", ".join(missing))
        return bad(words, _(_NO_NAMES), network="reached" if len(missing) < len(names) else "unreached")
    made_up = [host for host, found in names.items() if any(_invented(one) for one in found)]
    if made_up and not fake_ip:
        words = _(
            "a proxy on this machine answers with made-up addresses (198.18.0.0/15), as for {host}",
            host=made_up[0],
        )
        fix = _('Pages can be read again with "tools": {"web": {"fetch": {"fakeIp": true}}}.')
        return warn(words, fix)
    hosts = ", ".join(names)
    if made_up:
        return ok(_("{hosts} found; made-up addresses are read, because fakeIp is set", hosts=hosts))
    return ok(_("{hosts} found", hosts=hosts))


def _invented(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    return found.version == 4 and found in INVENTED


async def ipv6(names: Names, port: int) -> Finding:
    """Whether IPv6 is offered and leads nowhere, which costs seconds at every new connection."""
    for host, found in names.items():
        six = next((one for one in found if ":" in one), "")
        four = next((one for one in found if ":" not in one), "")
        if not six or not _has_route(six):
            continue
        why = await _refused(six, port)
        if not why:
            return ok(_("{host} is reached by it", host=host))
        if four and not await _refused(four, port):
            fix = _("Repair IPv6, or prefer IPv4: add `precedence ::ffff:0:0/96 100` to /etc/gai.conf.")
            return warn(
                _("it is set up here and does not work: {host} ({why}); IPv4 does", host=host, why=why),
                fix,
            )
    return off(_("not used here"))


def _has_route(address: str) -> bool:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 443))  # of UDP: it asks for a way and sends nothing
        except OSError:
            return False
    return True


async def clock(urls: Sequence[str], proxies: Proxies) -> Finding:
    """This machine's clock beside that of the first server that answers; no key is sent."""
    for url in urls:
        if (wrong := await _skew(url, proxies)) is None:
            continue
        told = {"seconds": abs(wrong), "host": urlsplit(url).hostname}
        state: State = "bad" if abs(wrong) > _MUCH else "warn" if abs(wrong) > _SOME else "ok"
        if state == "ok":
            words = _("it agrees with that of {host}", host=told["host"])
        elif wrong > 0:
            words = _("{seconds:.0f} s behind that of {host}", **told)
        else:
            words = _("{seconds:.0f} s ahead of that of {host}", **told)
        if state == "bad":
            words = _("{words}: certificates and logins may be refused, reminders are wrong", words=words)
        fix = _("Set the clock: `timedatectl set-ntp true`, or your system's settings of date and time.")
        return Finding(
            "Clock", state, words, "" if state == "ok" else fix, network="" if is_private(url) else "reached"
        )
    return off(_("no server answered to compare it with"))


async def _skew(url: str, proxies: Proxies) -> float | None:
    """Seconds by which this clock is behind that of a server; None where it does not say. Certificates are not judged:
    with a wrong clock none is valid."""
    proxy_url = _proxy_of(url, proxies)
    if proxy_url == "":
        return None
    way = Connections(lambda: httpx.create_ssl_context(verify=False), proxy=proxy_url)
    try:
        async with httpx.AsyncClient(transport=way, timeout=_ANSWER) as client:
            began = time.time()
            async with client.stream("GET", url) as answer:
                middle = (began + time.time()) / 2
                return parsedate_to_datetime(answer.headers["Date"]).timestamp() - middle
    except (httpx.HTTPError, OSError, KeyError, ValueError):
        return None
