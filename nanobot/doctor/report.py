"""What people read of the findings: in a terminal, in a chat, as JSON, and as a report without anything private."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from nanobot.config.keys import masked, walk_keys
from nanobot.config.schema import Config
from nanobot.doctor.checkup import Patient
from nanobot.doctor.findings import MARKS, Finding, exit_code
from nanobot.providers.vendors import BY_NAME
from nanobot.utils.logs import scrub
from nanobot.utils.translation import _, _n, folder, listed, read
from nanobot.web.search.catalog import CATALOG

#: Values of the configuration that are words of ours and tell of nobody.
_OURS = frozenset("provider profile preset sandbox groupPolicy reasoningEffort type reader hints streaming".split())
#: Columns of a paragraph.
_WIDTH = 80
#: Lines of the log that are counted, from its end.
_LOG_LINES = 5_000
_LEVEL = re.compile(r"\b(WARNING|ERROR|CRITICAL) (nanobot[\w.]*)")
_NUMBER = re.compile(r"\d{1,5}(?:\.\d{1,5}){0,2}")
#: What stands around a word of a sentence.
_SIGNS = ".,;:!?()[]{}\"'`“”"


def verdict(found: Sequence[Finding]) -> str:
    """All findings in one sentence."""
    bad, warned = (sum(one.state == state for one in found) for state in ("bad", "warn"))
    count = _n("{number} check", "{number} checks", len(found))
    if not bad and not warned:
        return _("All is well: {count}.", count=count)
    parts = [_n("{number} fault", "{number} faults", bad)] if bad else []
    parts += [_n("{number} warning", "{number} warnings", warned)] if warned else []
    return _("{count}: {problems}.", count=count, problems=listed(parts))


def as_text(found: Sequence[Finding], *, everything: bool = False) -> str:
    """What is not well with what is to be done, then the rest by its names; `everything`: each finding as it is."""
    if everything:
        return "\n".join([*(line for one in found for line in one.lines), "", verdict(found), ""])
    ill = [line for state in ("bad", "warn") for one in found if one.state == state for line in one.lines]
    lines = [*ill, *([""] if ill else []), *_by_name(found)]
    return "\n".join(
        [*lines, "", _("{verdict} `nanobot doctor --all` shows what each one found.", verdict=verdict(found)), ""]
    )


def _by_name(found: Sequence[Finding]) -> list[str]:
    """The checks that are well, and those that were not made, a paragraph each."""
    well, off = ([one.title for one in found if one.state == state] for state in ("ok", "off"))
    lines = []
    if well:
        told = _n(
            "{number} check is well: {names}.", "{number} checks are well: {names}.", len(well), names=listed(well)
        )
        lines.append(fill(f"{MARKS['ok']} {told}", _WIDTH, break_long_words=False))
    if off:
        told = _n(
            "{number} check is not used or not tried: {names}.",
            "{number} checks are not used or not tried: {names}.",
            len(off),
            names=listed(off),
        )
        lines.append(fill(f"{MARKS['off']} {told}", _WIDTH, break_long_words=False))
    return lines


def as_markdown(found: Sequence[Finding]) -> str:
    """For a chat: what is not well first and whole, what is well by its names."""
    ill = [one.markdown for one in found if one.state in {"bad", "warn"}]
    well = listed(one.title for one in found if one.state == "ok")
    off = listed(one.title for one in found if one.state == "off")
    lines = [_("{name}: {words}", name=f"**{_('Doctor')}**", words=verdict(found)), "", *ill]
    lines.append(f"- {MARKS['ok']} {_('Well: {names}.', names=well or _('nothing'))}")
    return "\n".join([*lines, *(["- " + _("Not used or not tried: {names}.", names=off)] if off else [])])


def as_json(found: Sequence[Finding]) -> str:
    """One JSON object on one line."""
    told = [{"name": one.name, "state": one.state, "words": one.words, "fix": one.fix} for one in found]
    return json.dumps({"ok": exit_code(found) == 0, "checks": told}, ensure_ascii=False)


# English: whoever helps reads it
def bundle(patient: Patient, found: Sequence[Finding]) -> str:
    """A report for who helps: of what was found the words that our own sentences have, so no keys, texts of chats, or
    names of people, bots, servers or folders."""
    shown, known = masked(patient.loaded.config), _known()
    servers = [one.name for one in found if one.name.startswith("MCP: ")]
    lines = ["nanobot doctor: a report without secrets", verdict(found), ""]
    for one in found:
        if one.name in servers:
            lines.append(f"{one.state:<5}MCP: server {servers.index(one.name) + 1}")
            continue
        lines.append(f"{one.state:<5}{_bare(one.name, known)}: {_bare(one.words, known)}")
    config = json.dumps(_shape(shown, masked(Config())), indent=2)
    lines += ["", "What the configuration sets (texts left out):", "" if patient.broken else config, ""]
    lines += ["Warnings and errors at the end of the log, by where they come from:", *_counted(patient.paths.logs)]
    return scrub("\n".join([*lines, ""]))


def _known() -> frozenset[str]:
    """Every word of our own sentences, of services and search engines, and of what keys have to choose from."""
    catalogues = (path.read_text(encoding="utf-8") for path in folder().rglob("*.po"))
    said = (word for text in catalogues for sentence in read(text) for word in re.split(r"[\s\0]+", sentence))
    return frozenset(word.strip(_SIGNS).casefold() for word in (*said, *_ours()))


def _bare(text: str, known: frozenset[str]) -> str:
    """A sentence with a mark in the place of all that is neither such a word nor a small number."""
    words = ((one, one.strip(_SIGNS)) for one in text.split())
    told = (one if word.casefold() in known or _NUMBER.fullmatch(word) else "…" for one, word in words)
    return re.sub(r"…( …)+", "…", " ".join(told))


def _ours() -> set[str]:
    """Words that are the same for everybody: services, search engines, and what keys have to choose from."""
    chosen = {choice for _, key in walk_keys() for choice in key.slot.choices}
    return chosen | {*BY_NAME} | {*CATALOG}


def _shape(value: object, usual: object, key: str = "") -> object:
    """What differs from the default: numbers, switches, words of ours; of texts and names only that they are there."""
    match value:
        case dict() if isinstance(usual, dict) and usual:
            kept = {name: _shape(one, usual.get(name), name) for name, one in value.items() if one != usual.get(name)}
            return kept if set(value) <= set(usual) else [*kept.values()]
        case dict() | list():
            return f"{len(value)} of them"
        case str():
            return value if key in _OURS and value in _ours() else "set" if value else ""
        case _:
            return value


def _counted(logs: Path) -> list[str]:
    try:
        lines = (logs / "nanobot.log").read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    except OSError:
        return ["no log"]
    counts = Counter(f"{told[1]} {told[2]}" for line in lines if (told := _LEVEL.search(line)))
    return [f"{count:>5} × {where}" for where, count in counts.most_common(20)] or ["none"]
