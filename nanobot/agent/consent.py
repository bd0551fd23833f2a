"""What a question to the owner says: what exactly would be done, what leaves, what can be undone, and whose wish it is.

Whose wish it is, is told by the texts of the conversation alone: a sentence of the person that names what it is about,
else what came from outside and names it, else nobody. A model is not asked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from nanobot.agent.history import foreign_in
from nanobot.agent.tools.base import Question, in_question
from nanobot.messages import Message, Role, Text, ToolMessage, UserMessage
from nanobot.security.policy import Effect, EffectKind, JudgedCall, Verdict, texts_of
from nanobot.security.trust import unwrap
from nanobot.session.permissions import Permission
from nanobot.utils.text import fold, one_line, strip_unsafe
from nanobot.utils.translation import N_, _, listed

#: Characters of a line; what is longer stands below the facts, whole.
_LINE = 500
#: Characters of a title, and of the sentence of a person.
_TITLE, _SENTENCE = 80, 200


class _Words(Struct, frozen=True):
    """How an effect is spoken of: asked about and wished for, when it was done, on the line of what it is about, and
    what a lasting yes allows."""

    act: str
    done: str
    about: str
    lasting: str


_READ = (N_("read {target}"), N_("read {target}"))
_WRITE = (N_("write {target}"), N_("wrote {target}"))
_RUN = (N_("run {target}"), N_("ran {target}"))
_SEND = (N_("send to {target}"), N_("sent to {target}"))
_CALL = (N_("call {target}"), N_("called {target}"))
_CHANGE = (N_("change {target}"), N_("changed {target}"))
_NOTE = (N_("note in {target}"), N_("noted in {target}"))
_DELETE = (N_("delete {target}"), N_("deleted {target}"))
_SEARCH = (N_("search {target}"), N_("searched {target}"))
_SCHEDULE = (N_("change the schedule: {target}"), N_("changed the schedule: {target}"))
_OTHER = _Words(N_("do {target}"), N_("did {target}"), "", "")
_ADDRESS, _PATH, _RUNS, _CHAT, _TOOL = (
    N_("Address: {target}"),
    N_("Path: {target}"),
    N_("Runs: {target}"),
    N_("Chat: {target}"),
    N_("Tool: {target}"),
)
_RUN_WORDS = _Words(*_RUN, _RUNS, N_("run exactly {target}"))
_READ_WORDS = _Words(*_READ, _PATH, N_("read {target}, whatever it holds then"))
_SEND_WORDS = _Words(*_SEND, _CHAT, N_("send to {target}, whatever the text and the files"))
_CALL_WORDS = _Words(*_CALL, _TOOL, N_("call {target}, with any arguments"))
_WORDS: Mapping[EffectKind, _Words] = {
    "lookup": _Words(*_READ, _ADDRESS, N_("read exactly {target}")),
    "address": _Words(*_READ, _ADDRESS, N_("read every address of {target}")),
    "read": _READ_WORDS,
    "keys": _READ_WORDS,
    "recall": _Words(*_SEARCH, N_("Kept of: {target}"), N_("search what is kept of {target}")),
    "write": _Words(*_WRITE, _PATH, N_("write {target}, whatever the text")),
    "control": _Words(*_CHANGE, _PATH, N_("change {target}, whatever the text")),
    "memory": _Words(*_NOTE, _PATH, N_("note in {target}, whatever the text")),
    "appointment": _Words(*_SCHEDULE, N_("Appointment: {target}"), N_("set exactly {target}")),
    "delete": _Words(*_DELETE, _PATH, N_("delete {target}, whatever it holds then")),
    "run": _RUN_WORDS,
    "run_lossy": _RUN_WORDS,
    "run_open": _RUN_WORDS,
    "send": _SEND_WORDS,
    "send_other": _SEND_WORDS,
    "service": _CALL_WORDS,
    "change": _CALL_WORDS,
}
_SENT = N_("no, what was sent stays sent")
_KEPT = N_("yes, the version before is kept, where there is one: /undo takes the change back")
_UNDO: Mapping[EffectKind, str] = {
    "address": _SENT,
    "write": _KEPT,
    "control": _KEPT,
    "memory": _KEPT,
    "appointment": N_("yes, with /schedule and /watch, until it has run"),
    "delete": N_("yes, it goes to the trash: /undo brings it back"),
    "run": N_("yes, /undo brings back what it changes and deletes in its folders"),
    "run_lossy": N_("in part, for a file in its folders is too large to be kept for /undo"),
    "run_open": N_("in its folders /undo brings back files; what else a command has done stays done"),
    "send_other": _SENT,
    "change": N_("not by nanobot; perhaps where it was done"),
}
#: What leaves the machine; whatever is not here sends nothing.
_LEAVES: Mapping[EffectKind, str] = {
    "address": N_("What leaves: a request for this address to {host}."),
    "change": N_("What leaves: {what}"),
    "service": N_("What leaves: {what}"),
    "run_open": N_("What leaves: whatever the command sends; nothing holds it back but what stands here."),
    "recall": N_("What leaves: what is found, to the model's provider."),
    "keys": N_("What leaves: what stands in it, to the model's provider."),
    "send_other": N_("What leaves: what stands below, to that chat."),
}
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|[\r\n]+")
_WORD = re.compile(r"[^\s'\"|&;<>()$`=]+")


def question_of(call: JudgedCall, verdict: Verdict, said: Sequence[Message]) -> Question:
    """What the owner is asked about a call in a conversation in which this was `said`."""
    asked = verdict.open
    first = asked[0]
    target = _short(_target(call, first), first.kind)
    words = _WORDS.get(first.kind, _OTHER)
    if len(asked) > 1:
        target = _("{target} and {number} more", target=target, number=len(asked) - 1)
    lasting = tuple(_lasting(call, one) for one in asked)
    lines = [_("Reason: {reason}.", reason=f"{reason[0].upper()}{reason[1:]}") for reason in verdict.reasons]
    for one in asked:
        lines += _facts(call, one)
    lines += [
        _("Refused whatever you answer: {target} ({reason})", target=in_question(one.target), reason=one.reason)
        for one in verdict.effects
        if one.kind == "address" and one.reason
    ]
    undoing = dict.fromkeys(filter(None, (_UNDO.get(one.kind, "") for one in asked)))
    lines += [_("Undo: {how}.", how=_(how)) for how in undoing]
    lines += [
        _("Whose wish: {whose}.", whose=whose) for whose in dict.fromkeys(origin(call, one, said) for one in asked)
    ]
    allowed = "; ".join(dict.fromkeys(one.words for one in lasting))
    always = N_("Always: {what}, until you take it back with /permissions.")
    if call.taint:
        always = N_(
            "Always: {what}, also with content from outside in the conversation, until you take it back with "
            "/permissions."
        )
    lines.append(_(always, what=allowed))
    shown = "\n".join(filter(None, (_shown(one) for one in asked)))
    act = _(words.act, target=target)
    diff = first.kind in ("write", "control", "memory") and bool(first.shown)
    return Question(
        _("{act}?", act=f"{act[0].upper()}{act[1:]}"),
        "\n".join(lines),
        shown,
        lasting,
        act=act,
        done=_(words.done, target=target),
        diff=diff,
    )


def _short(target: str, kind: EffectKind) -> str:
    """A target for a title: of a path its end, of anything else as much as fits."""
    if kind in ("read", "keys", "write", "control", "memory", "delete"):
        target = "/".join(PurePath(target).parts[-2:])
    return one_line(target, _TITLE)


def _target(call: JudgedCall, effect: Effect) -> str:
    return call.tool if effect.kind in ("change", "service") else effect.target


def _lasting(call: JudgedCall, effect: Effect) -> Permission:
    kind, about = effect.lasting(call.tool)
    target = effect.about if effect.kind == "address" else _target(call, effect)
    return Permission(kind, about, _(_WORDS[effect.kind].lasting, target=in_question(target)))


def _facts(call: JudgedCall, effect: Effect) -> Iterator[str]:
    """What exactly would be done, and what leaves the machine."""
    if effect.kind == "address":
        yield _("Host: {host}", host=in_question(effect.about))
    target = _target(call, effect)
    shown = in_question(target, _LINE)
    if len(target) > _LINE:
        shown = _("{target} (whole below)", target=shown)
    yield _(_WORDS[effect.kind].about, target=shown)
    whole = in_question(effect.shown, _LINE) if len(effect.shown) <= _LINE else _("what stands below")
    if effect.kind not in ("lookup", "send"):
        leaves = _LEAVES.get(effect.kind, N_("What leaves: nothing."))
        yield _(leaves, host=in_question(effect.about), what=whole)


def _shown(effect: Effect) -> str:
    """What does not fit on a line, whole; each line is set in, so that none speaks as the question does."""
    whole = effect.target if len(effect.target) > _LINE else ""
    if effect.kind in ("change", "service") and len(effect.shown) <= _LINE:
        return f"  {in_question(whole, len(whole))}" if whole else ""
    text = "\n".join(filter(None, (whole, effect.shown)))
    return "\n".join(f"  {strip_unsafe(line).rstrip()}" for line in text.splitlines())


def origin(call: JudgedCall, effect: Effect, said: Sequence[Message]) -> str:
    """Whose wish it is: the sentence of a person, where something from outside names it, or the model's own idea."""
    names = tuple(dict.fromkeys(fold(name) for name in _names(call, effect)))
    sentence = next((one for one in _sentences(said, call.role) if names and _all_in(names, one)), "")
    if sentence:
        return _('you wrote: "{sentence}"', sentence=in_question(sentence, _SENTENCE))
    marked = [name for name in names if len(name) > 4 and re.search(r"[./@\d]", name)]
    for wanted in ([names] if names else []) + [(name,) for name in marked]:
        for label, text in _outside(said, call.role):
            if _all_in(wanted, text):
                source = in_question(label, _SENTENCE)
                return _("no person asked for this; it came from {source}", source=source)
    if not call.taint:
        return _("the model's own idea, nobody has named it")
    read = in_question(listed(map(_, call.taint)), _SENTENCE)
    return _("the model's own idea, nobody has named it; it had read {sources}", sources=read)


def _names(call: JudgedCall, effect: Effect) -> Iterable[str]:
    """The words by which a text would name it, all of which must stand in it."""
    match effect.kind:
        case "address":
            return [effect.target.partition("://")[2].rstrip("/") or effect.target]
        case "run" | "run_open":
            typed = [call.arguments[name] for name in ("command", "argv") if call.arguments.get(name)]
            line = " ".join(texts_of(typed)) or effect.target  # the target also says where, and what it may reach
            words = [word for word in _WORD.findall(line) if len(word) > 1 and not word.startswith("-")]
            return [_named(word) for word in words]
        case "change" | "service":
            given = [text for text in texts_of(call.arguments, names=False) if 2 < len(text) <= _TITLE]
            exact = [text for text in given if not re.search(r"\s", text.strip())]
            return exact or given or re.findall(r"[^\W_]{3,}", call.tool)
        case "send" | "send_other":
            return [effect.target]
        case _:
            return [PurePath(effect.target).name or effect.target]


def _named(word: str) -> str:
    """How people write a word of a command line: an address without its scheme, of a whole path its last part."""
    if word.startswith(("/", "~", "./", "../")):
        return PurePath(word).name or word
    return word.partition("://")[2] or word


def _sentences(said: Sequence[Message], role: Role) -> Iterator[str]:
    """What those who have the rights of `role` have typed themselves, the newest first."""
    for message in reversed(said):
        if isinstance(message, UserMessage) and message.kind != "notice" and message.speaker == role:
            for part in message.content:
                if isinstance(part, Text) and unwrap(part.text.strip()) is None:
                    yield from filter(str.strip, _SENTENCE_END.split(part.text))


def _outside(said: Sequence[Message], role: Role) -> Iterator[tuple[str, str]]:
    """A label and the text of everything from outside, the newest first."""
    for message in reversed(said):
        label = ", ".join(dict.fromkeys(foreign_in((message,), role)))
        if label and isinstance(message, ToolMessage | UserMessage):
            yield label, message.text


def _all_in(names: Iterable[str], text: str) -> bool:
    folded = fold(text)
    return all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", folded) for name in names)
