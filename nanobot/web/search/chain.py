"""Asking back ends in order until one answers, within one deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.errors import SearchError, SearchErrorKind
from nanobot.utils.searchusage import SearchUsageInfo
from nanobot.utils.translation import N_, _, apart, listed
from nanobot.web.search.base import SearchBackend, SearchQuery, SearchReply
from nanobot.web.usage import NO_BUDGET, RequestBudget, UsageLedger

MAX_WAIT = 10.0
RETRY_PAUSE = 0.3
NOT_PRIVATE = N_(
    "privacy mode is on, and only SearXNG or the back end named in tools.web.search.provider may be "
    "asked; none is set (/privacy off lets all of them search)"
)
PAUSE_CAP = 600.0
#: Seconds for which a back end is left alone after a failure of this kind, doubled with each further one.
_PAUSES: dict[SearchErrorKind, float] = {
    "auth": 120.0,
    "quota": 300.0,
    "rate_limited": 30.0,
    "blocked": 300.0,
    "unavailable": 15.0,
    "timeout": 30.0,
    "network": 5.0,
    "bad_payload": 15.0,
    "not_configured": 120.0,
}
#: Kinds that may be a hiccup: the back end is left alone only from the third failure in a row.
_HICCUPS = frozenset({"unavailable", "network", "bad_payload"})
_RETRIED = frozenset({"unavailable", "network", "rate_limited"})


class Attempt(Struct, frozen=True):
    """One request of a search, or a back end that was passed over (`skipped`). `seconds` is how long it took."""

    provider: str
    error: SearchErrorKind | None = None
    status: int = 0
    seconds: float = 0.0
    skipped: bool = False
    message: str = ""


class ChainReply(Struct, frozen=True):
    """The reply of the back end that answered, after the attempts made. `fallback` tells that it was not the first."""

    reply: SearchReply
    attempts: tuple[Attempt, ...]
    fallback: bool = False


class ChainFailed(SearchError):
    """Every back end failed. The kind is that of the first one."""

    def __init__(self, attempts: Sequence[Attempt], retry_after: float) -> None:
        kind: SearchErrorKind = next((attempt.error for attempt in attempts if attempt.error), "unavailable")
        told = [attempt for attempt in attempts if attempt.message]
        others = dict.fromkeys(attempt.provider for attempt in told if attempt.provider != told[0].provider)
        if others and all(attempt.error == "network" for attempt in told):
            said = _("{failure}; nor can {others} be reached", failure=told[0].message, others=listed(others))
        else:
            said = apart(dict.fromkeys(attempt.message for attempt in told))
        super().__init__(kind, said, retry_after=retry_after)
        self.attempts = tuple(attempts)


class ChainLink(Struct):
    """A back end, made when it is first asked, with its own deadline (seconds, None: its share), the least seconds
    between two requests, and its budget.

    `private` tells that it may be asked in privacy mode. `content_seconds` is what it may take to read pages, beyond
    the time of a search, unless `timeout` is set.
    """

    name: str
    make: Callable[[], SearchBackend]
    timeout: float | None = None
    pace: float = 0.0
    budget: RequestBudget = NO_BUDGET
    private: bool = False
    content_seconds: float = 0.0
    _made: SearchBackend | None = None
    #: How it went: failures in a row with the last one, until when it is left alone, and when the next request may
    #: start (seconds of the chain's clock).
    failures: int = 0
    error: SearchError | None = None
    closed_until: float = 0.0
    next_start: float = 0.0

    @property
    def backend(self) -> SearchBackend:
        if self._made is None:
            self._made = self.make()
        return self._made

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aclose()

    def failed(self, error: SearchError, now: float) -> None:
        """Count a failure; the back end is left alone for a while where it is no hiccup."""
        self.failures += 1
        self.error = error
        grace = 2 if error.kind in _HICCUPS else 0
        if self.failures > grace:
            pause = _PAUSES.get(error.kind, 15.0) * 2 ** min(self.failures - grace - 1, 6)
            self.closed_until = now + min(PAUSE_CAP, max(pause, error.retry_after or 0.0))
            logger.warning("search back end pauses: {}", error)


class _Search(Struct):
    """One search on its way: its deadline, the attempts so far, an empty answer kept in case nobody has more."""

    query: SearchQuery
    deadline: float
    attempts: list[Attempt] = field(default_factory=list)
    empty: SearchReply | None = None


class SearchChain:
    """Back ends in the order to ask them.

    Each is asked within its share of the rest of the time; a transient failure is tried once more, honouring
    `Retry-After` up to 10 s; a back end that keeps failing is passed over for a while, one whose budget is used up
    until the next day or month. Every request is counted in `ledger` before it is sent. `clock` is in seconds.
    """

    def __init__(
        self,
        links: Sequence[ChainLink],
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        ledger: UsageLedger | None = None,
    ) -> None:
        self._links = tuple(links)
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep
        self._ledger = ledger or UsageLedger()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self._links)

    async def search(self, query: SearchQuery, *, timeout: float, private: bool = False) -> ChainReply:
        """The first answer. `timeout` is in seconds for all back ends together. Raises `ChainFailed`.

        `private` asks only the back ends that are meant for it.
        """
        run = _Search(query, self._clock() + timeout)
        links = [link for link in self._links if link.private or not private]
        if not links:
            run.attempts.append(Attempt("none", "not_configured", skipped=True, message=_(NOT_PRIVATE)))
        for index, link in enumerate(links):
            share = self._share(link, run, len(links) - index)
            if share <= 0:
                break
            reply = await self._ask(link, run, share)
            if reply is None:
                continue
            if reply.hits or not reply.uncertain:
                return self._answered(run, reply)
            run.empty = run.empty or reply
        if run.empty is not None:
            return self._answered(run, run.empty)
        soonest = min((link.closed_until for link in self._links), default=0.0)
        raise ChainFailed(run.attempts, max(0.0, soonest - self._clock()))

    async def usage(self, *, timeout: float) -> tuple[SearchUsageInfo, ...]:
        """The allowance of every back end, asked at the same time; where one has no endpoint, what it last said.

        `timeout` is in seconds for each. A failure stands in its place.
        """

        async def one(link: ChainLink) -> SearchUsageInfo:
            problem = ""
            try:
                async with asyncio.timeout(timeout):
                    if told := await link.backend.usage(timeout=timeout):
                        self._ledger.keep(link.name, told)
            except SearchError as error:
                problem = str(error)
            except TimeoutError:
                problem = _("no answer within {seconds:.3g} s", seconds=timeout)
            return self._known(link, problem)

        return tuple(await asyncio.gather(*map(one, self._links)))

    def known_usage(self) -> tuple[SearchUsageInfo, ...]:
        """What was last seen of every allowance, without asking anybody."""
        return tuple(map(self._known, self._links))

    def _known(self, link: ChainLink, problem: str = "") -> SearchUsageInfo:
        return self._ledger.seen(link.name, link.budget, error=problem)

    async def aclose(self) -> None:
        for link in self._links:
            await link.aclose()

    def _share(self, link: ChainLink, run: _Search, still: int) -> float:
        """The rest of the time split evenly among those still to be asked; the last one gets all of it."""
        rest = run.deadline - self._clock()
        if link.timeout:
            return min(rest, link.timeout)
        share = rest / still if still > 1 else rest
        extra = max(0.0, link.content_seconds - share) if run.query.include_content else 0.0
        run.deadline += extra
        return share + extra

    def _answered(self, run: _Search, reply: SearchReply) -> ChainReply:
        fallback = reply.provider != self._links[0].name
        if fallback:
            failed = dict.fromkeys(attempt.message for attempt in run.attempts if attempt.error)
            notice = f"answered by {reply.provider}" + (f", because {'; '.join(failed)}" if failed else "")
            reply = replace(reply, notices=(notice, *reply.notices))
        return ChainReply(reply, tuple(run.attempts), fallback)

    async def _ask(self, link: ChainLink, run: _Search, share: float) -> SearchReply | None:
        """The reply of one back end, None where it is passed over or fails; what happened joins the attempts."""
        until = self._clock() + share
        for trial in (1, 2):
            if passed_over := self._passed_over(link):
                run.attempts.append(passed_over)
                return None
            await self._paced(link, until)
            started = self._clock()
            try:
                reply = await self._bounded(link, run.query, until - started)
            except SearchError as error:
                seconds = self._clock() - started
                run.attempts.append(Attempt(link.name, error.kind, error.status, seconds, message=str(error)))
                wait = _pause_before_retry(error)
                if trial == 1 and wait is not None and self._clock() + wait < until:
                    await self._sleep(wait)
                    continue
                if error.kind != "bad_request":  # else the question was wrong, not the engine
                    link.failed(error, self._clock())
                return None
            run.attempts.append(Attempt(link.name, status=200, seconds=self._clock() - started))
            link.failures = 0
            return self._learned(link, run.query, reply)
        return None

    def _passed_over(self, link: ChainLink) -> Attempt | None:
        """Why a back end is not asked now; else the request counts from here on."""
        left = link.closed_until - self._clock()
        if left > 0 and link.error is not None:
            words = _(
                "{service} is left alone for {seconds:.0f} s ({why})", service=link.name, seconds=left, why=link.error
            )
            return Attempt(link.name, link.error.kind, skipped=True, message=words)
        refusal = self._ledger.reserve(link.name, link.budget)
        message = _("{service} is not asked: {why}", service=link.name, why=refusal)
        return Attempt(link.name, "quota", skipped=True, message=message) if refusal else None

    def _learned(self, link: ChainLink, query: SearchQuery, reply: SearchReply) -> SearchReply:
        """Keep what an answer tells of the allowance and of its price, and say which filters it lacks."""
        if reply.quota:
            self._ledger.keep(link.name, reply.quota)
        if reply.cost:
            self._ledger.spend(link.name, reply.cost)
        lacks = link.backend.lacks(query)  # English: a model reads what is said of it
        if not lacks:
            return reply
        # English: a model reads it
        return replace(
            reply,
            notices=(
                *reply.notices,
                f"{link.name} cannot filter by {' or '.join(lacks)}: check the hits",
            ),
        )

    async def _bounded(self, link: ChainLink, query: SearchQuery, timeout: float) -> SearchReply:
        """A back end keeps its own deadline; this one holds where it does not."""
        if timeout <= 0:
            raise SearchError("timeout", _("{service} had no time left", service=link.name))
        try:
            async with asyncio.timeout(timeout + 0.2):
                return await link.backend.search(query, timeout=timeout)
        except TimeoutError:
            raise SearchError(
                "timeout", _("{service} did not answer within {seconds:.3g} s", service=link.name, seconds=timeout)
            ) from None

    async def _paced(self, link: ChainLink, until: float) -> None:
        """Wait for the turn of a request."""
        now = self._clock()
        start = max(now, link.next_start)
        link.next_start = start + link.pace
        if start > now:
            await self._sleep(min(start, until) - now)


def _pause_before_retry(error: SearchError) -> float | None:
    """Seconds before the one retry, None where it would not help."""
    if error.kind not in _RETRIED or (400 <= error.status < 500 and error.status not in (408, 429)):
        return None
    usual = 1.0 if error.kind == "rate_limited" else RETRY_PAUSE
    wait = usual if error.retry_after is None else error.retry_after
    return wait if wait <= MAX_WAIT else None
