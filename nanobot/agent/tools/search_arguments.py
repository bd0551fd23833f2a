"""What a model may say to `web_search`."""

import re
import unicodedata
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from nanobot.utils.text import strip_unsafe
from nanobot.web.search.base import parse_span

MAX_LIMIT = 20
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)+\Z")


def _listed(value: object) -> object:
    """A list, also from one text with commas, as models like to write it."""
    if value is None:
        return []
    return [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value


def _texted(value: object) -> object:
    return "" if value is None else value


Domains = Annotated[tuple[str, ...], BeforeValidator(_listed)]
OptionalText = Annotated[str, BeforeValidator(_texted)]


class WebSearchArguments(BaseModel):
    """What a model may ask for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(description="What to search for.")
    limit: int = Field(5, ge=1, le=MAX_LIMIT, description="Number of results.")
    include_content: bool = Field(False, description="Also return page text. Costs many tokens.")
    freshness: OptionalText = Field("", description="day, week, month, year or YYYY-MM-DD..YYYY-MM-DD.")
    include_domains: Domains = Field((), description="Only these sites.")
    exclude_domains: Domains = Field((), description="Not these sites.")
    country: OptionalText = Field("", description="Two-letter country code such as DE.")
    language: OptionalText = Field("", description="Language code such as de or zh.")
    fresh: bool = Field(False, description="Ask again, even if this turn did so already.")

    @field_validator("query")
    @classmethod
    def _query_says_something(cls, value: str) -> str:
        query = " ".join(unicodedata.normalize("NFKC", strip_unsafe(value)).split())
        if not query:
            raise ValueError("the query is empty")
        return query

    @field_validator("freshness")
    @classmethod
    def _freshness_is_known(cls, value: str) -> str:
        parse_span(value)
        return value.strip().lower()

    @field_validator("include_domains", "exclude_domains")
    @classmethod
    def _domains_are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        hosts = [part.strip().lower().rpartition("://")[2].partition("/")[0] for part in value]
        hosts = [host.removeprefix("*.").removeprefix("site:") for host in hosts]
        for host in hosts:
            if not _HOST.match(host.encode("idna").decode("ascii") if not host.isascii() else host):
                raise ValueError(f"{host!r} is no site; write it like example.org")
        return tuple(dict.fromkeys(hosts))

    @field_validator("country")
    @classmethod
    def _countries_are_of_two_letters(cls, value: str) -> str:
        """Without the part of the country that some models add, as in `US-CA`."""
        code = re.split("[-_]", value.strip())[0]
        if code and not re.fullmatch("[A-Za-z]{2}", code):
            raise ValueError("only a code such as DE is understood")
        return code.upper()

    @field_validator("language")
    @classmethod
    def _languages_are_short(cls, value: str) -> str:
        code = value.strip()
        if code and not re.fullmatch(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?", code):
            raise ValueError("only a code such as de is understood")
        return code.replace("_", "-")
