"""Whether a call may run: allow, ask a person first, or deny. Data and one pure function; who asks is not decided here.

Without rules: reading and searching public hosts is allowed; a private host, a URL that nobody named, and a request
that may change something are asked about first.
"""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Decision = Literal["allow", "ask", "deny"]
_STRICTNESS: Mapping[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Destination:
    """A host that a call reaches.

    `private`: an address of the operator's own network. `named`: the person, a search result or a page read in this
    session named the URL; False where the model made it up.
    """

    host: str
    private: bool = False
    named: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """A call before it runs. `arguments` are its values as text; `changes` tells that it may change something there."""

    tool: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    destinations: Sequence[Destination] = ()
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A decision for the calls that match all of it; each part is a pattern such as `mcp_*`, `*.example.org`, `*`.

    `arguments` maps names to patterns; an argument that the call lacks does not match. `host` other than `*` matches
    only calls that reach such a host.
    """

    decision: Decision
    tool: str = "*"
    host: str = "*"
    arguments: Mapping[str, str] = field(default_factory=dict)

    def matches(self, call: Call, host: str) -> bool:
        return (
            fnmatch.fnmatchcase(call.tool, self.tool)
            and fnmatch.fnmatchcase(host, self.host.lower())
            and all(
                name in call.arguments and fnmatch.fnmatchcase(call.arguments[name], pattern)
                for name, pattern in self.arguments.items()
            )
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person said to "always": this tool for one host, or for every host of this session (`*`).

    It answers what would be asked. It lifts no denial, and it says nothing of any other tool.
    """

    tool: str
    host: str = "*"

    def covers(self, call: Call, host: str) -> bool:
        return call.tool == self.tool and self.host in ("*", host)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The strictest decision over all hosts of a call, the hosts that it is about, and the reasons as short words."""

    decision: Decision
    hosts: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def judge(call: Call, rules: Sequence[Rule] = (), grants: Iterable[Grant] = ()) -> Verdict:
    """Whether `call` may run.

    A matching `deny` always wins. Of the other rules the first that matches decides, else the defaults do; a grant then
    turns `ask` into `allow`. A call that reaches several hosts is as free as the strictest of them.
    """
    granted = tuple(grants)
    found = [_one(call, place, rules, granted) for place in call.destinations or (Destination(""),)]
    strictest = max((decision for decision, _, _ in found), key=_STRICTNESS.__getitem__)
    at = [(host, reason) for decision, host, reason in found if decision == strictest]
    hosts = tuple(dict.fromkeys(host for host, _ in at if host))
    return Verdict(strictest, hosts, tuple(dict.fromkeys(reason for _, reason in at if reason)))


def _one(call: Call, place: Destination, rules: Sequence[Rule], grants: Sequence[Grant]) -> tuple[Decision, str, str]:
    host = place.host.lower().rstrip(".")
    matching = [rule for rule in rules if rule.matches(call, host)]
    decision, reason = _default(call, place)
    if any(rule.decision == "deny" for rule in matching):
        return "deny", host, "a rule forbids it"
    if matching:
        decision = matching[0].decision
        reason = "a rule wants it asked" if decision == "ask" else ""
    if decision == "ask" and any(grant.covers(call, host) for grant in grants):
        return "allow", host, ""
    return decision, host, reason


def _default(call: Call, place: Destination) -> tuple[Decision, str]:
    if place.private:
        return "ask", "the host is in a private network"
    if not place.named:
        return "ask", "nobody named this address"
    if call.changes:
        return "ask", "it may change something"
    return "allow", ""
