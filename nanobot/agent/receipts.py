"""What a turn has really done, and whether its answer claims more.

A claim is a sentence in which the speaker says to have done something now: "I've saved it to notes.md", or promises to
remember something. Questions, offers, negations, what was done earlier and what is quoted are none. Where it is in
doubt, it is no claim: a false alarm under an honest answer is worse than a claim that is missed.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nanobot.results import ToolResult
from nanobot.security.policy import EffectKind, Verdict
from nanobot.utils.logs import scrub
from nanobot.utils.text import one_line
from nanobot.utils.translation import N_, _

ClaimKind = Literal["write", "delete", "run", "send", "schedule", "remember"]
#: Effects by which a claim of each kind may be true; a command or a service may do a lot of things.
_ANY: tuple[EffectKind, ...] = ("run", "run_lossy", "run_open", "change")
BACKED_BY: Mapping[ClaimKind, frozenset[str]] = {
    "write": frozenset({"write", "control", *_ANY}),
    "delete": frozenset({"delete", "appointment", "control", *_ANY}),
    "run": frozenset(_ANY),
    "send": frozenset({"send", "send_other", "run_open", "change"}),
    "schedule": frozenset({"appointment", "control", *_ANY}),
    "remember": frozenset({"memory", "write", "control", *_ANY}),
}
#: What stands under an answer whose claim nothing backs.
NOTES: Mapping[ClaimKind, str] = {
    "write": N_("Nothing was written in this turn, whatever the answer says."),
    "delete": N_("Nothing was deleted in this turn, whatever the answer says."),
    "run": N_("No command was run in this turn, whatever the answer says."),
    "send": N_("Nothing was sent in this turn, whatever the answer says."),
    "schedule": N_("Nothing was scheduled in this turn, whatever the answer says."),
    "remember": N_("Nothing was put into memory in this turn, whatever the answer says."),
}
#: Characters of one receipt, and of an answer that are judged.
_WIDTH, _JUDGED = 200, 50_000

_FILE = (
    r"(?<![\w/~.-])[\w/~.-]{1,120}\.(?:md|txt|py|js|ts|json|csv|tsv|pdf|docx?|xlsx?|pptx?|odt|html?|css|ya?ml|toml|sh|sql|log|ini|cfg|xml|"
    r"rst|tex|rs|go|c|h|cpp|java|rb|php|png|jpe?g|svg|gif|zip|mp3|ics)\b"
)
_FENCED = re.compile(r"(?ms)^\s*(```|~~~).*?(?:^\s*\1\s*$|\Z)")
_QUOTED = re.compile(
    r"\"[^\"\n]{0,500}\"|“[^“”\n]{0,500}”|„[^„“”\n]{0,500}[“”]|«[^«»\n]{0,500}»|「[^「」\n]{0,500}」|『[^『』\n]{0,500}』|"
    r"‘[^‘’\n]{0,500}’(?!\w)"
)
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?…]+(?=[\s\"”»)*_]|$)|[。！？]|(?=\n)|$)")
#: Ends what a verb is about, in all of the languages: what follows is another deed, or where it was taken from.
_CLAUSE = re.compile(
    r"[,;:—、，；：]|(?<!\w)(?:and|from|about|across|because|which|und|aus|über|weil|et|à partir|sur|sobre|a partir|"
    r"da|su|uit|over|и|из)(?!\w)",
    re.IGNORECASE,
)
_NAME = re.compile(rf"\W*{_FILE}\W*")


#: What a receipt says where others read along, by what was done; a file or a message that came there is seen anyway.
_SHARED: Mapping[str, str] = {
    "send_other": N_("sent something to another chat"),
    "change": N_("called a service"),
}


def shared_receipt(receipt: str, did: Collection[str]) -> str:
    """A receipt for a group: what was done, and to whom or what only where the group sees that itself."""
    told = dict.fromkeys(_(_SHARED[kind]) for kind in did if kind in _SHARED)
    return receipt if set(did) == {"send"} else "\n".join(told or [_("did something")]) if receipt else ""


class _Language(Struct, frozen=True):
    """How one language says that something was done: a part of `claims.json`, whose texts are patterns.

    `cues`: one of them stands in every text that has a claim. `says` is a claim with the verbs of all kinds at `{}`;
    `things` are what the verb must be about, a file's name besides. In `unless` is what before the verb, and in `past`
    what anywhere in the sentence makes it no claim of now.
    """

    cues: str
    says: str
    verbs: dict[ClaimKind, str]
    things: dict[ClaimKind, str]
    unless: str
    past: str
    promises: str

    def claim(self, sentence: str) -> re.Match[str] | None:
        """Where a sentence says that something was done."""
        verbs = "|".join(dict.fromkeys("|".join(self.verbs.values()).split("|")))
        return _found(self.says.format(verbs), sentence)


@cache
def _languages() -> tuple[_Language, ...]:
    text = Path(__file__).with_name("claims.json").read_bytes()
    return tuple(msgspec.json.decode(text, type=dict[str, _Language]).values())


def _found(words: str, text: str) -> re.Match[str] | None:
    """The first of some words; their pattern is made when a text has one of the cues of its language."""
    return re.search(words, text, re.IGNORECASE)


def with_receipt(result: ToolResult, verdict: Verdict, tool: str) -> ToolResult:
    """The result of a call with its receipt as people see it: a line for each thing that was done, none of them long or
    with a secret in it. A service that may have changed something, and does not say what, was called."""
    changed = verdict.decision == "allow" and any(effect.kind == "change" for effect in verdict.effects)
    said = result.receipt or (_("called {tool}", tool=tool) if changed and result.success else "")
    lines = (one_line(scrub(line), _WIDTH) for line in said.splitlines())
    return replace(result, receipt="\n".join(filter(None, lines))) if said else result


def unbacked(answer: str, done: Collection[str]) -> tuple[ClaimKind, ...]:
    """What `answer` claims though none of the effects in `done` can have done it, in a fixed order."""
    claimed = set(_claims(answer))
    if claimed & {"schedule", "remember"}:
        claimed.discard("write")  # "I created a reminder" is about no file
    return tuple(kind for kind, backs in BACKED_BY.items() if kind in claimed and backs.isdisjoint(done))


def _claims(answer: str) -> Iterator[ClaimKind]:
    text = _FENCED.sub("\n", answer[:_JUDGED])
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">"))
    text = _QUOTED.sub(lambda quoted: quoted[0][1:-1] if _NAME.fullmatch(quoted[0]) else " … ", text)
    spoken = [one for one in _languages() if _found(one.cues, text)]
    for sentence in _SENTENCE.findall(text) if spoken else ():
        if not sentence.rstrip(" *_)").endswith(("?", "？")):
            for language in spoken:
                yield from _claims_in(sentence, language)


def _claims_in(sentence: str, language: _Language) -> Iterator[ClaimKind]:
    promise = _found(language.promises, sentence)
    if promise is not None and not _found(language.unless, sentence[: promise.start()]):
        yield "remember"
    claim = language.claim(sentence)
    if claim is None or _found(language.past, sentence) or _found(language.unless, sentence[: claim.end()]):
        return
    begin = max((sentence.rfind(mark, 0, claim.start()) for mark in ",;:、，；："), default=0) + 1
    end = _CLAUSE.search(sentence, claim.end())
    clause = sentence[begin : end.start() if end else len(sentence)]
    named = re.search(_FILE, clause)
    for kind, verbs in language.verbs.items():
        about = _found(language.things[kind], clause) or (named and kind in ("write", "delete", "send"))
        if about and re.search(rf"(?<![a-zà-ÿа-яё])(?:{verbs})", claim[0], re.IGNORECASE):
            yield kind
