"""Asking back ends in order until one answers, within one deadline."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.errors import SearchError, SearchErrorKind
from nanobot.utils.searchusage import SearchUsageInfo
from nanobot.web.search.base import SearchBackend, SearchQuery, SearchReply
from nanobot.web.usage import NO_BUDGET, RequestBudget, UsageLedger, describe

MAX_WAIT = 10.0
MINUTE = 60.0
RETRY_PAUSE = 0.3
NOT_PRIVATE = (
    "privacy mode is on, and only SearXNG or the back end named in tools.web.search.provider may be asked; "
    "none is set (/privacy off lets all of them search)"
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

    def __init__(self, attempts: Sequence[Attempt], retry_after: float | None) -> None:
        reasons = "; ".join(dict.fromkeys(attempt.message for attempt in attempts if attempt.message))
        kind: SearchErrorKind = next((attempt.error for attempt in attempts if attempt.error), "unavailable")
        super().__init__(kind, reasons, retry_after=retry_after)
        self.attempts = tuple(attempts)


class ChainLink(Struct):
    """A back end, made when it is first asked, with its own deadline (seconds, None: its share), the least seconds
    between two requests, and its budget.

    `per_minute` is the most requests in one minute, 0 for no limit. `private` tells that it may be asked in privacy
    mode. `content_seconds` is what it may take to read pages, beyond the time of a search, unless `timeout` is set.
    """

    name: str
    make: Callable[[], SearchBackend]
    timeout: float | None = None
    pace: float = 0.0
    budget: RequestBudget = NO_BUDGET
    private: bool = False
    per_minute: int = 0
    content_seconds: float = 0.0
    _made: SearchBackend | None = None
    #: How it went: failures in a row with the last one's words and kind, until when it is left alone, when the next
    #: request may start, and when those of the last minute did (seconds of the chain's clock).
    failures: int = 0
    reason: str = ""
    kind: SearchErrorKind | None = None
    closed_until: float = 0.0
    next_start: float = 0.0
    starts: deque[float] = field(default_factory=deque)

    @property
    def backend(self) -> SearchBackend:
        if self._made is None:
            self._made = self.make()
        return self._made

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aclose()


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
            run.attempts.append(Attempt("none", "not_configured", skipped=True, message=NOT_PRIVATE))
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
        raise ChainFailed(run.attempts, self._soonest())

    async def usage(self, *, timeout: float) -> tuple[SearchUsageInfo, ...]:
        """The allowance of every back end, asked at the same time; where one has no endpoint, what it last said.

        `timeout` is in seconds for each. A failure stands in its place.
        """

        async def one(link: ChainLink) -> SearchUsageInfo:
            name = link.name
            try:
                async with asyncio.timeout(timeout):
                    told = await link.backend.usage(timeout=timeout)
            except SearchError as error:
                return describe(name, self._ledger.seen(name), link.budget, error=str(error))
            except TimeoutError:
                return describe(name, self._ledger.seen(name), link.budget, error=f"no answer within {timeout:.3g} s")
            if told:
                self._ledger.keep(name, told)
            return describe(name, self._ledger.seen(name), link.budget)

        return tuple(await asyncio.gather(*(one(link) for link in self._links)))

    def known_usage(self) -> tuple[SearchUsageInfo, ...]:
        """What was last seen of every allowance, without asking anybody."""
        names = ((link.name, link.budget) for link in self._links)
        return tuple(describe(name, self._ledger.seen(name), budget) for name, budget in names)

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
        name = link.name
        until = self._clock() + share
        if link.closed_until > self._clock():
            left = link.closed_until - self._clock()
            words = f"{name} is left alone for {left:.0f} s ({link.reason})"
            run.attempts.append(Attempt(name, link.kind, skipped=True, message=words))
            return None
        for trial in (1, 2):
            if not await self._paced(link, until):
                words = f"{name} has had its {link.per_minute} requests of this minute"
                run.attempts.append(Attempt(name, "rate_limited", skipped=True, message=words))
                return None
            if refusal := self._ledger.reserve(name, link.budget):
                run.attempts.append(Attempt(name, "quota", skipped=True, message=f"{name} is not asked: {refusal}"))
                return None
            started = self._clock()
            try:
                reply = await self._bounded(link, run.query, until - started)
            except SearchError as error:
                attempt = Attempt(name, error.kind, error.status, self._clock() - started, message=str(error))
                run.attempts.append(attempt)
                wait = _pause_before_retry(error)
                if trial == 1 and wait is not None and self._clock() + wait < until:
                    await self._sleep(wait)
                    continue
                self._failed(link, error)
                return None
            run.attempts.append(Attempt(name, status=200, seconds=self._clock() - started))
            link.failures, link.reason, link.kind = 0, "", None
            self._learn(name, reply)
            if lacks := link.backend.lacks(run.query):
                notice = f"{name} cannot filter by {' or '.join(lacks)}: check the hits"
                reply = replace(reply, notices=(*reply.notices, notice))
            return reply
        return None

    def _learn(self, name: str, reply: SearchReply) -> None:
        """Keep what an answer tells of the allowance and of its price."""
        if reply.quota:
            self._ledger.keep(name, reply.quota)
        if reply.cost:
            self._ledger.spend(name, reply.cost)

    async def _bounded(self, link: ChainLink, query: SearchQuery, timeout: float) -> SearchReply:
        """A back end keeps its own deadline; this one holds where it does not."""
        if timeout <= 0:
            raise SearchError("timeout", f"{link.name} had no time left")
        try:
            async with asyncio.timeout(timeout + 0.2):
                return await link.backend.search(query, timeout=timeout)
        except TimeoutError:
            raise SearchError("timeout", f"{link.name} did not answer within {timeout:.3g} s") from None

    async def _paced(self, link: ChainLink, until: float) -> bool:
        """Wait for the turn of a request; False where a full minute leaves no room for it before `until`."""
        now = self._clock()
        start = max(now, link.next_start)
        if link.per_minute:
            while link.starts and link.starts[0] <= start - MINUTE:
                link.starts.popleft()
            if len(link.starts) >= link.per_minute:
                start = link.starts[0] + MINUTE
            if start >= until:
                return False
            link.starts.append(start)
        link.next_start = start + link.pace
        if start > now:
            await self._sleep(min(start, until) - now)
        return True

    def _failed(self, link: ChainLink, error: SearchError) -> None:
        if error.kind == "bad_request":
            return  # the question was wrong, not the engine
        link.failures += 1
        link.reason, link.kind = str(error), error.kind
        grace = 2 if error.kind in _HICCUPS else 0
        if link.failures > grace:
            pause = _PAUSES.get(error.kind, 15.0) * 2 ** min(link.failures - grace - 1, 6)
            link.closed_until = self._clock() + min(PAUSE_CAP, max(pause, error.retry_after or 0.0))
            logger.warning("search back end pauses: {}", error)

    def _soonest(self) -> float | None:
        waits = [link.closed_until - self._clock() for link in self._links]
        return max(0.0, min(waits)) if waits else None


def _pause_before_retry(error: SearchError) -> float | None:
    """Seconds before the one retry, None where it would not help."""
    if error.kind not in _RETRIED or (400 <= error.status < 500 and error.status not in (408, 429)):
        return None
    wait = RETRY_PAUSE if error.retry_after is None else error.retry_after
    if error.kind == "rate_limited" and error.retry_after is None:
        wait = 1.0
    return wait if wait <= MAX_WAIT else None
