"""What each search engine takes, as data with a date (vendors.json), and every request that is sent held against it."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl

import httpx
import pytest
from msgspec.structs import replace

from nanobot.web.search import codes
from nanobot.web.search.base import SearchQuery
from nanobot.web.search.catalog import CATALOG
from nanobot.web.search.duckduckgo import DuckDuckGoBackend
from nanobot.web.search.engines import ENGINES
from nanobot.web.service import ServiceAccess
from tests.fakes.search_apis import APIS, KEY, FakeDdgs, SearchApis
from tests.tables import table

VENDORS: Mapping[str, Mapping[str, object]] = json.loads(
    (Path(__file__).parent / "vendors.json").read_text(encoding="utf-8")
)
BASE = SearchQuery("python release", limit=3, call_id="call-1")
LANGUAGES = ("de", "en-GB", "pt", "no", "nb", "el", "zh", "zh-TW", "zh-HK", "ja", "sv", "iw", "xx")
COUNTRIES = ("DE", "de", "GR", "BR", "PT", "GB", "IS", "JP", "TW", "XX")
SPANS = ("day", "week", "month", "year", "2026-01-02..2026-02-03")


def queries() -> Iterator[SearchQuery]:
    """One of each filter, every language with a few countries, and all of them at once."""
    yield BASE
    yield from (replace(BASE, limit=limit) for limit in (1, 20))
    yield from (replace(BASE, freshness=span, include_content=content) for span in SPANS for content in (False, True))
    yield from (replace(BASE, language=language) for language in LANGUAGES)
    yield from (replace(BASE, country=country, language=one) for country in COUNTRIES for one in ("", "pt", "en"))
    yield replace(BASE, include_domains=("python.org", "docs.test"), exclude_domains=("example.org",))
    yield replace(BASE, exclude_domains=("example.org",), include_content=True)
    yield replace(BASE, query="word " * 200)
    yield replace(BASE, query="long" * 300, include_domains=("python.org",), country="DE", language="de", limit=20)


class Rerouted(httpx.AsyncBaseTransport):
    """Sends what is meant for a vendor to its fake, and notes the address that was meant."""

    def __init__(self, to: str) -> None:
        self._to = httpx.URL(to)
        self._inner = httpx.AsyncHTTPTransport()
        self.meant: list[httpx.URL] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.meant.append(request.url)
        way = self._to.raw_path + request.url.raw_path
        request.url = self._to.copy_with(raw_path=way)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def problems(spec: object, sent: object, where: str = "") -> Iterator[str]:
    """How `sent` breaks `spec`, one line each."""
    assert isinstance(spec, dict)
    if "fields" in spec:
        assert isinstance(sent, dict)
        yield from (f"{where}.{name} is not known" for name in sent.keys() - spec["fields"].keys())
        yield from (f"{where}.{name} is missing" for name in spec.get("needs", []) if name not in sent)
        for together in spec.get("never_together", []):
            if all(name in sent for name in together):
                yield f"{where} holds {together} together"
        for name in sent.keys() & spec["fields"].keys():
            yield from problems(spec["fields"][name], sent[name], f"{where}.{name}")
    elif not _fits(spec, sent):
        yield f"{where} = {sent!r} breaks {str(spec)[:80]}"


def _fits(spec: Mapping[str, object], sent: object) -> bool:
    match spec:
        case {"one_of": list(allowed)}:
            return any(sent == one and type(sent) is type(one) for one in allowed)
        case {"some_of": list(allowed), "with": list(needed)}:
            given = str(sent).split(",")
            return set(given) <= set(allowed) and set(needed) <= set(given)
        case {"pattern": str(pattern)}:
            return isinstance(sent, str) and re.fullmatch(pattern, sent) is not None
        case {"number": [int(least), int(most)]}:
            return not isinstance(sent, bool) and str(sent).isdecimal() and least <= int(str(sent)) <= most
        case {"text": dict(limits)}:
            long = isinstance(sent, str) and len(sent) > limits.get("most", 10**6)
            return isinstance(sent, str) and bool(sent) and not long and len(sent.split()) <= limits.get("words", 10**6)
        case {"texts": dict(each)}:
            parts = sent if isinstance(sent, list) else [sent]
            return bool(parts) and all(isinstance(one, str) and _fits(each or {"text": {}}, one) for one in parts)
    raise AssertionError(spec)


def call_of(vendor: str, method: str, path: str) -> object:
    """The contract of a call, by its method and path; `*` stands for one segment."""
    calls = VENDORS[vendor]["calls"]
    assert isinstance(calls, dict)
    for name, spec in calls.items():
        if re.fullmatch(name.replace("*", "[^/]+"), f"{method} {path}"):
            return spec
    raise AssertionError(f"{vendor} knows no {method} {path}")


def test_every_engine_has_a_contract_with_a_date_and_the_host_that_is_asked() -> None:
    assert set(VENDORS) == set(CATALOG)
    for name, vendor in VENDORS.items():
        assert re.fullmatch(r"2026-\d\d-\d\d", str(vendor["date"])), name
        assert vendor["source"], name
        if name in ENGINES:
            host = ENGINES[name].host
            assert httpx.URL(host).host == vendor["host"], name
            assert not host or host.startswith("https://"), name


@pytest.mark.parametrize("engine", APIS)
async def test_S08_S21_N31_N32_N33_N34_N35_every_request_is_one_that_the_engine_takes(
    apis: SearchApis, engine: str
) -> None:
    root = apis.base(engine).partition(f"/{engine}")[0] + f"/{engine}"
    route = Rerouted(root)
    own = "" if VENDORS[engine]["host"] else f"https://own.example{APIS[engine].base}"
    clients: Callable[[str | None], httpx.AsyncClient] = lambda _: httpx.AsyncClient(transport=route)  # noqa: E731
    backend = ENGINES[engine](engine, ServiceAccess(api_key=KEY, base_url=own), clients)
    wrong: list[str] = []
    for query in queries():
        await backend.search(query, timeout=60)
        request, meant = apis.asked(engine)[-1], route.meant[-1]
        assert meant.host == (VENDORS[engine]["host"] or "own.example")
        sent: dict[str, object] = request.json() if request.method == "POST" else {}
        sent |= dict(parse_qsl(meant.query.decode(), keep_blank_values=True))
        path = meant.raw_path.decode().partition("?")[0]
        wrong += problems(call_of(engine, request.method, path), sent, engine)
    await backend.aclose()
    assert wrong == []


async def test_S21_every_search_of_ddgs_is_one_that_the_library_and_duckduckgo_take() -> None:
    fake = FakeDdgs()
    backend = DuckDuckGoBackend(library=fake)
    for query in queries():
        await backend.search(query, timeout=60)
    spec = VENDORS["duckduckgo"]["calls"]
    assert isinstance(spec, dict)
    calls = [{name: value for name, value in call.items() if value is not None} for call in fake.calls]
    assert [line for call in calls for line in problems(spec["text"], call)] == []


@table(
    "country language region",
    ("", "", "wt-wt"),
    ("DE", "", "de-de"),
    ("", "de", "de-de"),
    ("CH", "fr", "ch-fr"),
    ("GB", "", "uk-en"),
    ("JP", "ja", "jp-jp"),
    ("", "zh-TW", "tw-tzh"),
    ("HK", "zh", "hk-tzh"),
    ("", "en", "us-en"),
    ("DE", "en", "de-de"),
    ("XX", "", "wt-wt"),
)
async def test_S21_a_country_and_a_language_are_a_region_of_duckduckgo(
    country: str, language: str, region: str
) -> None:
    fake = FakeDdgs()
    backend = DuckDuckGoBackend(library=fake)
    await backend.search(replace(BASE, country=country, language=language), timeout=60)
    assert fake.calls[0]["region"] == region


def test_the_codes_that_the_engines_are_sent_are_those_of_the_contracts() -> None:
    def allowed(vendor: str, call: str, field: str) -> object:
        spec = VENDORS[vendor]["calls"]
        assert isinstance(spec, dict)
        return set(spec[call]["fields"][field]["one_of"])

    assert allowed("brave", "GET /res/v1/web/search", "country") == codes.BRAVE_COUNTRIES
    assert allowed("brave", "GET /res/v1/web/search", "search_lang") == codes.BRAVE_LANGUAGES
    assert (len(codes.BRAVE_COUNTRIES), len(codes.BRAVE_LANGUAGES)) == (37, 50)
    assert allowed("tavily", "POST /search", "country") == set(codes.TAVILY_COUNTRIES.values())
    assert allowed("duckduckgo", "text", "region") == {"wt-wt", *codes.DUCKDUCKGO_REGIONS}
