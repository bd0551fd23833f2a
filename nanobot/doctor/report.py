"""What people read of the findings: in a terminal, in a chat, as JSON, and as a report without anything private."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from nanobot.config.keys import masked
from nanobot.config.schema import Config
from nanobot.doctor.checkup import Patient
from nanobot.doctor.findings import MARKS, Finding, exit_code
from nanobot.utils.logs import scrub

#: Values of the configuration that are words of ours and tell of nobody.
_OURS = frozenset("provider profile preset sandbox groupPolicy reasoningEffort type reader hints streaming".split())
#: Lines of the log that are counted, from its end.
_LOG_LINES = 5_000
_LEVEL = re.compile(r"\b(WARNING|ERROR|CRITICAL) (nanobot[\w.]*)")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|“[^”]*”")
_NAMED = re.compile(r"(allowFrom|folders|env|headers)\b.*")
_UNKNOWN = re.compile(r"[^\s:]+(?=: unknown key)")
_PATH = re.compile(r"(?<![\w.:/])/[^\s,;()]*")
_BOT = re.compile(r"@\w+")


def verdict(found: Sequence[Finding]) -> str:
    """All findings in one sentence."""
    bad, warned = (sum(one.state == state for one in found) for state in ("bad", "warn"))
    count = f"{len(found)} checks"
    if not bad and not warned:
        return f"All is well: {count}."
    parts = [f"{bad} {'fault' if bad == 1 else 'faults'}"] if bad else []
    parts += [f"{warned} {'warning' if warned == 1 else 'warnings'}"] if warned else []
    return f"{count}: {', '.join(parts)}."


def as_text(found: Sequence[Finding]) -> str:
    """The findings, a line each with a further one for what is to be done."""
    return "\n".join([*(line for one in found for line in one.lines), "", verdict(found), ""])


def as_markdown(found: Sequence[Finding]) -> str:
    """For a chat: what is not well first and whole, what is well by its names."""
    ill = [one.markdown for one in found if one.state in {"bad", "warn"}]
    well = ", ".join(one.name for one in found if one.state == "ok")
    off = ", ".join(one.name for one in found if one.state == "off")
    lines = [f"**Doctor**: {verdict(found)}", "", *ill, f"- {MARKS['ok']} Well: {well or 'nothing'}."]
    return "\n".join([*lines, *([f"- Not used or not tried: {off}."] if off else [])])


def as_json(found: Sequence[Finding]) -> str:
    """One JSON object on one line."""
    told = [{"name": one.name, "state": one.state, "words": one.words, "fix": one.fix} for one in found]
    return json.dumps({"ok": exit_code(found) == 0, "checks": told}, ensure_ascii=False)


def bundle(patient: Patient, found: Sequence[Finding]) -> str:
    """A report for who helps: no keys, no texts of chats, no names of people, bots, servers or folders."""
    shown = masked(patient.loaded.config)
    hide = _Hiding([shown, dict(patient.env)])
    servers = [one.name for one in found if one.name.startswith("MCP: ")]
    lines = ["nanobot doctor: a report without secrets", verdict(found), ""]
    for one in found:
        if one.name in servers:
            lines.append(f"{one.state:<5}MCP: server {servers.index(one.name) + 1}")
            continue
        lines.append(f"{one.state:<5}{one.name}: {hide.all_of(one.words)}")
    config = json.dumps(_shape(shown, masked(Config())), indent=2)
    lines += ["", "What the configuration sets (texts left out):", "" if patient.broken else config, ""]
    lines += ["Warnings and errors at the end of the log, by where they come from:", *_counted(patient.paths.logs)]
    return scrub("\n".join([*lines, ""]))


class _Hiding:
    """Takes out of a sentence what tells of a person: texts, paths, names of bots, and the hosts of what is `known`,
    which is the configuration and the environment."""

    def __init__(self, known: object) -> None:
        hosts = sorted({*map(_host, _addresses(known))} - {""}, key=len, reverse=True)
        self._hosts = re.compile("|".join(map(re.escape, hosts)) or r"(?!)", re.IGNORECASE)

    def all_of(self, text: str) -> str:
        text = _BOT.sub("@…", _QUOTED.sub("…", _NAMED.sub(r"\1 …", _UNKNOWN.sub("…", scrub(text)))))
        return self._hosts.sub("…", _PATH.sub("…", text))


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _addresses(value: object) -> Iterator[str]:
    """Every address that stands in a value; one of a proxy may stand there without its scheme."""
    match value:
        case dict():
            for name, one in value.items():
                bare = isinstance(one, str) and "://" not in one and str(name).casefold().endswith("_proxy")
                yield from [f"http://{one}"] if bare else _addresses(one)
        case list():
            for one in value:
                yield from _addresses(one)
        case str() if "://" in value:
            yield value


def _shape(value: object, usual: object, key: str = "") -> object:
    """What differs from the default: numbers, switches, words of ours; of texts and names only that they are there."""
    match value:
        case dict() if isinstance(usual, dict) and usual:
            kept = {name: _shape(one, usual.get(name), name) for name, one in value.items() if one != usual.get(name)}
            return kept if set(value) <= set(usual) else [*kept.values()]
        case dict() | list():
            return f"{len(value)} of them"
        case str():
            return value if key in _OURS else "set" if value else ""
        case _:
            return value


def _counted(logs: Path) -> list[str]:
    try:
        lines = (logs / "nanobot.log").read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    except OSError:
        return ["no log"]
    counts = Counter(f"{told[1]} {told[2]}" for line in lines if (told := _LEVEL.search(line)))
    return [f"{count:>5} × {where}" for where, count in counts.most_common(20)] or ["none"]
