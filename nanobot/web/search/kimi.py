"""The search service of Kimi's shape: the operator's base URL, key and headers."""

from urllib.parse import urlsplit

from nanobot.errors import SearchError
from nanobot.web.search.api import ApiBackend
from nanobot.web.search.base import SearchQuery, SearchReply
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, bad_payload, read_hits

_FIELDS = Fields(content=("content",), published=("date",), site=("site_name",), icon=("icon",), mime=("mime",))
_MOONSHOT = ("kimi.com", "moonshot.cn", "moonshot.ai")


class KimiBackend(ApiBackend):
    """POST to the base URL itself; the id of the tool call travels in a header."""

    label = "Search service"
    host = ""
    cannot = ("time", "country", "language")

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if not self._access.base_url or not self._access.api_key:
            raise SearchError("not_configured", "Search service not configured")
        body: dict[str, object] = {
            "text_query": query.query,
            "limit": self._limit(query),
            "enable_page_crawling": query.include_content,
            "timeout_seconds": 30,
        }
        headers = {**self._bearer(), **({self._id_header(): query.call_id} if query.call_id else {})}
        answer = await self._wire.json(Ask(self._access.base_url, body, headers=headers), timeout=timeout)
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        hits, dropped = read_hits(answer.data.get("search_results"), _FIELDS, engine=self.label)
        return SearchReply(self.name, hits, dropped=dropped)

    def _id_header(self) -> str:
        host = urlsplit(self._access.base_url).hostname or ""
        known = any(host == name or host.endswith(f".{name}") for name in _MOONSHOT)
        return self._access.call_id_header or ("X-Msh-Tool-Call-Id" if known else "X-Tool-Call-Id")
