"""Brave Search: web search, and its page text for models where content is asked for."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, with_sites
from nanobot.web.search.base import Filter, Quota, QuotaWindow, SearchHit, SearchQuery, SearchReply, lacking
from nanobot.web.search.http import Answer, Ask
from nanobot.web.search.payload import Fields, at, bad_payload, first_of, lines_of, plain, read_hits, record, text

_WEB = Fields(snippet=("description",), published=("page_age",), site=("profile.name",), icon=("meta_url.favicon",))
#: The codes that Brave takes (its parameters as of 2026-11); anything else is refused with status 422.
COUNTRIES = frozenset(
    "AR AU AT BE BR CA CL DK FI FR DE HK IN ID IT JP KR MY MX NL NZ NO CN PL PT PH RU SA ZA ES SE CH TW TR GB US "
    "ALL".split()
)
LANGUAGES = frozenset(
    "ar eu bn bg ca zh-hans zh-hant hr cs da nl en en-gb et fi fr gl de gu he hi hu is it jp kn ko lv lt ms ml mr nb "
    "pl pt-br pt-pt pa ro ru sr sk sl es sv ta te th tr uk vi".split()
)
_OTHER_CODES = {"zh": "zh-hans", "zh-cn": "zh-hans", "zh-sg": "zh-hans", "zh-tw": "zh-hant", "zh-hk": "zh-hant"}
_OTHER_CODES |= {"ja": "jp", "no": "nb", "nn": "nb", "iw": "he", "pt": "pt-pt"}
_WORDS = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}


class BraveBackend(ApiBackend):
    """GET with the key in `X-Subscription-Token`. Every answer carries its rate limits in headers."""

    label = "Brave"
    host = "https://api.search.brave.com"
    max_query = 400

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        path = "/res/v1/llm/context" if query.include_content else "/res/v1/web/search"
        ask = Ask(self._url(path), params=self._params(query), headers=self._login())
        answer = await self._wire.json(ask, timeout=timeout)
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        hits, dropped = self._passages(answer) if query.include_content else self._web(answer)
        return SearchReply(self.name, hits, quota=rate_limits(answer.headers), dropped=dropped)

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        country: tuple[Filter, ...] = () if query.country.upper() in COUNTRIES else ("country",)
        language: tuple[Filter, ...] = () if _language(query) else ("language",)
        return lacking(query, *country, *language)

    def _login(self) -> Mapping[str, str]:
        return {"X-Subscription-Token": self._access.api_key}

    def _params(self, query: SearchQuery) -> tuple[tuple[str, str], ...]:
        words = with_sites(query)[: self.max_query].split()[:50]
        params = [("q", " ".join(words)), ("count", str(self._limit(query)))]
        if query.include_content:
            params.append(("maximum_number_of_urls", str(self._limit(query))))
        else:
            params += [("text_decorations", "false"), ("result_filter", "web,query")]
        if query.country.upper() in COUNTRIES:
            params.append(("country", query.country.upper()))
        if language := _language(query):
            params.append(("search_lang", language))
        if span := freshness.parse(query.freshness):
            params.append(("freshness", _WORDS.get(span.word) or f"{span.start}to{span.end}"))
        return tuple(params)

    def _web(self, answer: Answer) -> tuple[tuple[SearchHit, ...], int]:
        web = record(answer.data).get("web")
        if web is None and "query" in record(answer.data):
            return (), 0  # the key is absent where nothing was found
        return read_hits(at(web, "results"), _WEB, engine=self.label)

    def _passages(self, answer: Answer) -> tuple[tuple[SearchHit, ...], int]:
        grounding = record(answer.data).get("grounding")
        if not isinstance(grounding, dict):
            raise bad_payload(self.label, answer.data)
        items = grounding.get("generic", [])
        if not isinstance(items, list):
            raise bad_payload(self.label, answer.data)
        flat: list[object] = [{**record(item), "content": _joined(record(item).get("snippets"))} for item in items]
        return read_hits(flat, Fields(content=("content",)), engine=self.label)


def _language(query: SearchQuery) -> str:
    """Brave's code for the language, empty where it has none."""
    code = query.language.lower()
    if code == "pt" and query.country.upper() == "BR":
        return "pt-br"
    codes = (_OTHER_CODES.get(known, known) for known in (code, code.partition("-")[0]))
    return next((known for known in codes if known in LANGUAGES), "")


def _joined(snippets: object) -> str:
    parts = snippets if isinstance(snippets, list) else []
    return "\n\n".join(lines_of(part) for part in parts if plain(part))


def rate_limits(headers: Mapping[str, str], now: datetime | None = None) -> tuple[Quota, ...]:
    """The allowances in the `X-RateLimit-*` headers: one per window, by position; a limit of 0 is no limit."""
    limits, remaining = first_of(headers, "x-ratelimit-limit"), first_of(headers, "x-ratelimit-remaining")
    resets = first_of(headers, "x-ratelimit-reset")
    windows = [_window(part) for part in text(headers.get("x-ratelimit-policy")).split(",")]
    now = now or datetime.now(UTC)
    found = []
    for index, limit in enumerate(limits):
        if not limit:
            continue
        left = remaining[index] if index < len(remaining) else None
        reset = resets[index] if index < len(resets) else None
        found.append(
            Quota(
                used=None if left is None else max(0.0, limit - left),
                limit=limit,
                remaining=left,
                resets_at=None if reset is None else now + timedelta(seconds=min(reset, 10**8)),
                window=windows[index] if index < len(windows) else "month",
                source="header",
            )
        )
    return tuple(found)


def _window(policy: str) -> QuotaWindow:
    _, _, seconds = policy.partition("w=")
    width = int(seconds.strip()) if seconds.strip().isdecimal() else 2_592_000
    bounds: tuple[tuple[int, QuotaWindow], ...] = ((1, "second"), (60, "minute"), (3600, "hour"), (86_400, "day"))
    return next((window for bound, window in bounds if width <= bound), "month")
