"""What the engines with an HTTP API have in common."""

from collections.abc import Mapping
from typing import ClassVar

from nanobot.web.client import trusted_client
from nanobot.web.search.base import Filter, Quota, SearchQuery, SearchReply, lacking
from nanobot.web.search.http import Access, ClientFactory, Wire, join


class ApiBackend:
    """One engine behind an HTTP API.

    Subclasses set `label` and `host` and write `_search`; the base keeps the wire, the login and the addresses.
    `max_hits` is the most hits that one request may ask for, `max_query` the most characters (0: no limit known);
    `cannot` are the filters that the engine does not know.
    """

    label: ClassVar[str]
    host: ClassVar[str]
    max_hits: ClassVar[int] = 20
    max_query: ClassVar[int] = 0
    cannot: ClassVar[tuple[Filter, ...]] = ()

    def __init__(self, name: str, access: Access, clients: ClientFactory = trusted_client) -> None:
        self._name = name
        self._access = access
        self._wire = Wire(self.label, access, clients)

    @property
    def name(self) -> str:
        return self._name

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """Ask once. Raises `SearchError` only."""
        raise NotImplementedError

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *self.cannot)

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """Engines without such an endpoint say nothing."""
        del timeout
        return ()

    async def aclose(self) -> None:
        await self._wire.aclose()

    def _url(self, path: str) -> str:
        return join(self._access.base_url or self.host, path)

    def _bearer(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._access.api_key}"} if self._access.api_key else {}

    def _limit(self, query: SearchQuery) -> int:
        return min(query.limit, self.max_hits)


def with_sites(query: SearchQuery) -> str:
    """The query with its domain filters as `site:` operators, for engines that have no other way."""
    include = " OR ".join(f"site:{domain}" for domain in query.include_domains)
    exclude = " ".join(f"-site:{domain}" for domain in query.exclude_domains)
    if len(query.include_domains) > 1:
        include = f"({include})"
    return " ".join(part for part in (query.query, include, exclude) if part)


def compact(body: Mapping[str, object]) -> dict[str, object]:
    """`body` without the fields that hold nothing."""
    return {key: value for key, value in body.items() if value not in (None, "", [], {}, ())}
