"""Pages for `web_fetch`: kept ones from memory, others from the web, loaded once for all who want them at one time.

Each loading has a slot of its host, a line in the ledger, and the owner's consent where the host is private.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import get_args

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.agent.tools.base import Question, ToolContext, in_question
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import FAKE_IP
from nanobot.session.permissions import Permission
from nanobot.utils.translation import N_, _, together
from nanobot.web.cache import HostSlots, KeyLocks, PageStore
from nanobot.web.extract.page import Format
from nanobot.web.fetch.page import Page, PageRequest, PrivateHost, keeps_home
from nanobot.web.fetch.reader import PageReader
from nanobot.web.urls import host_of
from nanobot.web.usage import Lookup, UsageLedger

TOOL = "web_fetch"
_FORMATS: tuple[Format, ...] = get_args(Format)
#: The step of a lookup that met an address which a proxy made up.
_INVENTED = "invented address"
#: Kinds of which each format has its own text.
_RENDERED = frozenset({"html", "xml", "csv"})
TITLE = N_("Confirm Web Fetch")
_LOCAL = "Only public addresses are read here"


class WebPages:
    """`concurrency` is how many pages are read at the same time; `clock` gives the seconds by which kept ones age."""

    def __init__(self, reader: PageReader, concurrency: int, ledger: UsageLedger, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._questions = KeyLocks()
        self._slots = HostSlots(concurrency, reader.is_own, clock)
        self._ledger = ledger
        self._store: PageStore[Page] = PageStore(clock=clock)
        self._loading = KeyLocks()

    def consent(self, requests: Iterable[PageRequest], context: ToolContext) -> "CallConsent":
        """The consent for all pages of a call, by the addresses that are really read."""
        return CallConsent(self._reader, self._questions, [request.address for request in requests], context)

    async def get(self, request: PageRequest, consent: "CallConsent", *, fresh: bool = False) -> Page:
        """The page from memory or the web. `fresh` and scripts that are wanted load it anew. Raises `FetchError`."""
        holder, url = consent.context.holder, request.url
        async with self._loading.hold((holder, url)):
            kept = None if fresh or request.scripts else self._store.look(holder, (url, request.format))
            if kept is not None:
                return replace(kept[0], requests=0, age=kept[1])
            page, share = await self._counted(request, consent)
            formats: tuple[Format, ...] = (request.format,) if page.kind in _RENDERED else _FORMATS
            for other in () if request.scripts else formats:
                self._store.put(holder, (url, other), page, len(page.content.text), share=share)
            return page

    async def look(self, request: PageRequest, timeout: float) -> Page:
        """The page as it is now, read by this machine alone and kept for nobody. Raises `FetchError`."""
        async with self._slots.hold(host_of(request.url)):
            return await self._reader.local(request, timeout)

    def loading(self, requests: Sequence[PageRequest], context: ToolContext) -> bool:
        """True where other calls load all of these pages right now, so that waiting for them costs nothing."""
        return all(self._loading.held((context.holder, request.url)) for request in requests)

    def kept(self, requests: Sequence[PageRequest], context: ToolContext) -> bool:
        """True where all of these pages are in memory."""
        return all(self._store.look(context.holder, (one.url, one.format)) is not None for one in requests)

    def invented(self) -> list[str]:
        """A line for /status where a lookup of today met an address that a proxy made up."""
        met = any(one.step == _INVENTED for one in self._ledger.lookups())
        return [f"DNS, seen today: {_(FAKE_IP)}"] if met else []

    async def _counted(self, request: PageRequest, consent: "CallConsent") -> tuple[Page, bool]:
        """`_load`, with every step that was taken noted in the ledger by its host."""
        steps: Sequence[Mapping[str, object]] = ()
        try:
            page, share = await self._load(request, consent)
            steps = page.attempts
        except FetchError as error:
            invented = isinstance(error, AddressBlocked) and error.invented
            steps = error.attempts or [{"step": _INVENTED if invented else "local", "outcome": error.kind}]
            raise
        finally:
            self._ledger.note(*_lookups(host_of(request.url), steps))
        return page, share

    async def _load(self, request: PageRequest, consent: "CallConsent") -> tuple[Page, bool]:
        """The page from the web, and whether other chats may be given it.

        No slot is held while the owner is asked, who may take minutes.
        """
        host = host_of(request.url)
        try:
            async with self._slots.hold(host):
                page = await self._reader.read(request)
        except AddressBlocked as refusal:
            opened = await consent.open(request.address, refusal)
        else:
            return page, not (page.no_store or request.private or keeps_home(request.url))
        async with self._slots.hold(host):
            return await self._reader.read(replace(request, opened=opened)), False


class CallConsent(Struct):
    """What the owner says to one call. It asks once, for all of its pages: `urls` are the addresses that it reads.

    A yes counts for the host at the addresses that were shown and nothing but reading: where the name has another
    address later, the owner is asked anew, and loopback, link-local and cloud metadata addresses are never asked for.
    What is allowed for good is remembered by who asks. `questions` of one session come one after the other.
    """

    reader: PageReader
    questions: KeyLocks
    urls: Sequence[str]
    context: ToolContext
    _said: dict[PrivateHost, bool] = field(default_factory=dict)
    _reason: str = ""

    async def open(self, url: str, refusal: AddressBlocked) -> PrivateHost:
        """The host as it may be read. Raises `refusal` where it stays closed, `FetchError` (denied) after a no.

        A name that the model made up stays closed: the owner was asked for a public page.
        """
        host = await self.reader.private_host(url)
        if not isinstance(host, PrivateHost):
            raise refusal
        if host.name in self.context.made_up:
            raise _made_up(host)
        async with self.questions.hold((self.context.holder,)):
            if host not in self._said:
                await self._ask(host, url, refusal)
        if not self._said[host]:
            raise FetchError(
                "denied",
                f"The owner does not want {host.name} to be read{self._reason}. {_LOCAL}; use another source.",
                host=host.name,
            )
        return host

    async def _ask(self, host: PrivateHost, url: str, refusal: AddressBlocked) -> None:
        if self.context.approve is None:
            raise AddressBlocked(f"{refusal}. Nobody can be asked here.", host=host.name)
        shown, closed = {url: host}, dict[str, str]()
        for other in [one for one in dict.fromkeys(self.urls) if one != url]:  # a second look-up may differ
            found = await self.reader.private_host(other)
            if isinstance(found, PrivateHost) and found.name in self.context.made_up:
                found = _made_up(found)
            if isinstance(found, AddressBlocked):
                closed[other] = str(found).partition(". ")[0]
            elif found is not None:
                shown[other] = found
        answer = await self.context.approve(_question(shown, closed))
        self._reason = f": {answer.reason.rstrip('.')}" if answer.reason else ""
        self._said |= dict.fromkeys(shown.values(), answer.yes)


def _lookups(host: str, steps: Sequence[Mapping[str, object]]) -> Iterator[Lookup]:
    """The steps that asked somebody."""
    for step in steps:
        outcome, seconds = str(step["outcome"]), step.get("seconds")
        if not outcome.startswith("not asked"):
            taken = seconds if isinstance(seconds, float) else 0.0
            yield Lookup(TOOL, str(step["step"]), host, "" if outcome == "ok" else "failed", taken)


def _made_up(host: PrivateHost) -> AddressBlocked:
    at = ", ".join(map(str, host.addresses))
    what = f"{host.name} leads into the owner's own network ({at}), and nobody has named it here"
    return AddressBlocked(f"{what}. If it is meant, the owner can name it in a message.", host=host.name)


def _question(shown: dict[str, PrivateHost], closed: dict[str, str]) -> Question:
    lasting = tuple(_lasting(host) for host in dict.fromkeys(shown.values()))
    allowed = "; ".join(one.words for one in lasting)
    always = _("Always: {what}, until you take it back with /permissions.", what=allowed)
    names = ", ".join(in_question(host.name) for host in dict.fromkeys(shown.values()))
    detail, act = f"{_detail(shown, closed)}\n{always}", _("read {target}", target=names)
    return Question(_(TITLE), detail, lasting=lasting, act=act, done=act)


def _lasting(host: PrivateHost) -> Permission:
    at = ", ".join(sorted(map(str, host.addresses)))
    place = host.name if host.name == at else f"{host.name} ({at})"
    return Permission("private", f"{host.name} {at}", _("read pages of {place} in your own network", place=place))


def _detail(shown: dict[str, PrivateHost], closed: dict[str, str]) -> str:
    """The question: which host at which address, what is read of it, what is refused anyway, and what leaves."""
    hosts = {host.name: ", ".join(map(str, host.addresses)) for host in shown.values()}
    places = [name if name == at else f"{name} ({at})" for name, at in hosts.items()]
    leaves = N_(
        "What leaves: a request for each address, from this machine straight to {to}. What it answers goes to the "
        "model."
    )
    refused = N_("Refused whatever you answer: {target} ({reason})")
    lines = [
        *(_("Reason: {place} is an address of your own network.", place=one) for one in places),
        _("Host: {host}", host=", ".join(hosts)),
        *(_("Address: {target}", target=in_question(url)) for url in shown),
        *(_(refused, target=in_question(url), reason=why) for url, why in closed.items()),
        _(leaves, to=together(places)),
    ]
    return "\n".join(lines)
