"""What people read of the findings: in a terminal, in a chat, as JSON, and as a report without anything private."""

import json
import re
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from urllib.parse import urlsplit

from nanobot.config.keys import masked, walk_keys
from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.doctor.checkup import Patient
from nanobot.doctor.findings import MARKS, Finding, exit_code
from nanobot.providers.vendors import BY_NAME
from nanobot.utils.logs import scrub
from nanobot.utils.secrecy import mask_keys
from nanobot.utils.translation import _, _n, listed
from nanobot.web.search.catalog import CATALOG

#: Values of the configuration that are words of ours and tell of nobody.
_OURS = frozenset("provider profile preset sandbox groupPolicy reasoningEffort type reader hints streaming".split())
#: Columns of a paragraph.
_WIDTH = 80
#: Lines of the log that are counted, from its end.
_LOG_LINES = 5_000
_LEVEL = re.compile(r"\b(WARNING|ERROR|CRITICAL) (nanobot[\w.]*)")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|“[^”]*”")
_NAMED = re.compile(r"(allowFrom|folders|env|headers)\b.*")
_UNKNOWN = re.compile(r"[^\s:]+(?=: unknown key)")
_PATH = re.compile(r"(?<![\w.:/])/[^\s,;()]*")
_BOT = re.compile(r"@\w+")
#: Numbers of chats and people, and addresses inside of a house or a company.
_NUMBER = re.compile(r"(?<![\w.,-])-?\d{6,}(?![\w.])")
_INSIDE = re.compile(
    r"(?i)\b[\w.-]+\.(?:lan|local|localdomain|internal|intranet|home|home\.arpa|corp|private|ts\.net)\b"
    r"|\b(?:10|127|169\.254|172\.(?:1[6-9]|2\d|3[01])|192\.168)(?:\.\d{1,3}){2,3}\b"
)
#: What stands behind a group whose members people name, such as `providers.mine.apiKey`.
_GROUPS = {path[path.index("<name>") - 1] for path, _ in walk_keys() if "<name>" in path}
_CHOSEN = re.compile(rf"\b({'|'.join(sorted(_GROUPS))})\.[^\s:,]+")
#: Variables that name a person, and the length from which a text can be told from a word of a sentence.
_WHO, _SHORTEST = ("USER", "LOGNAME", "HOSTNAME"), 3


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
    """A report for who helps: no keys, no texts of chats, no names of people, bots, servers or folders."""
    shown = masked(patient.loaded.config)
    hide = _Hiding(patient.loaded.config, patient.env)
    servers = [one.name for one in found if one.name.startswith("MCP: ")]
    lines = ["nanobot doctor: a report without secrets", verdict(found), ""]
    for one in found:
        if one.name in servers:
            lines.append(f"{one.state:<5}MCP: server {servers.index(one.name) + 1}")
            continue
        lines.append(f"{one.state:<5}{hide.all_of(one.name)}: {hide.all_of(one.words)}")
    config = json.dumps(_shape(shown, masked(Config())), indent=2)
    lines += ["", "What the configuration sets (texts left out):", "" if patient.broken else config, ""]
    lines += ["Warnings and errors at the end of the log, by where they come from:", *_counted(patient.paths.logs)]
    return scrub("\n".join([*lines, ""]))


class _Hiding:
    """Takes out of a sentence what tells of a person: texts, paths, numbers of chats, names of bots, hosts, and every
    name and text of the configuration that is no word of ours."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        told = {*_texts(config), *_addresses(dict(env)), *(env.get(name, "") for name in _WHO), socket.gethostname()}
        parts = {part for text in told for part in (text, *_parts(text))}
        kept = _ours() | {*_texts(Config())}
        private = sorted((one for one in parts if _tells(one) and one not in kept), key=len, reverse=True)
        # A name is spelled with either sign by the programs of the family.
        words = "|".join(re.sub(r"_|\\-", "[-_]", re.escape(one)) for one in private)
        self._private = re.compile(rf"(?<!\w)(?:{words})(?!\w)" if words else r"(?!)", re.IGNORECASE)

    def all_of(self, text: str) -> str:
        text = self._private.sub("…", _CHOSEN.sub(r"\1.…", _UNKNOWN.sub("…", scrub(text))))
        text = _BOT.sub("@…", _QUOTED.sub("…", _NAMED.sub(r"\1 …", text)))
        return mask_keys(_NUMBER.sub("…", _INSIDE.sub("…", _PATH.sub("…", text))), "…")


def _tells(text: str) -> bool:
    """Whether a text is long enough to be no word or number of any sentence."""
    return len(text) >= _SHORTEST and (len(text) > 5 or any(map(str.isalpha, text)))


def _ours() -> set[str]:
    """Words that are the same for everybody: services, search engines, and what keys have to choose from."""
    chosen = {choice for _, key in walk_keys() for choice in key.slot.choices}
    return chosen | {*BY_NAME} | {*CATALOG}


def _texts(value: object) -> Iterator[str]:
    """Every text and every chosen name in a part of the configuration."""
    match value:
        case Section():
            for name in value.__struct_fields__:
                yield from _texts(getattr(value, name))
        case dict():
            yield from map(str, value)
            for one in value.values():
                yield from _texts(one)
        case tuple() | list():
            for one in value:
                yield from _texts(one)
        case str():
            yield value


def _parts(address: str) -> Iterator[str]:
    """What in an address, or in the name of a model, tells whose it is; a proxy may stand there without its scheme."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
    except ValueError:
        return
    if " " not in address and address[:1] not in ("/", "~"):
        yield from (one for one in (parts.hostname, parts.username, parts.password, *parts.path.split("/")) if one)


def _addresses(env: Mapping[str, str]) -> Iterator[str]:
    """The addresses that stand in variables."""
    yield from (one for name, one in env.items() if "://" in one or name.casefold().endswith("_proxy"))


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
