"""Tavily: search with a key, or a few searches a day without one."""

import re
from collections.abc import Mapping

from nanobot.errors import SearchError
from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, compact
from nanobot.web.search.base import Quota, SearchQuery, SearchReply, lacking
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, at, bad_payload, number, read_hits, record, text

_FIELDS = Fields(
    snippet=("content",), content=("raw_content",), published=("published_date",), score=("score",), icon=("favicon",)
)


_PRODUCTS = ("search", "extract", "crawl", "map", "research")
#: Countries by ISO code, in the words that Tavily takes (its reference as of 2026-11).
_NAMES = """\
AF afghanistan, AL albania, DZ algeria, AD andorra, AO angola, AR argentina, AM armenia, AU australia, AT austria,
AZ azerbaijan, BS bahamas, BH bahrain, BD bangladesh, BB barbados, BY belarus, BE belgium, BZ belize, BJ benin,
BT bhutan, BO bolivia, BA bosnia and herzegovina, BW botswana, BR brazil, BN brunei, BG bulgaria, BF burkina faso,
BI burundi, KH cambodia, CM cameroon, CA canada, CV cape verde, CF central african republic, TD chad, CL chile,
CN china, CO colombia, KM comoros, CG congo, CR costa rica, HR croatia, CU cuba, CY cyprus, CZ czech republic,
DK denmark, DJ djibouti, DO dominican republic, EC ecuador, EG egypt, SV el salvador, GQ equatorial guinea,
ER eritrea, EE estonia, ET ethiopia, FJ fiji, FI finland, FR france, GA gabon, GM gambia, GE georgia, DE germany,
GH ghana, GR greece, GT guatemala, GN guinea, HT haiti, HN honduras, HU hungary, IS iceland, IN india, ID indonesia,
IR iran, IQ iraq, IE ireland, IL israel, IT italy, JM jamaica, JP japan, JO jordan, KZ kazakhstan, KE kenya,
KW kuwait, KG kyrgyzstan, LV latvia, LB lebanon, LS lesotho, LR liberia, LY libya, LI liechtenstein, LT lithuania,
LU luxembourg, MG madagascar, MW malawi, MY malaysia, MV maldives, ML mali, MT malta, MR mauritania, MU mauritius,
MX mexico, MD moldova, MC monaco, MN mongolia, ME montenegro, MA morocco, MZ mozambique, MM myanmar, NA namibia,
NP nepal, NL netherlands, NZ new zealand, NI nicaragua, NE niger, NG nigeria, KP north korea, MK north macedonia,
NO norway, OM oman, PK pakistan, PA panama, PG papua new guinea, PY paraguay, PE peru, PH philippines, PL poland,
PT portugal, QA qatar, RO romania, RU russia, RW rwanda, SA saudi arabia, SN senegal, RS serbia, SG singapore,
SK slovakia, SI slovenia, SO somalia, ZA south africa, KR south korea, SS south sudan, ES spain, LK sri lanka,
SD sudan, SE sweden, CH switzerland, SY syria, TW taiwan, TJ tajikistan, TZ tanzania, TH thailand, TG togo,
TT trinidad and tobago, TN tunisia, TR turkey, TM turkmenistan, UG uganda, UA ukraine, AE united arab emirates,
GB united kingdom, US united states, UY uruguay, UZ uzbekistan, VE venezuela, VN vietnam, YE yemen, ZM zambia,
ZW zimbabwe"""
COUNTRIES = {code: name for code, _, name in (part.partition(" ") for part in re.split(r",\s", _NAMES))}


class TavilyBackend(ApiBackend):
    """POST with a Bearer key; without a key the documented keyless mode with an honest name."""

    label = "Tavily"
    host = "https://api.tavily.com"

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        ask = Ask(self._url("/search"), self._body(query), headers=self._login())
        try:
            answer = await self._wire.json(ask, timeout=timeout)
        except SearchError as error:
            if error.status != 403:
                raise
            # The service puts 403 beside 432 and 433: the plan does not allow it; a wrong key is 401.
            raise SearchError("quota", str(error), status=403, retry_after=error.retry_after) from None
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        hits, dropped = read_hits(answer.data.get("results"), _FIELDS, engine=self.label)
        spent = number(at(answer.data, "usage", "credits"))
        return SearchReply(
            self.name,
            hits,
            answer=text(answer.data.get("answer")),
            request_id=text(answer.data.get("request_id")),
            dropped=dropped,
            extras={} if spent is None else {"cost": {"credits": spent}},
        )

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return () if query.country.upper() in COUNTRIES else lacking(query, "country")

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The plan's credits of this month, then the key's own where it has a limit."""
        if not self._access.api_key:
            return ()
        answer = await self._wire.json(Ask(self._url("/usage"), headers=self._login()), timeout=timeout)
        account, key = record(at(answer.data, "account")), record(at(answer.data, "key"))
        if not account and not key:
            raise bad_payload(self.label, answer.data)
        plan = _quota(account.get("plan_usage"), account.get("plan_limit"), account)
        own = _quota(key.get("usage"), key.get("limit"), key)
        return tuple(quota for quota in (plan, own) if quota.used is not None or quota.limit is not None)

    def _login(self) -> Mapping[str, str]:
        return self._bearer() or {"X-Tavily-Access-Mode": "keyless", "X-Client-Source": "nanobot"}

    def _body(self, query: SearchQuery) -> dict[str, object]:
        span = freshness.parse(query.freshness)
        ranged = span is not None and not span.word
        return compact(
            {
                "query": query.query,
                "max_results": self._limit(query),
                "search_depth": "basic",
                "include_raw_content": "markdown" if query.include_content else None,
                "include_usage": True if self._access.api_key else None,
                "time_range": span.word if span else None,
                "start_date": span.start.isoformat() if span and ranged else None,
                "end_date": span.end.isoformat() if span and ranged else None,
                "include_domains": list(query.include_domains),
                "exclude_domains": list(query.exclude_domains),
                "country": COUNTRIES.get(query.country.upper()),
                "language": query.language.lower().partition("-")[0],
            }
        )


def _quota(used: object, limit: object, told: Mapping[str, object]) -> Quota:
    """`told` names what the credits went for, as `search_usage` and the like."""
    have, most = number(used), number(limit)
    left = None if have is None or most is None else max(0.0, most - have)
    parts = {name: spent for name in _PRODUCTS if (spent := number(told.get(f"{name}_usage"))) is not None}
    return Quota(have, most, left, window="month", source="endpoint", unit="credits", breakdown=parts)
