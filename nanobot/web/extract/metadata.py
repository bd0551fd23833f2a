"""What a page says of itself beside its text: title, site, author, date, language; and the data that lies in it."""

import re
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import lxml.html
from lxml.html import HtmlElement
from msgspec import Struct

from nanobot.jsonval import obj, parse
from nanobot.utils.text import squeeze
from nanobot.web.extract.strip import strip_tags


class Metadata(Struct, frozen=True):
    """Every field may be empty. `published` is an ISO 8601 date or date and time as the page gives it."""

    title: str = ""
    site: str = ""
    author: str = ""
    published: str = ""
    language: str = ""


_NO_FACTS = frozenset("width height position encodingFormat".split())
_ARTICLE_TYPES = re.compile(r"article|posting|report|webpage", re.IGNORECASE)


def read_metadata(root: HtmlElement, url: str = "") -> Metadata:
    """Metadata from Open Graph and other meta elements, JSON-LD, and the first heading."""
    meta = _meta(root)
    linked = next(_json_ld(root), {})
    heading = root.find(".//h1")
    title = (
        meta.get("og:title")
        or _string(linked.get("headline"))
        or squeeze(root.findtext(".//title") or "")
        or (squeeze(heading.text_content()) if heading is not None else "")
    )
    site = meta.get("og:site_name") or _string(linked.get("publisher")) or urlsplit(url).netloc.removeprefix("www.")
    times = [time.get("datetime", "") for time in root.iter("time") if time.get("datetime")]
    published = (
        meta.get("article:published_time")
        or _string(linked.get("datePublished"))
        or meta.get("date")
        or meta.get("dc.date")
        or meta.get("parsely-pub-date")
        or (times[0] if times else "")
    )
    return Metadata(
        title=title[:300],
        site=site[:100],
        author=_author(meta, linked)[:150],
        published=published[:40],
        language=(root.get("lang") or meta.get("og:locale") or meta.get("content-language") or "").replace("_", "-")[
            :20
        ],
    )


def _author(meta: dict[str, str], linked: dict[str, object]) -> str:
    author = meta.get("author") or _string(linked.get("author")) or meta.get("article:author", "")
    return "" if author.startswith("http") else author


def _meta(root: HtmlElement) -> dict[str, str]:
    found: dict[str, str] = {}
    for element in root.iter("meta"):
        name = element.get("property") or element.get("name") or element.get("http-equiv") or ""
        content = squeeze(element.get("content") or "")
        if name and content:
            found.setdefault(name.lower(), content)
    return found


def _json_ld(root: HtmlElement) -> Iterator[dict[str, object]]:
    """The JSON-LD objects that describe an article or a page, at most 50 looked at."""
    for script in list(root.iter("script"))[:200]:
        if "ld+json" not in (script.get("type") or ""):
            continue
        pending = [parse(script.text or "")]
        for _ in range(50):
            if not pending:
                break
            item = pending.pop(0)
            if isinstance(item, list):
                pending.extend(item)
            elif isinstance(item, dict):
                if _ARTICLE_TYPES.search(str(item.get("@type", ""))):
                    yield item
                pending.append(item.get("@graph"))


def _string(value: object) -> str:
    if isinstance(value, str):
        return squeeze(value)
    if isinstance(value, dict):
        return _string(value.get("name"))
    if isinstance(value, list):
        return ", ".join(filter(None, (_string(item) for item in value[:5])))
    return ""


def base_of(root: HtmlElement, url: str) -> str:
    """What the relative links of the page start from: its `base` where it has one, else its own address."""
    base = next((element.get("href") or "" for element in root.iter("base") if element.get("href")), "")
    try:
        return str(urljoin(url, base.strip()))
    except ValueError:
        return url


def page_data(root: HtmlElement) -> str:
    """Text that a page carries beside what it shows: JSON-LD, the data of its framework, noscript, its description."""
    found: list[str] = []
    for script in root.iter("script"):
        linked, text = "ld+json" in (script.get("type") or "").lower(), (script.text or "").strip()
        if text.startswith("window.__"):  # the state that a framework starts from
            data = parse(text.partition("=")[2].strip("; \n"))
        elif linked or script.get("id") in ("__NEXT_DATA__", "__NUXT_DATA__"):
            data = parse(text)
        else:
            continue
        props = obj(obj(data).get("props")).get("pageProps")
        found.extend(_prose(props or data, facts=linked or bool(props)))
    for element in root.iter("noscript"):
        text = squeeze(strip_tags(lxml.html.tostring(element, encoding="unicode", with_tail=False)))
        if text and not re.search(r"enable javascript|javascript (?:is )?(?:required|disabled)", text, re.IGNORECASE):
            found.append(text)
    found.extend(
        squeeze(element.get("content") or "")
        for element in root.iter("meta")
        if (element.get("name") or element.get("property") or "").lower() in ("description", "og:description")
    )
    return "\n\n".join(dict.fromkeys(text for text in found if text))


def _prose(value: object, key: str = "", *, facts: bool) -> Iterator[str]:
    """The readable strings of JSON: headlines, texts, and short `facts` with their names; no addresses."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _prose(inner, str(name), facts=facts)
    elif isinstance(value, list):
        for inner in value:
            yield from _prose(inner, key, facts=facts)
    elif isinstance(value, str) or (facts and isinstance(value, int | float)):
        text = squeeze(strip_tags(str(value))).removeprefix("https://schema.org/")
        if key in _NO_FACTS or key.startswith("@") or text.startswith(("http://", "https://", "/")):
            return
        if (" " in text and len(text) > 20) or key == "headline":
            yield text
        elif facts and text:
            yield f"{key}: {text}"
