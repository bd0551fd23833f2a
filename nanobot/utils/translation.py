"""The fixed sentences of nanobot in the language of whoever reads them.

A sentence that a person sees is written in English and wrapped: `_("Sent to {chat}.", chat=name)`, with the values put
in after the translation; `_n("{number} file", "{number} files", count)` where it depends on a number. A sentence of a
table that is made at import is marked by `N_` and translated where it is shown: `_(TABLE[name])`. What only a model or
the log reads stays English and is not wrapped; `# English: why` says so in the code where a rule test would ask.

The catalogues are gettext's, `locale/LANGUAGE/LC_MESSAGES/ROOM.po`, one per room of the package; `python -m
tests.translations` brings them up to date. They are read from the text, because compiled ones are binaries, when the
first sentence in their language is shown.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, Literal, Self

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

ENGLISH = "en"
#: First part of a language's tag → its catalogue. Chinese is written here in simplified signs for all of its countries.
CATALOGUES: Mapping[str, str] = {"zh": "zh_CN"}
#: Variables that tell the language of messages, the first one that is set counts (POSIX 8.2). Above them stands
#: gettext's LANGUAGE, a list, unless they ask for `C`.
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")

#: What people answer a yes-or-no question with besides its own words, whatever language they read.
_MEANT: Mapping[str, Literal["yes", "always", "no"]] = {
    **dict.fromkeys("y yes 是 是的 好 好的 好吧 可以 行 对 對 同意 允许 允許 批准 确定 確定 确认 確認".split(), "yes"),
    **dict.fromkeys("once 一次 仅一次 仅此一次 只这一次 这次 就这一次 允许一次 允许这一次".split(), "yes"),
    **dict.fromkeys("a always 总是 總是 始终 始終 一直 总是允许 始终允许 一直允许".split(), "always"),
    **dict.fromkeys("n no 否 不 不是 不好 不行 不要 不用 不可以 不同意 不允许 不允許 拒绝 拒絕 取消".split(), "no"),
}  # fmt: skip

_spoken: ContextVar[str] = ContextVar("language", default="")


class _Settled:
    """What holds for the whole process: `wanted` by the configuration, `surrounding` told by the environment, and where
    people talk (the key of an address) → the language that they spoke there last."""

    wanted = ""
    surrounding = ENGLISH
    places: ClassVar[dict[str, str]] = {}


def known(tag: str) -> str:
    """The language here of a tag such as `zh-hans`, `zh_CN.UTF-8` or `C`: `en`, `zh`, or empty for an empty tag.

    For a language without a catalogue it is English.
    """
    first = re.split(r"[-_.@]", tag.strip().casefold())[0]
    return first if first in CATALOGUES else ENGLISH if first else ""


def settle(environ: Mapping[str, str] | None = None, wanted: str | None = None) -> None:
    """Begin a process in the language of its surroundings, or the one that the configuration wants (`auto`: none)."""
    if environ is not None:
        locale = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
        wishes = environ.get("LANGUAGE", "") if locale not in ("C", "POSIX") else ""  # as gettext takes it
        ours = (known(tag) for tag in (wishes or locale).split(":") if known(tag) in CATALOGUES or tag[:2] == ENGLISH)
        _Settled.surrounding = next(ours, ENGLISH)
    if wanted is not None:
        _Settled.wanted = "" if wanted == "auto" else known(wanted)


def heard(tag: str, place: str) -> bool:
    """Remember the language in which somebody speaks at `place`, the key of an address; whether that is news."""
    code = known(tag)
    if not code or _Settled.places.get(place) == code:
        return False
    _Settled.places[place] = code
    return True


def speak(tag: str = "", place: str = "") -> None:
    """From here on in this task, speak as whoever has this language; with an empty tag as was last heard at `place`."""
    _spoken.set(_Settled.wanted or known(tag) or _Settled.places.get(place, ""))


def spoken_at(place: str = "") -> str:
    """The language of who is at `place`, the key of an address; that of the process where nobody was heard there."""
    return _Settled.wanted or _Settled.places.get(place, "") or _Settled.surrounding


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Inside, sentences are in this language, whatever the configuration says."""
    before = _spoken.set(code)
    try:
        yield
    finally:
        _spoken.reset(before)


def language() -> str:
    """The language of the sentences that are made here and now: `en` or `zh`."""
    return _spoken.get() or _Settled.wanted or _Settled.surrounding


def N_(message: str, /) -> str:  # noqa: N802 - gettext's name for it
    """`message` itself, marked for the catalogues; `_` translates it where it is shown."""
    return message


def _(message: str, /, **values: object) -> str:
    """`message` in the language of whoever reads it, with the values in its braces."""
    code = language()
    said = message if code == ENGLISH or not message else _catalogue(code).get(message, message)
    return _filled(said, message, values) if values else said


def _filled(said: str, message: str, values: Mapping[str, object]) -> str:
    """What is said with the values in its braces; in English where a damaged catalogue has others."""
    try:
        return said.format(**values)
    except (LookupError, ValueError, AttributeError):
        return message.format(**values)


class Later(str):
    """A sentence that is made before anybody reads it, in English; `told` says it in the language of whoever does."""

    __slots__ = ("message", "values")
    message: str
    values: Mapping[str, object]

    def __new__(cls, message: str, /, **values: object) -> Self:
        made = super().__new__(cls, message.format(**values) if values else message)
        made.message, made.values = message, values
        return made


def told(text: str) -> str:
    """A `Later` in the language of whoever reads it, any other text as it is."""
    if not isinstance(text, Later):
        return text
    return _(text.message, **{name: told(one) if isinstance(one, str) else one for name, one in text.values.items()})


def _n(one: str, many: str, number: int, /, **values: object) -> str:
    """The sentence for a number of things, which stands in its braces as `number`."""
    code, said = language(), one if number == 1 else many
    if code != ENGLISH:  # Chinese has one form
        said = _catalogue(code).get(f"{one}\0{many}", said)
    return _filled(said, many, {"number": number, **values})


def yes_or_no(answer: str) -> Literal["yes", "always", "no", ""]:
    """What a person means who answers a yes-or-no question by this, in any of our languages; empty: something else."""
    return _MEANT.get(unicodedata.normalize("NFKC", answer).strip(" \t\r\n.!。").casefold(), "")


def sentences(*said: str) -> str:
    """Whole sentences behind one another; there is no blank behind a Chinese full stop. Empty ones are left out."""
    text = ""
    for one in filter(None, said):
        text += one if not text or text[-1] in "。！？：；" else f" {one}"
    return text


_MONTHS = (
    N_("January"), N_("February"), N_("March"), N_("April"), N_("May"), N_("June"),
    N_("July"), N_("August"), N_("September"), N_("October"), N_("November"), N_("December"),
)  # fmt: skip
_WEEKDAYS = (
    N_("Monday"), N_("Tuesday"), N_("Wednesday"), N_("Thursday"), N_("Friday"), N_("Saturday"), N_("Sunday"),
)  # fmt: skip
_SHORT_WEEKDAYS = (N_("Mon"), N_("Tue"), N_("Wed"), N_("Thu"), N_("Fri"), N_("Sat"), N_("Sun"))


def day_of(date: "date") -> str:
    """`1 December`."""
    return _("{day} {month}", day=date.day, month=month_of(date))


def month_of(date: "date") -> str:
    """`December`."""
    return _(_MONTHS[date.month - 1])


def weekday_of(date: "date") -> str:
    """`Monday`."""
    return _(_WEEKDAYS[date.weekday()])


def short_weekday_of(date: "date") -> str:
    """`Mon`."""
    return _(_SHORT_WEEKDAYS[date.weekday()])


def listed(things: Iterable[str]) -> str:
    """Things that a sentence names, one after another: `a, b, c`."""
    return _joined(things, N_("{first}, {second}"))


def together(things: Iterable[str]) -> str:
    """Things that a sentence means together: `a and b and c`."""
    return _joined(things, N_("{first} and {second}"))


def either(things: Iterable[str]) -> str:
    """Things of which a sentence means one: `a or b or c`."""
    return _joined(things, N_("{first} or {second}"))


def apart(clauses: Iterable[str]) -> str:
    """Clauses with a pause between them: `a; b; c`."""
    return _joined(clauses, N_("{first}; {second}"))


def _joined(parts: Iterable[str], two: str) -> str:
    said = ""
    for part in parts:
        said = _(two, first=said, second=part) if said else part
    return said


def folder() -> "Path":
    """Where the catalogues are."""
    from pathlib import Path  # English needs none of them, and a start no paths

    return Path(__file__).parent.parent / "locale"


@functools.cache
def _catalogue(code: str) -> Mapping[str, str]:
    entries: dict[str, str] = {}
    for path in sorted((folder() / CATALOGUES[code] / "LC_MESSAGES").glob("*.po")):
        with suppress(OSError, ValueError):  # of a damaged one the sentences are English
            entries |= {key: said for key, said in read(path.read_text(encoding="utf-8")).items() if said}
    return entries


_ENTRY = re.compile(r'^(msgid|msgid_plural|msgstr|msgstr\[0\]) ((?:"(?:[^"\\\n]|\\.)*"\n?)+)', re.MULTILINE)


def read(catalogue: str) -> dict[str, str]:
    """The entries of a `.po` text: a plural stands behind its singular and a NUL, the head under ""."""
    from json import loads

    entries: dict[str, str] = {}
    key = ""
    for kind, quoted in _ENTRY.findall(catalogue):
        words = str(loads(quoted.replace('"\n"', "")))  # in strings over several lines, where each one is closed
        if kind == "msgid":
            key = words
        elif kind == "msgid_plural":
            key += "\0" + words
        else:
            entries[key] = words
    return entries
