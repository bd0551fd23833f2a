"""What a question to the owner says: what exactly would be done, what leaves, what can be undone, and whose wish it is.

Whose wish it is, is told by the texts of the conversation alone: a sentence of the person that names what it is about,
else what came from outside and names it, else nobody. A model is not asked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from nanobot.agent.history import foreign_in
from nanobot.agent.tools.base import Question, in_question
from nanobot.messages import Message, Role, Text, ToolMessage, UserMessage
from nanobot.security.policy import Effect, EffectKind, JudgedCall, Verdict, texts_of
from nanobot.security.trust import unwrap
from nanobot.session.permissions import Permission
from nanobot.utils.text import fold, shorten, squeeze, strip_unsafe

#: Characters of a line; what is longer stands below the facts, whole.
_LINE = 500
#: Characters of a title, and of the sentence of a person.
_TITLE, _SENTENCE = 80, 200
#: What is done: as a wish, when it was done, how its target is called, and what a lasting yes allows.
_WORDS: Mapping[EffectKind, tuple[str, str, str, str]] = {
    "lookup": ("read", "read", "Address", "read exactly {}"),
    "address": ("read", "read", "Address", "read every address of {}"),
    "read": ("read", "read", "Path", "read {}, whatever it holds then"),
    "keys": ("read", "read", "Path", "read {}, whatever it holds then"),
    "recall": ("search", "searched", "Kept of", "search what is kept of {}"),
    "write": ("write", "wrote", "Path", "write {}, whatever the text"),
    "control": ("change", "changed", "Path", "change {}, whatever the text"),
    "memory": ("note in", "noted in", "Path", "note in {}, whatever the text"),
    "appointment": ("change the schedule:", "changed the schedule:", "Appointment", "set exactly {}"),
    "delete": ("delete", "deleted", "Path", "delete {}, whatever it holds then"),
    "run": ("run", "ran", "Runs", "run exactly {}"),
    "run_lossy": ("run", "ran", "Runs", "run exactly {}"),
    "run_open": ("run", "ran", "Runs", "run exactly {}"),
    "send": ("send to", "sent to", "Chat", "send to {}, whatever the text and the files"),
    "send_other": ("send to", "sent to", "Chat", "send to {}, whatever the text and the files"),
    "service": ("call", "called", "Tool", "call {}, with any arguments"),
    "change": ("call", "called", "Tool", "call {}, with any arguments"),
}
_SENT = "no, what was sent stays sent"
_KEPT = "yes, the version before is kept, where there is one: /undo takes the change back"
_UNDO: Mapping[EffectKind, str] = {
    "address": _SENT,
    "write": _KEPT,
    "control": _KEPT,
    "memory": _KEPT,
    "appointment": "yes, with /schedule and /watch, until it has run",
    "delete": "yes, it goes to the trash: /undo brings it back",
    "run": "yes, /undo brings back what it changes and deletes in its folders",
    "run_lossy": "in part, for a file in its folders is too large to be kept for /undo",
    "run_open": "in its folders /undo brings back files; what else a command has done stays done",
    "send_other": _SENT,
    "change": "not by nanobot; perhaps where it was done",
}
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|[\r\n]+")
_WORD = re.compile(r"[^\s'\"|&;<>()$`=]+")
_NOBODY = "no person asked for this; it came from "


def question_of(call: JudgedCall, verdict: Verdict, said: Sequence[Message]) -> Question:
    """What the owner is asked about a call in a conversation in which this was `said`."""
    asked = verdict.open
    first = asked[0]
    target = _short(_target(call, first), first.kind)
    act, done, _, _ = _WORDS.get(first.kind, ("do", "did", "", ""))
    more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
    title = f"{act[0].upper()}{act[1:]} {target}{more}?"
    lasting = tuple(_lasting(call, one) for one in asked)
    lines = [f"Reason: {reason[0].upper()}{reason[1:]}." for reason in verdict.reasons]
    for one in asked:
        lines += _facts(call, one)
    lines += [
        f"Refused whatever you answer: {in_question(one.target)} ({one.reason})"
        for one in verdict.effects
        if one.kind == "address" and one.reason
    ]
    lines += [f"Undo: {words}." for words in dict.fromkeys(filter(None, (_UNDO.get(one.kind, "") for one in asked)))]
    lines += [f"Whose wish: {words}." for words in dict.fromkeys(origin(call, one, said) for one in asked)]
    outside = ", also with content from outside in the conversation" if call.taint else ""
    allowed = "; ".join(dict.fromkeys(one.words for one in lasting))
    lines.append(f"Always: {allowed}{outside}, until you take it back with /permissions.")
    shown = "\n".join(filter(None, (_shown(one) for one in asked)))
    diff = first.kind in ("write", "control", "memory") and bool(first.shown)
    return Question(
        title,
        "\n".join(lines),
        shown,
        lasting,
        act=f"{act} {target}{more}",
        done=f"{done} {target}{more}",
        diff=diff,
    )


def _short(target: str, kind: EffectKind) -> str:
    """A target for a title: of a path its end, of anything else as much as fits."""
    if kind in ("read", "keys", "write", "control", "memory", "delete"):
        target = "/".join(PurePath(target).parts[-2:])
    return shorten(squeeze(strip_unsafe(target)), _TITLE)


def _target(call: JudgedCall, effect: Effect) -> str:
    return call.tool if effect.kind in ("change", "service") else effect.target


def _lasting(call: JudgedCall, effect: Effect) -> Permission:
    kind, about = effect.lasting(call.tool)
    target = effect.about if effect.kind == "address" else _target(call, effect)
    return Permission(kind, about, _WORDS[effect.kind][3].format(in_question(target)))


def _facts(call: JudgedCall, effect: Effect) -> Iterator[str]:
    """What exactly would be done, and what leaves the machine."""
    if effect.kind == "address":
        yield f"Host: {in_question(effect.about)}"
    target = _target(call, effect)
    below = " (whole below)" if len(target) > _LINE else ""
    yield f"{_WORDS[effect.kind][2]}: {in_question(target, _LINE)}{below}"
    match effect.kind:
        case "address":
            yield f"What leaves: a request for this address to {in_question(effect.about)}."
        case "change" | "service":
            whole = in_question(effect.shown, _LINE)
            yield f"What leaves: {whole if len(effect.shown) <= _LINE else 'what stands below'}"
        case "run_open":
            yield "What leaves: whatever the command sends; nothing holds it back but what stands here."
        case "recall":
            yield "What leaves: what is found, to the model's provider."
        case "keys":
            yield "What leaves: what stands in it, to the model's provider."
        case "send_other":
            yield "What leaves: what stands below, to that chat."
        case "lookup" | "send":
            return
        case _:
            yield "What leaves: nothing."


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
        return f'you wrote: "{in_question(sentence, _SENTENCE)}"'
    marked = [name for name in names if len(name) > 4 and re.search(r"[./@\d]", name)]
    for wanted in ([names] if names else []) + [(name,) for name in marked]:
        for label, text in _outside(said, call.role):
            if _all_in(wanted, text):
                return f"{_NOBODY}{in_question(label, _SENTENCE)}"
    before = f"; it had read {in_question(', '.join(call.taint), _SENTENCE)}" if call.taint else ""
    return f"the model's own idea, nobody has named it{before}"


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
