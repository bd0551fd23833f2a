"""The matrix of allow, ask and deny."""

import itertools

import pytest

from nanobot.security.policy import Call, Decision, Destination, Grant, Rule, judge

PUBLIC = Destination("a.example")
PRIVATE = Destination("192.168.1.2", private=True)
MADE_UP = Destination("evil.example", named=False)


@pytest.mark.parametrize(
    ("call", "decision", "reason"),
    [
        (Call("web_search", {"query": "x"}), "allow", ()),
        (Call("web_fetch", {}, (PUBLIC,)), "allow", ()),
        (Call("web_fetch", {}, (PRIVATE,)), "ask", ("the host is in a private network",)),
        (Call("web_fetch", {}, (MADE_UP,)), "ask", ("nobody named this address",)),
        (Call("mcp_x_post", {}, (PUBLIC,), changes=True), "ask", ("it may change something",)),
        (Call("exec", {"command": "ls"}, changes=True), "ask", ("it may change something",)),
    ],
)
def test_C16_what_holds_without_rules(call: Call, decision: Decision, reason: tuple[str, ...]) -> None:
    verdict = judge(call)
    assert (verdict.decision, verdict.reasons) == (decision, reason)


RULES = {
    "tool": Rule("allow", tool="web_fetch"),
    "host": Rule("allow", host="*.example"),
    "argument": Rule("allow", arguments={"url": "https://a.*"}),
}
CALL = Call("web_fetch", {"url": "https://a.example/"}, (Destination("A.example.", private=True),))
OTHERS = {
    "tool": Call("web_search", CALL.arguments, CALL.destinations),
    "host": Call("web_fetch", CALL.arguments, (PRIVATE,)),
    "argument": Call("web_fetch", {"url": "https://b.example/"}, CALL.destinations),
}


@pytest.mark.parametrize(("by", "decision"), list(itertools.product(RULES, ("allow", "ask", "deny"))))
def test_A21_a_rule_decides_per_tool_host_and_argument_and_for_nothing_else(by: str, decision: Decision) -> None:
    old = RULES[by]
    rule = Rule(decision, old.tool, old.host, old.arguments)
    assert judge(CALL, [rule]).decision == decision
    assert judge(OTHERS[by], [rule]).decision == "ask"


@pytest.mark.parametrize("order", list(itertools.permutations(("allow", "ask", "deny"))))
def test_A21_a_denial_wins_in_any_order(order: tuple[Decision, ...]) -> None:
    verdict = judge(CALL, [Rule(decision) for decision in order], [Grant("web_fetch")])
    assert (verdict.decision, verdict.reasons) == ("deny", ("a rule forbids it",))


def test_A21_of_allow_and_ask_the_first_that_matches_decides() -> None:
    assert judge(CALL, [Rule("allow", host="a.*"), Rule("ask")]).decision == "allow"
    assert judge(CALL, [Rule("ask", host="a.*"), Rule("allow")]).decision == "ask"


def test_A21_an_argument_that_is_not_there_matches_nothing() -> None:
    assert judge(Call("web_fetch", {}, (PUBLIC,)), [Rule("deny", arguments={"url": "*"})]).decision == "allow"


def test_A21_several_hosts_are_as_free_as_the_strictest_and_only_those_are_named() -> None:
    call = Call("web_fetch", {}, (PUBLIC, PRIVATE, MADE_UP))
    verdict = judge(call)
    assert (verdict.decision, verdict.hosts) == ("ask", ("192.168.1.2", "evil.example"))
    assert judge(call, [Rule("deny", host="evil.*")]).hosts == ("evil.example",)


def test_A21_always_for_a_host_leaves_every_other_host_and_tool_asked() -> None:
    grants = [Grant("web_fetch", "192.168.1.2")]
    assert judge(Call("web_fetch", {}, (PRIVATE,)), grants=grants).decision == "allow"
    assert judge(Call("web_fetch", {}, (Destination("192.168.1.3", private=True),)), grants=grants).decision == "ask"
    assert judge(Call("web_fetch", {}, (PRIVATE, MADE_UP)), grants=grants).decision == "ask"
    assert judge(Call("edit_file", {"path": "x"}, changes=True), grants=[*grants, Grant("web_fetch")]).decision == "ask"
