"""Whether a call may run: allow, ask the owner first, or deny. One judge, on the only road to a tool.

It decides by who speaks, by what the tool does there, by where the call sends something, and by what a person has
already said to. The registry runs nothing without its verdict.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.messages import Role
from nanobot.utils.logs import holds_secret

Decision = Literal["allow", "ask", "deny"]
Access = Literal["public", "reads", "changes"]
"""What a call does: read what anybody may read, read what is the owner's, or perhaps change something."""

_PRIVATE_VALUE = "it holds a key or a token of the configuration, which goes to its own service alone"
_NOT_THEIRS = "it is for the owner alone"
_MADE_UP = "no person, search result or page has named this address; the model made it up"
_CHANGES = "it may change something: its server does not say that it only reads"


class Destination(Struct, frozen=True):
    """An address that a call reaches. `named`: a person, a search hit or a page of this session has named it."""

    url: str
    named: bool = True

    @property
    def host(self) -> str:
        try:
            return (urlsplit(self.url).hostname or "").lower().rstrip(".")
        except ValueError:
            return ""


class JudgedCall(Struct, frozen=True):
    """A call before it runs. `person` and `session` tell whose grants count."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    access: Access = "changes"
    destinations: tuple[Destination, ...] = ()
    role: Role = "guest"
    person: str = ""
    session: str = ""

    @property
    def digest(self) -> str:
        """What makes this call this one and no other."""
        return digest(self.tool, self.arguments)


class Verdict(Struct, frozen=True):
    """What was decided about the one call with this `digest`; `reasons` are short clauses for people and models.

    `about` is what the owner is asked for: hosts, and an empty text for the tool itself.
    """

    decision: Decision
    digest: str
    reasons: tuple[str, ...] = ()
    about: tuple[str, ...] = ()

    def covers(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """True where this very call may run."""
        return self.decision == "allow" and self.digest == digest(tool, arguments)


class Policy:
    """The judge, and what people have answered: by person and session, for the tool or the host that was shown.

    An answer lifts no denial, and none of it outlives the process.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, str, str], bool] = {}

    def judge(self, call: JudgedCall) -> Verdict:
        """Whether `call` may run. What a denial forbids cannot be granted; what was granted is not asked again."""
        whole = "".join(texts_of(call.arguments, names=False))  # what is split over several arguments
        if holds_secret(whole) or any(map(holds_secret, texts_of(call.arguments))):
            return Verdict("deny", call.digest, (_PRIVATE_VALUE,))
        if call.role != "owner" and call.access != "public":
            return Verdict("deny", call.digest, (_NOT_THEIRS,))
        hosts = tuple(dict.fromkeys(one.host for one in call.destinations if not one.named))
        wanted = [*(("", _CHANGES) for _ in range(call.access == "changes")), *((host, _MADE_UP) for host in hosts)]
        open_ones = [(host, reason) for host, reason in wanted if self._answers.get(_key(call, host)) is not True]
        if any(self._answers.get(_key(call, host)) is False for host, _ in open_ones):
            return Verdict("deny", call.digest, ("the owner does not want it in this session",))
        reasons = tuple(dict.fromkeys(reason for _, reason in open_ones))
        return Verdict("ask" if reasons else "allow", call.digest, reasons, tuple(host for host, _ in open_ones))

    def answered(self, call: JudgedCall, verdict: Verdict, choice: str) -> Verdict:
        """The verdict after the owner answered; `host`, `session` and `never` are kept for the session."""
        if choice in ("host", "session", "never"):
            for host in verdict.about:
                self._answers[_key(call, host)] = choice != "never"
        if choice in ("once", "host", "session"):
            return replace(verdict, decision="allow")
        return replace(verdict, decision="deny", reasons=("the owner said no",))


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


def _key(call: JudgedCall, host: str) -> tuple[str, str, str, str]:
    return call.person, call.session, call.tool, host
