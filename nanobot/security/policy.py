"""Whether a call may run: allow, ask the owner first, or deny. One judge, on the only road to a tool.

It decides by what the call would do, by who speaks, by whether content from outside stands in the conversation, by the
rules of the owner, and by what a person has already said to. The registry runs nothing without its verdict.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.messages import Role
from nanobot.utils.logs import holds_secret
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, _

Decision = Literal["allow", "ask", "deny"]
Access = Literal["public", "talks", "reads", "changes"]
# English: a programmer reads it
"""Whom a tool is offered: it reads what anybody may read, talks with the person of the turn who is no guest, reads what
is the owner's, or perhaps changes something."""
EffectKind = Literal[
    "lookup",
    "address",
    "read",
    "keys",
    "recall",
    "write",
    "delete",
    "control",
    "memory",
    "appointment",
    "run",
    "run_lossy",
    "run_open",
    "send",
    "send_other",
    "service",
    "change",
    "forbidden",
]
Preset = Literal["careful", "normal", "free"]
Grant = Literal["", "own", "files", "exec", "messages", "mcp"]
#: What every user has, of what is their own alone.
OWN: Grant = "own"
#: What the owner can let a user do, and what that is in words.
GRANTS: Mapping[Grant, str] = {
    "files": N_("files in a folder of their own"),
    "exec": N_("commands"),
    "messages": N_("messages to other chats"),
    "mcp": N_("the tools of MCP servers"),
}


class EffectRule(Struct, frozen=True):
    """What one kind of effect takes.

    `clean` and `tainted` are for the owner in the preset `normal`: without and with content from outside in the
    conversation. `careful` and `free` are other answers for a clean one. A user needs the `grant` of that name; one
    that is empty nobody needs, `OWN` every user has, and `guests` have it too. `means` and `why` are for people: what
    it is, why it is asked.
    """

    means: str
    clean: Decision
    tainted: Decision
    why: str = ""
    careful: Decision | None = None
    free: Decision | None = None
    grant: Grant = ""
    guests: bool = False


#: The table of docs/security.md; a test keeps both alike.
KINDS: Mapping[EffectKind, EffectRule] = {
    "lookup": EffectRule(
        N_("search; read a page that a person, a hit or a page has named"), "allow", "allow", guests=True
    ),
    "address": EffectRule(
        N_("read a page at an address that nobody has named"),
        "allow",
        "ask",
        N_("no person, search result or page has named this address; the model made it up"),
        careful="ask",
        guests=True,
    ),
    "read": EffectRule(N_("read a file in the roots"), "allow", "allow", grant="files"),
    "keys": EffectRule(
        N_("read a file that usually holds keys or passwords, such as .env, *.pem or id_rsa"),
        "allow",
        "ask",
        N_("it usually holds keys or passwords, and this conversation holds content from outside"),
        grant="files",
    ),
    "recall": EffectRule(
        N_("find what was said with this person, what is remembered, and their documents"), "allow", "allow"
    ),
    "write": EffectRule(
        N_("write an ordinary file in a writable root"),
        "allow",
        "allow",
        N_("it changes a file"),
        careful="ask",
        grant="files",
    ),
    "delete": EffectRule(
        N_("move a file to the trash"), "allow", "allow", N_("it takes a file away"), careful="ask", grant="files"
    ),
    "control": EffectRule(
        N_(
            "change a file that steers the agent or runs by itself: SOUL.md, AGENTS.md, USER.md, HEARTBEAT.md, those "
            "of memory, skills, templates, hooks"
        ),
        "allow",
        "ask",
        N_("it changes what steers nanobot, and this conversation holds content from outside"),
        careful="ask",
        grant="files",
    ),
    "memory": EffectRule(
        N_("note a fact in the person's own memory"),
        "allow",
        "ask",
        N_("it changes what is remembered, and this conversation holds content from outside"),
        careful="ask",
        grant=OWN,
    ),
    "appointment": EffectRule(
        N_("set or change the person's own reminders, tasks and watches"),
        "allow",
        "ask",
        N_("it runs by itself later, and this conversation holds content from outside"),
        careful="ask",
        grant=OWN,
    ),
    "run": EffectRule(
        N_("run a command in the sandbox, without a network"),
        "allow",
        "allow",
        careful="ask",
        grant="exec",
        why=N_("it runs a command"),
    ),
    "run_lossy": EffectRule(
        N_("run such a command where a file in its reach is too large to be kept for `/undo`"),
        "allow",
        "ask",
        N_("it could destroy what is too much to be kept for /undo, and this conversation holds content from outside"),
        careful="ask",
        grant="exec",
    ),
    "run_open": EffectRule(
        N_("run a command with a network or without a sandbox"),
        "ask",
        "ask",
        N_("the command could reach the network or everything that you can reach"),
        free="allow",
        grant="exec",
    ),
    "send": EffectRule(N_("write to the person's own chat"), "allow", "allow"),
    "send_other": EffectRule(
        N_("write to another chat"),
        "ask",
        "ask",
        N_("it sends something to another chat"),
        free="allow",
        grant="messages",
    ),
    "service": EffectRule(N_("ask an MCP server that says that it only reads"), "allow", "allow", grant="mcp"),
    "change": EffectRule(
        N_("call a tool of an MCP server that may change something"),
        "ask",
        "ask",
        N_("it may change something: its server does not say that it only reads"),
        free="allow",
        grant="mcp",
    ),
    "forbidden": EffectRule(N_("keys, nanobot's own home and configuration, files outside the roots"), "deny", "deny"),
}

#: The kinds whose target is a command line.
_COMMANDS: tuple[EffectKind, ...] = ("run", "run_lossy", "run_open")
#: What joins, feeds or expands commands in a shell line: a rule with `*` allows one plain command alone.
_SHELL = re.compile(r"[;&|<>`$\\(){}\r\n]")
_PRIVATE_VALUE = N_("it holds a key or a token of the configuration, which goes to its own service alone")
_NOT_THEIRS = N_("it is for the owner alone")
SCHEDULED = N_("no person is there to be asked")
_READ_ALONG = N_("it belongs to one person, and others read along here")
#: What belongs to one person, and is no tool of a conversation that others read.
PERSONAL: frozenset[Grant] = frozenset({OWN, "files", "exec"})


class Effect(Struct, frozen=True):
    """One thing that a call would do, and to what: a path, an address, a chat, a command line.

    `shown` is what a question shows of it, such as a diff; `reason` why it is forbidden and what to do instead, or why
    the guard of the network will refuse the address.
    """

    kind: EffectKind
    target: str = ""
    shown: str = ""
    reason: str = ""

    @property
    def about(self) -> str:
        """What a lasting answer is about: the host of an address, else the target."""
        return self.host if self.kind == "address" else self.target

    @property
    def host(self) -> str:
        """The host of an address, empty for what is none."""
        try:
            return (urlsplit(self.target).hostname or "").lower().rstrip(".")
        except ValueError:
            return ""

    def lasting(self, tool: str) -> tuple[str, str]:
        """What a lasting yes to this effect of `tool` is kept as: its kind, and the host, path, command line or tool.

        A command line counts with what was shown of it, such as its folder and the hosts that it may reach.
        """
        if self.kind in ("change", "service"):
            return self.kind, tool
        return self.kind, f"{self.target}\n{self.shown}" if self.kind in _COMMANDS else self.about


class Rule(Struct, frozen=True):
    """A rule of the owner: calls of `tool` whose effects all match are decided so.

    `tool` and `match` are patterns with `*` and `?`; `match` is held against each effect's target, empty: any. Of an
    address, host and rest are matched apart, and a pattern without `://` is one of hosts; a pattern with `*` allows a
    command line only where it is one plain command. A rule that allows does so in a conversation with content from
    outside only where `tainted` is true.
    """

    decision: Decision
    tool: str = "*"
    match: str = ""
    tainted: bool = False

    def meets(self, call: "JudgedCall", effect: Effect) -> bool:
        if self.decision == "allow" and call.taint and not self.tainted:
            return False
        return fnmatchcase(call.tool, self.tool) and (not self.match or self._fits(effect))

    def _fits(self, effect: Effect) -> bool:
        if effect.kind in ("lookup", "address") and effect.host:
            if "://" not in self.match:
                return fnmatchcase(effect.host, self.match.lower())
            scheme, host, path = _parted(self.match)
            given = _parted(effect.target)
            return fnmatchcase(given[0], scheme) and fnmatchcase(effect.host, host) and fnmatchcase(given[2], path)
        if effect.target == self.match:
            return True
        joined = effect.kind in _COMMANDS and self.decision == "allow" and _SHELL.search(effect.target)
        return not joined and fnmatchcase(effect.target, self.match)


class JudgedCall(Struct, frozen=True):
    """A call before it runs. `person` tells whose grants count; `granted` what the owner lets a user do.

    `public`: the tool only reads what anybody may read, which guests may use. `taint` names the content from outside
    that stands in the conversation. `scheduled`: no person has just spoken. `direct`: nobody else reads along.
    `permitted` is what the person has allowed for good, as `Effect.lasting` says it; it counts for the owner alone.
    """

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    effects: tuple[Effect, ...] = (Effect("change"),)
    role: Role = "guest"
    person: str = ""
    taint: tuple[str, ...] = ()
    scheduled: bool = False
    granted: frozenset[str] = frozenset()
    public: bool = False
    direct: bool = True
    permitted: frozenset[tuple[str, str]] = frozenset()

    @property
    def digest(self) -> str:
        """What makes this call this one and no other."""
        return digest(self.tool, self.arguments)


class Verdict(Struct, frozen=True):
    """What was decided about the one call with this `digest`; `reasons` are short clauses for people and models.

    `effects` are what was judged, and nothing else may be done; `open` are those of them that the owner is asked about.
    """

    decision: Decision
    digest: str
    reasons: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    open: tuple[Effect, ...] = ()

    def covers(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """True where this very call may run."""
        return self.decision == "allow" and self.digest == digest(tool, arguments)


class Policy:
    """The judge. What a person has allowed for good lifts no denial."""

    def __init__(self, preset: Preset = "normal", rules: Sequence[Rule] = ()) -> None:
        self.preset = preset
        self.rules = tuple(rules)

    def judge(self, call: JudgedCall) -> Verdict:
        """Whether `call` may run. What a denial forbids cannot be granted; what was granted is not asked again."""
        whole = "".join(texts_of(call.arguments, names=False))  # what is split over several arguments
        if holds_secret(whole) or any(map(holds_secret, texts_of(call.arguments))):
            return Verdict("deny", call.digest, (_(_PRIVATE_VALUE),))
        if not call.public and (call.role == "guest" or not call.effects):
            return Verdict("deny", call.digest, (_(_NOT_THEIRS),), call.effects)
        judged = [(one, *self._judge(call, one)) for one in call.effects]
        judged = [(one, decision, _(why)) for one, decision, why in judged]
        denied = tuple(dict.fromkeys(why for _effect, decision, why in judged if decision == "deny"))
        if denied:
            return Verdict("deny", call.digest, denied, call.effects)
        asked = [(one, why) for one, decision, why in judged if decision == "ask"]
        if asked and call.scheduled:  # what somebody said at another time is no consent of now
            verdict = Verdict("ask", call.digest, tuple(dict.fromkeys(why for _effect, why in asked)), call.effects)
            return unattended(call, replace(verdict, open=tuple(one for one, _why in asked)), SCHEDULED)
        if call.role == "owner":
            asked = [(one, why) for one, why in asked if one.lasting(call.tool) not in call.permitted]
        reasons = tuple(dict.fromkeys(why for _effect, why in asked))
        return Verdict(
            "ask" if asked else "allow", call.digest, reasons, call.effects, tuple(one for one, _why in asked)
        )

    def _judge(self, call: JudgedCall, effect: Effect) -> tuple[Decision, str]:
        """The verdict on one effect, and why; nothing lifts what the table denies, and a rule that denies wins."""
        kind = KINDS[effect.kind]
        if kind.clean == "deny":
            return "deny", effect.reason or kind.means
        if kind.grant in PERSONAL and not call.direct:
            return "deny", _READ_ALONG
        granted = not kind.grant or kind.grant == OWN or kind.grant in call.granted
        lets_in = {"guest": kind.guests, "user": kind.guests or granted}
        if not lets_in.get(call.role, True):
            return "deny", _NOT_THEIRS
        met = [rule.decision for rule in self.rules if rule.meets(call, effect)]
        if "deny" in met:
            return "deny", N_("a rule of tools.policy forbids it")
        if met:
            return met[0], N_("a rule of tools.policy asks for it")
        if effect.kind == "address" and effect.reason:
            return "allow", ""  # the guard refuses it whatever is said here, and nothing leaves
        other = {"careful": kind.careful, "normal": None, "free": kind.free}[self.preset]
        if call.taint:
            return ("ask" if self.preset == "careful" and other == "ask" else kind.tainted), kind.why
        return other or kind.clean, kind.why


def answered(verdict: Verdict, *, yes: bool, reason: str = "") -> Verdict:
    """The verdict after the owner was asked; an answer lifts no denial. `reason` is the owner's for a no."""
    if verdict.decision == "ask" and yes:
        return replace(verdict, decision="allow")
    if verdict.decision == "ask":
        said = _("the owner said no: {reason}", reason=reason) if reason else _("the owner said no")
        return replace(verdict, decision="deny", reasons=(said,))
    return verdict


def unattended(call: JudgedCall, verdict: Verdict, why: str) -> Verdict:
    """The denial of a call that somebody would have to be asked about, where nobody can be: `why`, and for the owner
    the rule that would allow it."""
    reasons = [*verdict.reasons, _(why)]
    if call.role == "owner" and verdict.open:
        first = verdict.open[0]
        match = first.host if first.kind == "address" else first.target
        rule = {"tool": call.tool, "match": shorten(match, 200), "decision": "allow", "tainted": bool(call.taint)}
        said = json.dumps({key: value for key, value in rule.items() if value}, ensure_ascii=False)
        reasons.append(_("a rule of the owner in tools.policy.rules would allow it: {rule}", rule=said))
    return replace(verdict, decision="deny", reasons=tuple(reasons))


def digest(tool: str, arguments: Mapping[str, object]) -> str:
    text = json.dumps([tool, arguments], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def texts_of(value: object, *, names: bool = True) -> Iterator[str]:
    """Every text and number inside arguments, and the `names` of them."""
    if isinstance(value, str | int | float):
        yield str(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if names:
                yield str(key)
            yield from texts_of(item, names=names)
    elif isinstance(value, Iterable):
        for item in value:
            yield from texts_of(item, names=names)


def _parted(url: str) -> tuple[str, str, str]:
    """Scheme, host (without port and login) and the rest of an address or a pattern of one."""
    scheme, _, rest = url.partition("://")
    end = next((place for place, sign in enumerate(rest) if sign in "/?#"), len(rest))
    host = rest[:end].rpartition("@")[2].lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return scheme.lower(), name, rest[end:] or "/"
