"""Countries and languages in the spelling of each engine (their references as of 2026-11)."""

import re

from nanobot.web.search.base import SearchQuery

#: The codes that Brave takes; anything else is refused with status 422.
BRAVE_COUNTRIES = frozenset(
    "AR AU AT BE BR CA CL DK FI FR DE HK IN ID IT JP KR MY MX NL NZ NO CN PL PT PH RU SA ZA ES SE CH TW TR GB US "
    "ALL".split()
)
BRAVE_LANGUAGES = frozenset(
    "ar eu bn bg ca zh-hans zh-hant hr cs da nl en en-gb et fi fr gl de gu he hi hu is it jp kn ko lv lt ms ml mr nb "
    "pl pt-br pt-pt pa ro ru sr sk sl es sv ta te th tr uk vi".split()
)
_BRAVE_OTHER = {"zh": "zh-hans", "zh-cn": "zh-hans", "zh-sg": "zh-hans", "zh-tw": "zh-hant", "zh-hk": "zh-hant"}
_BRAVE_OTHER |= {"ja": "jp", "no": "nb", "nn": "nb", "iw": "he", "pt": "pt-pt"}

#: Countries by ISO code, in the words that Tavily takes.
# English: the service takes it so
_TAVILY = """\
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
TAVILY_COUNTRIES = {code: name for code, _, name in (part.partition(" ") for part in re.split(r",\s", _TAVILY))}

#: DuckDuckGo's own regions, country and language; another one counts as none.
DUCKDUCKGO_REGIONS = tuple(
    "ar-es au-en at-de be-fr be-nl br-pt bg-bg ca-en ca-fr ct-ca cl-es cn-zh co-es hr-hr cz-cs dk-da ee-et fi-fi "
    "fr-fr de-de gr-el hk-tzh hu-hu in-en id-id id-en ie-en il-he it-it jp-jp kr-kr lv-lv lt-lt my-ms my-en mx-es "
    "nl-nl nz-en no-no pe-es ph-en ph-tl pl-pl pt-pt ro-ro ru-ru xa-ar sg-en sk-sk sl-sl za-en es-es se-sv ch-de "
    "ch-fr ch-it tw-tzh th-th tr-tr ua-uk uk-en us-en us-es ve-es vn-vi".split()
)
_DUCKDUCKGO_OTHER = {"gb": "uk", "si": "sl"}, {"ja": "jp", "ko": "kr", "nb": "no", "nn": "no"}
#: Where a language without a country is looked for, if not in the first region that has it.
_HOMES = {"en": "us-en", "tzh": "tw-tzh", **{code: f"{code}-{code}" for code in ("es", "pt", "fr", "de", "nl", "it")}}


def brave_language(query: SearchQuery) -> str:
    """Brave's code for the language, empty where it has none."""
    code = query.language.lower()
    if code == "pt" and query.country.upper() == "BR":
        return "pt-br"
    codes = (_BRAVE_OTHER.get(known, known) for known in (code, code.partition("-")[0]))
    return next((known for known in codes if known in BRAVE_LANGUAGES), "")


def duckduckgo_codes(query: SearchQuery) -> tuple[str, str]:
    """Country and language in DuckDuckGo's spelling, either may be empty."""
    country, language = (code.lower().partition("-")[0] for code in (query.country, query.language))
    countries, languages = _DUCKDUCKGO_OTHER
    country, language = countries.get(country, country), languages.get(language, language)
    traditional = country in ("tw", "hk") or query.language.lower() in ("zh-tw", "zh-hk", "zh-hant")
    return country, "tzh" if language == "zh" and traditional else language


def duckduckgo_region(query: SearchQuery) -> str:
    """The region that fits best; `wt-wt` is the whole world."""
    country, language = duckduckgo_codes(query)
    homes = (_HOMES.get(language, ""), *DUCKDUCKGO_REGIONS)
    fitting = [one for one in DUCKDUCKGO_REGIONS if one == f"{country}-{language}"]
    fitting += [one for one in DUCKDUCKGO_REGIONS if country and one.startswith(f"{country}-")]
    fitting += [one for one in homes if language and one.endswith(f"-{language}")]
    return fitting[0] if fitting else "wt-wt"
