"""The order, the second tries, the pauses and the deadline of the chain, on a clock that stands still.

And who is asked at all where privacy is wanted.
"""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.schema_web import WebSearchConfig
from nanobot.errors import SearchError, SearchErrorKind
from nanobot.web.search.base import Quota, SearchBackend, SearchHit, SearchQuery, SearchReply
from nanobot.web.search.catalog import Catalog
from nanobot.web.search.chain import Attempt, ChainFailed, ChainLink, SearchChain
from tests.fakes.search_apis import KEY, FakeDdgs, SearchApis
from tests.fakes.sections import section
from tests.tables import table

HIT = SearchHit("t", "https://a.example/")


@dataclass(slots=True)
class Clock:
    """Time that only sleeping moves. `slept` keeps every pause."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


@dataclass(slots=True)
class Scripted(SearchBackend):
    """A back end that plays its script: an error is raised, a reply returned; then it finds one page."""

    name: str
    clock: Clock
    script: deque[SearchError | SearchReply] = field(default_factory=deque)
    takes: float = 0.0
    deadlines: list[float] = field(default_factory=list)

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        self.deadlines.append(round(timeout, 3))
        self.clock.now += min(self.takes, timeout)
        step = self.script.popleft() if self.script else SearchReply(self.name, (HIT,))
        if isinstance(step, SearchError):
            raise step
        return step

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return ()

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        raise SearchError("timeout", "slow")


def error(kind: SearchErrorKind, status: int = 0, retry_after: float | None = None) -> SearchError:
    return SearchError(kind, f"it is {kind}", status=status, retry_after=retry_after)


def link(backend: Scripted, *, pace: float = 0.0, content_seconds: float = 0.0) -> ChainLink:
    return ChainLink(backend.name, lambda: backend, pace=pace, content_seconds=content_seconds)


def chain(clock: Clock, *backends: Scripted, pace: float = 0.0) -> SearchChain:
    return SearchChain([link(backend, pace=pace) for backend in backends], clock=clock, sleep=clock.sleep)


@table(
    "failure pauses",
    (error("rate_limited", 429, 7), [7]),
    (error("rate_limited", 429, 10), [10]),
    (error("rate_limited", 429, 11), None),
    (error("rate_limited", 429), [1]),
    (error("unavailable", 503), [0.3]),
    (error("unavailable", 408), [0.3]),
    (error("network"), [0.3]),
    (error("auth", 401), None),
    (error("bad_request", 422), None),
    (error("quota", 402), None),
    (error("timeout"), None),
)
async def test_S15_S23_C22_what_may_pass_is_tried_once_more(failure: SearchError, pauses: list[float] | None) -> None:
    clock = Clock()
    first = Scripted("first", clock, deque([failure]))
    found = await chain(clock, first, Scripted("second", clock)).search(SearchQuery("q"), timeout=60)
    assert found.reply.provider == ("second" if pauses is None else "first")
    assert clock.slept == (pauses or [])
    assert len(found.attempts) == 2


async def test_C22_S15_S23_there_is_no_third_try() -> None:
    clock = Clock()
    first = Scripted("first", clock, deque([error("unavailable", 503)] * 9))
    with pytest.raises(ChainFailed) as caught:
        await chain(clock, first).search(SearchQuery("q"), timeout=60)
    assert len(first.deadlines) == 2
    assert caught.value.kind == "unavailable"


@pytest.mark.parametrize(("kind", "failures"), [("timeout", 1), ("blocked", 1), ("auth", 1), ("bad_payload", 3)])
async def test_a_back_end_that_fails_is_left_alone_for_a_while(kind: SearchErrorKind, failures: int) -> None:
    clock = Clock()
    first = Scripted("first", clock, deque([error(kind)] * failures))
    asked = chain(clock, first, Scripted("second", clock))
    for _ in range(failures + 3):
        found = await asked.search(SearchQuery("q"), timeout=30)
        assert found.reply.provider == "second"
        assert found.fallback
    assert len(first.deadlines) == failures
    assert found.attempts[0].skipped
    assert "left alone" in found.reply.notices[0]
    clock.now += 700
    assert (await asked.search(SearchQuery("q"), timeout=30)).reply.provider == "first"


async def test_a_wrong_question_pauses_nobody() -> None:
    clock = Clock()
    first = Scripted("first", clock, deque([error("bad_request", 422)] * 5))
    asked = chain(clock, first, Scripted("second", clock))
    for _ in range(6):
        found = await asked.search(SearchQuery("q"), timeout=30)
    assert found.reply.provider == "first"


async def test_a_named_time_is_kept_before_the_next_request() -> None:
    clock = Clock()
    first = Scripted("first", clock, deque([error("rate_limited", 429, 200)]))
    asked = chain(clock, first)
    for wait in (200, 100):
        with pytest.raises(ChainFailed) as caught:
            await asked.search(SearchQuery("q"), timeout=30)
        assert caught.value.retry_after == pytest.approx(wait)
        clock.now += 100
    assert len(first.deadlines) == 1


async def test_S17_each_back_end_has_a_share_and_the_last_one_all_that_is_left() -> None:
    clock = Clock()
    slow = [Scripted(name, clock, deque([error("timeout")]), takes=60) for name in ("a", "b", "c")]
    with pytest.raises(ChainFailed):
        await chain(clock, *slow).search(SearchQuery("q"), timeout=30)
    assert [backend.deadlines for backend in slow] == [[10], [10], [10]]
    assert clock.now == pytest.approx(1030)


async def test_S03_reading_pages_may_take_its_own_time_and_leaves_the_next_its_share() -> None:
    clock = Clock()
    slow, last = Scripted("slow", clock, deque([error("timeout")]), takes=500), Scripted("last", clock)
    links = [link(slow, content_seconds=180), link(last)]
    made = SearchChain(links, clock=clock, sleep=clock.sleep)
    await made.search(SearchQuery("q", include_content=True), timeout=30)
    await made.search(SearchQuery("q"), timeout=30)
    assert slow.deadlines == [180]
    assert last.deadlines == [15, 30]


@pytest.mark.parametrize("name", ["kimi", "moonshot", "moonshot_search"])
def test_S08_the_page_search_of_kimi_has_its_180_seconds(name: str) -> None:
    settings = section(WebSearchConfig, {"provider": name, "apiKey": "k", "baseUrl": "https://own.example"})
    assert settings.provider == "kimi"
    assert Catalog(settings, {}).link("kimi").content_seconds == 180


async def test_requests_to_one_back_end_keep_their_distance() -> None:
    clock = Clock()
    asked = chain(clock, Scripted("first", clock), pace=0.5)
    for _ in range(3):
        await asked.search(SearchQuery("q"), timeout=30)
    assert clock.slept == [0.5, 0.5]


async def test_an_uncertain_nothing_asks_the_next_and_stands_where_nobody_has_more() -> None:
    clock = Clock()
    unsure = SearchReply("first", uncertain=True)
    first = Scripted("first", clock, deque([unsure, unsure]))
    second = Scripted("second", clock, deque([SearchReply("second", (HIT,)), error("auth", 401)]))
    asked = chain(clock, first, second)
    assert (await asked.search(SearchQuery("q"), timeout=30)).reply.provider == "second"
    assert (await asked.search(SearchQuery("q"), timeout=30)).reply.hits == ()


async def test_a_slow_usage_stands_as_an_error_in_its_place() -> None:
    clock = Clock()
    usage = await chain(clock, Scripted("first", clock)).usage(timeout=1)
    assert (usage[0].provider, usage[0].error) == ("first", "slow")


REMOTE = ("brave", "tavily", "exa", "kagi", "jina", "firecrawl", "kimi", "serper", "bocha", "perplexity")


def config(apis: SearchApis, *names: str, **values: object) -> WebSearchConfig:
    providers = {name: {"apiKey": KEY, "baseUrl": apis.base(name)} for name in names}
    return section(WebSearchConfig, {"providers": providers, **values})


async def test_in_privacy_mode_the_remote_services_see_nothing(apis: SearchApis) -> None:
    fake = FakeDdgs()
    apis.always("searxng", "unavailable")
    async with aclosing(WebSearchTool(config(apis, *REMOTE, "searxng"), ddgs=fake)) as tool:
        result = await tool.call({"query": "my illness"}, ToolContext(privacy=True))
    assert result.is_error
    assert len(apis.asked("searxng")) == 2
    assert not any(apis.asked(name) for name in REMOTE)
    assert fake.calls == []


@pytest.mark.parametrize("chosen", ["kagi", "duckduckgo"])
async def test_in_privacy_mode_the_chosen_back_end_is_asked_and_nobody_after_it(apis: SearchApis, chosen: str) -> None:
    fake = FakeDdgs(always="blocked")
    apis.always("kagi", "quota")
    async with aclosing(WebSearchTool(config(apis, *REMOTE, provider=chosen), ddgs=fake)) as tool:
        result = await tool.call({"query": "my illness"}, ToolContext(privacy=True))
    assert result.is_error
    assert {name for name in REMOTE if apis.asked(name)} == {chosen} - {"duckduckgo"}
    assert bool(fake.calls) is (chosen == "duckduckgo")


async def test_in_privacy_mode_without_a_chosen_back_end_the_error_says_what_to_set(apis: SearchApis) -> None:
    tool = WebSearchTool(config(apis, "brave"), ddgs=FakeDdgs())
    result = await tool.call({"query": "my illness"}, ToolContext(privacy=True))
    assert "only SearXNG or the back end named in tools.web.search.provider may be asked" in result.text
    assert apis.asked("brave") == []


async def test_C12_a_tool_of_an_mcp_server_steps_in_only_where_fallback_lists_it(apis: SearchApis) -> None:
    asked: list[tuple[str, str, dict[str, object]]] = []

    async def call(
        server: str, tool: str, arguments: Callable[[frozenset[str]], Mapping[str, object]], timeout: float
    ) -> str:
        asked.append((server, tool, dict(arguments(frozenset({"q", "max_results"})))))
        if tool == "broken":
            raise SearchError("unavailable", "the server is down")
        return "Title: A\nURL: https://a.example/\nText: words"

    apis.always("brave", "quota")
    entries = ("mcp:one/broken", "mcp:two/search")
    tool = WebSearchTool(config(apis, "brave", provider="brave", fallback=entries), mcp=call)
    result = await tool.call({"query": "python", "exclude_domains": ["b.example"], "freshness": "day"}, None)
    assert result.extras["provider"] == "mcp:two/search"
    assert "https://a.example/" in result.text
    assert "Note: mcp:two/search cannot filter by time" in result.text
    wanted = {"q": "python -site:b.example", "max_results": 5}
    assert asked == [("one", "broken", wanted), ("one", "broken", wanted), ("two", "search", wanted)]
    asked.clear()
    async with aclosing(WebSearchTool(config(apis, "brave", provider="brave", fallback=()), mcp=call)) as plain:
        assert (await plain.call({"query": "python"}, None)).is_error
        assert asked == []
        await tool.aclose()


def test_back_ends_that_cannot_be_reached_are_named_together() -> None:
    away = [Attempt(name, "network", message=f"{name} cannot be reached: no name") for name in ("a", "a", "b", "c")]
    assert str(ChainFailed(away, 0.0)) == "a cannot be reached: no name; nor can b, c be reached"
    used_up = Attempt("d", "quota", message="d is used up")
    assert str(ChainFailed([away[0], used_up], 0.0)) == "a cannot be reached: no name; d is used up"
