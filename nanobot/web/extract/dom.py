"""From text to a tree, and what later steps ask of an element: is it shown, what is it called, what does it say."""

import re
from contextlib import suppress
from itertools import islice
from unicodedata import category

import lxml.html
from lxml import etree
from lxml.html import HtmlElement

from nanobot.web.extract.strip import strip_tags

#: Elements whose content is never text of the page.
SILENT = frozenset(
    "script style noscript template svg canvas iframe embed applet head link meta title audio video map area "
    "select option datalist button input dialog progress meter".split()
)
INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i img ins kbd label mark math nobr output "
    "picture q rb rp rt ruby s samp small source span strike strong sub sup time tt u var wbr".split()
)
#: What a head may hold.
_OF_HEAD = frozenset("base link meta noscript script style template title".split())
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_WORDS = re.compile(r"\w+")
_LANGUAGE = re.compile(
    r"(?:^|[\s-])(?:language|lang|highlight-source|highlight|source|brush:\s*|code)-?([\w+#]+)", re.IGNORECASE
)
_NO_LANGUAGE = frozenset(
    "text none default notranslate block plain plaintext nohighlight code source box wrapper".split()
)
#: Signs of scripts without blanks: 5 ms to compile, which only pages pay that have signs like them.
_UNSPACED, _NEAR_UNSPACED = (
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]",
    re.compile("[^\0-\u0dff\u2000-\u303f]"),
)
_FEW = range(2, 21)  # options; where there are more, as of countries and chapters, one knows what one looks for
_ASKING = frozenset("textarea email password search get".split())  # a choice beside them is of who reads or searches
_LONGEST_NAMES = 1000  # characters
_TOO_DEEP = "depth in document"
_NUMERALS = re.compile(r"(lower|upper)-?(alpha|latin|roman)")
_ROMAN = ((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))
#: Signs that the words in one field of a row may end with, and endings of figures.
_FIELD_ENDS, _ORDINALS = frozenset(")]%!?€"), frozenset(("st", "nd", "rd", "th"))
#: MathML elements whose parts stand beside each other with a sign between.
_BETWEEN = {"mfrac": "/", "msup": "^", "msub": "_", "mover": "^", "munder": "_"}


class TooDeepError(ValueError):
    """The elements of a page stand deeper in each other than the parser goes (2,048 levels)."""


def parse(html: str) -> HtmlElement:
    """The document's tree, without comments. Raises `TooDeepError`, and `lxml.etree.LxmlError` for what is no page."""
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    data = html.replace("\x00", "").encode("utf-8", "replace")
    root = lxml.html.document_fromstring(data or b"<html/>", parser=parser, ensure_head_body=True)
    if any(_TOO_DEEP in entry.message for entry in parser.error_log):
        raise TooDeepError("the page nests more than 2,048 levels deep")
    if not isinstance(root, HtmlElement):
        raise TypeError("the parser gave no element")
    _end_head(root)
    _open_frames(root, parser)
    _fill_streams(root)
    return root


def _end_head(root: HtmlElement) -> None:
    """Begin the body at the first element that no head holds: the parser, which is older than `main` and `article`,
    leaves them in the head of a page that does not write `<body>`."""
    head, body = root.find("head"), root.find("body")
    if head is None or body is None:
        return
    inside = list(head)
    first = next((place for place, element in enumerate(inside) if tag_of(element) not in _OF_HEAD), len(inside))
    moved = inside[first:]
    if moved:
        moved[-1].tail = (moved[-1].tail or "") + (body.text or "")
        body.text = None
        body[:0] = moved


def tell_choices(root: HtmlElement) -> None:
    """Make a part like others of a form that offers a choice, each of few options a list, or that has nothing to fill
    in, as some pages put their text into one. What is a form then asks, searches or changes the page at once."""
    entries: dict[HtmlElement, list[HtmlElement]] = {form: [] for form in root.iter("form")}
    owner = {entry: form for form in entries for entry in form.iter("input", "select", "textarea", "button")}
    for entry, form in owner.items():
        if entry.get("type") != "hidden" and tag_of(entry.getparent()) != "noscript":
            entries[form].append(entry)
    for form, inside in entries.items():
        kinds = {one.get("type", "").lower() if one.tag == "input" else one.tag for one in inside}
        choices = {one: few for one in inside if len(few := list(islice(one.iter("option"), _FEW.stop))) in _FEW}
        offers = (choices or "radio" in kinds) and kinds & {"button", "submit", "image"}
        if kinds <= {"button"} or (offers and not _ASKING & {*kinds, form.get("method", "").lower(), form.get("role")}):
            form.tag = "div"
            for entry, options in choices.items():
                entry.tag = "ul"
                for option in options:
                    option.tag = "li"


def _open_frames(root: HtmlElement, parser: lxml.html.HTMLParser) -> None:
    """Put the pages that stand in attributes of frames in their places, or links where a page is all frames."""
    for frame in [one for one in root.iter("iframe") if "srcdoc" in one.keys()]:  # noqa: SIM118
        with suppress(etree.LxmlError, ValueError):
            inner = lxml.html.document_fromstring(frame.get("srcdoc", "").encode(), parser, ensure_head_body=True)
            frame.tag = "div"
            frame.append(body_of(inner))
            frame[-1].tag = "div"
    for frames in list(root.iterfind("frameset")):
        body_of(root).append(frames)
    for bare in root.iter("frameset", "noframes"):  # their markup is text to the parser
        bare.tag, bare.text = "div", strip_tags(bare.text or "")
    for frame in root.iter("frame"):
        source = frame.get("src", "")
        frame.set("href", source)
        frame.tag, frame.text = "a", frame.get("title") or frame.get("name") or source
        frame.tail = f" {frame.tail or ''}"


def _fill_streams(root: HtmlElement) -> None:
    """Show the parts that React streams behind a page, each in the place that a template keeps for it."""
    places = {place.get("id", ""): place for place in root.iter("template")}
    for part in root.xpath("//*[@hidden and starts-with(@id, 'S:')]") if places else ():
        place = places.pop(f"B:{part.get('id')[2:]}", None)
        if place is not None and all(one is not part for one in place.iterancestors()):
            del part.attrib["hidden"]
            place.addprevious(part)


def body_of(root: HtmlElement) -> HtmlElement:
    body = root.find("body")
    return body if body is not None else root


def tag_of(element: HtmlElement) -> str:
    """The tag in lower case; empty for what is no element."""
    return element.tag.lower() if isinstance(element.tag, str) else ""


def is_hidden(attributes: dict[str, str], tag: str) -> bool:
    """Whether the page itself says that this is not shown. Blocks that are hidden from readers aloud are shown."""
    if attributes.get("hidden", "until-found") != "until-found":
        return True
    style = attributes.get("style")
    if style and _HIDDEN.search(style):
        return True
    return attributes.get("aria-hidden") == "true" and tag in INLINE and tag != "img"


def names_of(attributes: dict[str, str]) -> str:
    """Class, id, itemprop and role."""
    told = ("class", "id", "itemprop", "role", "data-component")
    return " ".join([attributes[name] for name in told if name in attributes])[:_LONGEST_NAMES]


def count_tokens(text: str) -> int:
    """Words; in scripts without blanks two characters count as one."""
    if text.isascii() or not _NEAR_UNSPACED.search(text):
        return len(_WORDS.findall(text))
    spaced, ideographs = re.subn(_UNSPACED, " ", text)
    return ideographs // 2 + len(_WORDS.findall(spaced))


def is_tex(element: HtmlElement) -> bool:
    """Whether the text of a script, or of an annotation to MathML, is TeX."""
    return "tex" in (element.get("encoding") or "").lower() or (element.get("type") or "").startswith("math/tex")


def formula(math: HtmlElement) -> str:
    """A formula as TeX where the page gives it, else its MathML in one line; empty where it says nothing."""
    told = next((one.text for one in math.iter("annotation", "script") if is_tex(one) and one.text), "")
    told = told or math.get("alttext") or _linear(math)
    return f"${' '.join(told.split())}$" if told.strip() else ""


def _linear(node: HtmlElement, depth: int = 0) -> str:
    tag = tag_of(node).rpartition(":")[2]
    if tag.startswith(("annotation", "script")) or depth > 60:
        return ""
    return joined(tag, [_linear(child, depth + 1) for child in node], (node.text or "").strip())


def joined(tag: str, parts: list[str], text: str) -> str:
    """A part of a formula in one line, by the name of its element in MathML and the parts inside."""
    if tag in _BETWEEN and len(parts) == 2:
        return _BETWEEN[tag].join(part if len(part) == 1 or part.isalnum() else f"({part})" for part in parts)
    if tag in ("msubsup", "munderover") and len(parts) == 3:
        return f"{parts[0]}_({parts[1]})^({parts[2]})"
    if tag == "msqrt":
        return f"√({''.join(parts)})"
    if tag == "mroot" and len(parts) == 2:
        return f"({parts[0]})^(1/{parts[1]})"
    if tag == "mtable":
        return "; ".join(parts)
    if tag == "mtr":
        return ", ".join(parts)
    return "".join([text, *parts]) if not tag.startswith("mspace") else " "


def script_mark(tag: str, before: str, inside: str) -> str:
    """The sign between `before` and what is raised or lowered behind it: 10^24 is not 1024; 1st and H2O stay."""
    if not inside or not (before[-1:].isalnum() or before[-1:] in ")]}"):
        return ""
    if tag == "sup":
        ordinal = inside.isalpha() and (len(inside) > 1 or (before[-1:].isdigit() and inside in "eaord"))
        return "" if ordinal else "^"
    chemical = inside.isdigit() and re.search(r"(?:[A-Z][a-z]?|\))\Z", before)
    return "" if chemical else "_"


def list_kind(attributes: dict[str, str]) -> str:
    """How a list counts: `a`, `A`, `i`, `I`, `reversed`, or empty for figures that rise."""
    style = _NUMERALS.search(f"{attributes.get('class')} {attributes.get('style')}")
    kind = style[2][0].replace("l", "a").replace("r", "i") if style else ""
    named = kind.upper() if style and style[1] == "upper" else kind
    return "reversed" if "reversed" in attributes else attributes.get("type") or named


def numeral(number: int, kind: str) -> str:
    """`number` in letters or as a Roman one; empty where the list counts in figures."""
    if not 0 < number < 40 or kind not in ("a", "i"):
        return ""
    if kind == "a":
        return "a" * ((number - 1) // 26) + chr(ord("a") + (number - 1) % 26)
    said = ""
    for value, sign in _ROMAN:
        said += sign * (number // value)
        number %= value
    return said


def stand_apart(last: str, first: str, *, row: bool) -> bool:
    """Whether `first`, which follows `last` without a blank, begins something else. Pieces of one word, as they stand
    in a sentence, do not, unless they are laid out in a `row`."""
    ends = last[-1:].isalnum() or last[-1:] in _FIELD_ENDS or (last[-1:] in "'’" and last[-2:-1].isdigit())
    begins = first[:1].isalnum() or category(first[:1] or " ") == "Sc"  # what something costs
    if not begins or not ends or first in _ORDINALS:
        return last[-1:] == ":" != last[-2:-1] and first[:1].isupper()
    pieces = last[-1].isalpha() and first[0].isalpha() and not first[0].isupper()
    return not pieces or (row and not (len(last) == 1 and last.isupper()))


def tag_name(node: etree._Element) -> str:
    """The name of a tag without its namespace."""
    return str(node.tag).rpartition("}")[2]


def language_of(element: HtmlElement) -> str:
    """The language that class names give a code element, its child or its close ancestors."""
    near = [element, *element.iter("code")]
    above = element.getparent()
    while above is not None and len(near) < 8 and tag_of(above) not in {"body", "article", "main"}:
        near.append(above)
        above = above.getparent()
    for candidate in near[:6]:
        explicit = candidate.get("data-lang") or candidate.get("data-language")
        if explicit and explicit.lower() not in _NO_LANGUAGE:
            return str(explicit).lower()
        names = (candidate.get("class") or "").replace("brush: ", "brush:").split()
        if tag_of(candidate) == "pre" and names[:1] == ["highlight"] and len(names) == 2 and "-" not in names[1]:
            names[1] = f"language-{names[1]}"
        for name in names:
            match = _LANGUAGE.match(name)
            if match and match[1].lower() not in _NO_LANGUAGE:
                return str(match[1]).lower().removeprefix("source-")
    return ""
