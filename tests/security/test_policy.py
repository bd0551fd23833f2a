"""The verdict on a call: who speaks, what the tool does, where it sends what, and what was answered before."""

from base64 import b64encode
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.messages import ROLES, Role
from nanobot.security.policy import (
    KINDS,
    OWN,
    PERSONAL,
    Decision,
    Effect,
    EffectKind,
    JudgedCall,
    Policy,
    Preset,
    Rule,
    Verdict,
    answered,
    digest,
)
from nanobot.utils.logs import add_secrets
from tests.tables import table

SEND = JudgedCall("mcp_mail_send", {"to": "ann"}, (Effect("change", "mcp_mail_send"),), "owner", "telegram:1")
READ = JudgedCall(
    "web_fetch",
    {"url": "https://a.example/x"},
    (Effect("lookup", "https://a.example/x"),),
    "owner",
    "telegram:1",
    public=True,
)
TAINT = ("page example.org",)


@pytest.mark.parametrize("tainted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_A21_what_it_does_who_speaks_and_what_was_read_decide(kind: EffectKind, tainted: bool) -> None:
    row, taint = KINDS[kind], TAINT if tainted else ()
    call = JudgedCall("tool", {}, (Effect(kind, "x"),), "owner", taint=taint, public=row.guests)
    assert Policy().judge(call).decision == (row.tainted if tainted else row.clean)
    guest = Policy().judge(replace(call, role="guest")).decision
    assert guest == ((row.tainted if tainted else row.clean) if row.guests else "deny")
    user = Policy().judge(replace(call, role="user")).decision
    granted = Policy().judge(replace(call, role="user", granted=frozenset({row.grant}))).decision
    assert granted == (row.tainted if tainted else row.clean)
    assert user == ("deny" if row.grant and row.grant != OWN else granted)
    group = Policy().judge(replace(call, direct=False)).decision
    assert group == ("deny" if row.grant in PERSONAL or row.clean == "deny" else row.tainted if tainted else row.clean)


def test_the_table_of_the_page_about_security_is_that_of_the_judge() -> None:
    """Columns: what it would do; in `normal`; with content from outside; in `careful`; in `free`; who else may."""
    said: dict[Decision, str] = {"allow": "runs", "ask": "asks you", "deny": "never"}
    rows = ["| what a call would do | `normal` | with content from outside | `careful` | `free` | what a user needs |"]
    rows.append("|---|---|---|---|---|---|")
    for row in KINDS.values():
        decisions = (row.clean, row.tainted, row.careful or row.clean, row.free or row.clean)
        free = {"": "nothing", OWN: "nothing; their own chat alone"}
        needs = "nothing; guests too" if row.guests else free.get(row.grant, f"`{row.grant}`")
        cells = (row.means, *(said[one] for one in decisions), "-" if row.clean == "deny" else needs)
        rows.append(f"| {' | '.join(cells)} |")
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page, "\n".join(rows)


def test_what_holds_content_from_outside_is_asked_in_every_preset_and_the_forbidden_never_allowed() -> None:
    risky: tuple[EffectKind, ...] = ("address", "control", "memory", "appointment", "run_open", "send_other", "change")
    presets: tuple[Preset, ...] = ("careful", "normal", "free")
    for preset in presets:
        for kind in risky:
            call = JudgedCall("tool", {}, (Effect(kind, "x"),), "owner", taint=TAINT, public=kind == "address")
            assert Policy(preset).judge(call).decision == "ask"
        never = JudgedCall("read_file", {}, (Effect("forbidden", "/x", reason="it holds keys"),), "owner")
        assert Policy(preset, [Rule("allow")]).judge(never).reasons == ("it holds keys",)
    run = JudgedCall("exec", {}, (Effect("run_open", "ls"),), "owner")
    assert [Policy(preset).judge(run).decision for preset in presets] == ["ask", "ask", "allow"]
    write = JudgedCall("write_file", {}, (Effect("write", "a.md"),), "owner")
    for taint in ((), TAINT):
        decided = [Policy(preset).judge(replace(write, taint=taint)).decision for preset in presets]
        assert decided == ["ask", "allow", "allow"]


def test_rules_of_the_owner_come_first_a_denial_wins_and_a_yes_counts_under_taint_only_where_it_says_so() -> None:
    rules = [
        Rule("allow", "exec", "git *"),
        Rule("allow", "exec", "make test", tainted=True),
        Rule("deny", "*", "*push*"),
    ]
    policy = Policy("normal", rules)

    def decided(line: str, taint: tuple[str, ...] = ()) -> Decision:
        return policy.judge(JudgedCall("exec", {}, (Effect("run_open", line),), "owner", taint=taint)).decision

    assert [decided(line) for line in ("git log", "make test", "git push", "curl x")] == [
        "allow",
        "allow",
        "deny",
        "ask",
    ]
    assert [decided(line, TAINT) for line in ("git log", "make test", "git push")] == ["ask", "allow", "deny"]


@table(
    "match kind target met",
    ("git *", "run_open", "git log", True),
    ("git *", "run_open", "git log; curl https://evil.test", False),
    ("git *", "run_open", "git log $(curl evil.test)", False),
    ("git *", "run", "git log\nrm -rf x", False),
    ("make a; make b", "run_open", "make a; make b", True),
    ("*.example.org", "address", "https://www.example.org/x?d=1", True),
    ("*.example.org", "address", "https://evil.test/www.example.org", False),
    ("example.org", "address", "https://example.org@evil.test/", False),
    ("https://*.example.org/a*", "address", "https://www.example.org/abc", True),
    ("https://*.example.org/*", "address", "https://evil.test/.example.org/", False),
    ("https://*.example.org/*", "address", "https://evil.test?.example.org/", False),
    ("https://example.org/*", "address", "http://example.org/", False),
    ("*/notes/*", "control", "/home/ann/notes/AGENTS.md", True),
)
def test_a_rule_that_allows_is_never_wider_than_its_words(match: str, kind: EffectKind, target: str, met: bool) -> None:
    policy = Policy("careful", [Rule("allow", "*", match, tainted=True)])
    call = JudgedCall("tool", {}, (Effect(kind, target),), "owner", taint=TAINT, public=kind == "address")
    assert (policy.judge(call).decision == "allow") == met
    assert (Policy("careful", policy.rules).judge(replace(call, taint=())).decision == "allow") == met


def test_a_rule_that_denies_finds_its_words_in_any_line_and_its_host_under_any_path() -> None:
    policy = Policy("free", [Rule("deny", "*", "*curl *"), Rule("deny", "web_*", "*.evil.test")])
    line = JudgedCall("exec", {}, (Effect("run", "true; curl x"),), "owner")
    page = JudgedCall("web_fetch", {}, (Effect("lookup", "https://a.evil.test:81/x?y"),), "owner", public=True)
    assert (policy.judge(line).decision, policy.judge(page).decision) == ("deny", "deny")


def test_what_nobody_can_be_asked_is_refused_with_the_rule_that_would_allow_it_and_an_earlier_yes_is_none() -> None:
    policy = Policy()
    line = replace(SEND, tool="exec", effects=(Effect("run_open", "make deploy"),), taint=TAINT)
    line = replace(line, permitted=frozenset({line.effects[0].lasting("exec")}))
    assert policy.judge(line).decision == "allow"
    verdict = policy.judge(replace(line, scheduled=True))
    assert verdict.decision == "deny"
    rule = '{"tool": "exec", "match": "make deploy", "decision": "allow", "tainted": true}'
    assert verdict.reasons[-1].endswith(f"would allow it: {rule}")
    allowed = Policy("normal", [Rule("allow", "exec", "make deploy", tainted=True)])
    assert allowed.judge(replace(line, scheduled=True)).decision == "allow"
    user = replace(line, role="user", granted=frozenset({"exec"}), scheduled=True)
    assert "tools.policy" not in " ".join(Policy().judge(user).reasons)


def test_a_call_with_several_effects_is_judged_by_the_worst_and_asks_about_the_open_ones_alone() -> None:
    effects = (Effect("write", "a.md"), Effect("control", "AGENTS.md"))
    call = JudgedCall("edit_file", {}, effects, "owner", taint=TAINT)
    assert Policy().judge(call).open == effects[1:]
    assert Policy().judge(replace(call, effects=(*effects, Effect("forbidden", "/etc/shadow")))).decision == "deny"


def test_a_tool_that_says_nothing_of_what_it_does_is_not_run() -> None:
    assert Policy().judge(JudgedCall("odd", {}, (), "owner")).decision == "deny"
    assert Policy().judge(JudgedCall("web_search", {}, (), "guest", public=True)).decision == "allow"


@table(
    "effect same other",
    (Effect("address", "https://a.example/x"), "https://a.example/y?z=1", "https://b.a.example/x"),
    (Effect("control", "/w/AGENTS.md", "-old\n+new"), "/w/AGENTS.md", "/w/SOUL.md"),
    (Effect("run_open", "make deploy", "in /w"), "make deploy", "make deploy all"),
    (Effect("send_other", "-55"), "-55", "-56"),
)
def test_a_lasting_yes_is_for_what_was_shown_and_for_the_owner_alone(effect: Effect, same: str, other: str) -> None:
    call = JudgedCall("tool", {}, (effect,), "owner", taint=TAINT, granted=frozenset({"files", "exec", "messages"}))
    permitted = frozenset({effect.lasting("tool")})
    again, another = (replace(effect, target=target) for target in (same, other))

    def decision(effect: Effect, role: Role = "owner") -> Decision:
        return Policy().judge(replace(call, role=role, effects=(effect,), permitted=permitted)).decision

    assert (decision(again), decision(another), decision(replace(again, kind="change"))) == ("allow", "ask", "ask")
    assert decision(again, "user") == "ask", "who has lost the rights of an owner is asked about anew"
    assert decision(again, "guest") == "deny"


def test_a_lasting_yes_to_a_command_is_none_to_it_elsewhere_and_one_to_a_server_is_for_one_tool() -> None:
    line = Effect("run_open", "make", "in /a")
    assert line.lasting("exec") != replace(line, shown="in /b").lasting("exec")
    send = Effect("change", "mcp_mail_send", '{"to": "ann"}')
    assert send.lasting("mcp_mail_send") == replace(send, shown='{"to": "bob"}').lasting("mcp_mail_send")
    assert send.lasting("mcp_mail_send") != send.lasting("mcp_mail_delete")


def test_an_answer_is_for_what_was_asked_and_lifts_no_denial() -> None:
    asked = Policy().judge(SEND)
    assert (asked.decision, answered(asked, yes=True).decision) == ("ask", "allow")
    assert answered(asked, yes=False, reason="not now").reasons == ("the owner said no: not now",)
    permitted = frozenset({asked.open[0].lasting(SEND.tool)})
    denied = Policy(rules=[Rule("deny", "mcp_*")]).judge(replace(SEND, permitted=permitted))
    assert (denied.decision, answered(denied, yes=True).decision) == ("deny", "deny")


def test_A21_a_verdict_is_for_one_call_alone() -> None:
    verdict = Policy().judge(READ)
    assert verdict.covers("web_fetch", {"url": "https://a.example/x"})
    assert not verdict.covers("web_fetch", {"url": "https://a.example/y"})
    assert not verdict.covers("web_search", {"url": "https://a.example/x"})
    assert not Verdict("ask", digest("web_fetch", {})).covers("web_fetch", {})


VALUE = "kx-Zw93/ab+Q7 77"


@pytest.mark.parametrize("role", ROLES)
@table(
    "said",
    VALUE,
    f"see {VALUE.upper()}!",
    "kx-Zw93%2Fab%2BQ7%2077",
    "kx-Zw93%252Fab%252BQ7%252077",
    "kx-Zw93/ab\n+Q777",
    VALUE.encode().hex(),
    VALUE[::-1],
    *(b64encode(b"x" * before + VALUE.encode() + b"tail").decode() for before in range(4)),
    b64encode(VALUE.encode()).decode().replace("+", "-").replace("/", "_"),
)
def test_A21_a_known_secret_leaves_in_no_argument_however_it_is_written(said: str, role: Role) -> None:
    add_secrets([VALUE])
    for arguments in (
        {"query": said},
        {"url": f"https://a.example/?q={said}"},
        {"a": [{"b": {"c": f"<{said}>"}}]},
        {said: 1},
    ):
        call = JudgedCall("web_search", arguments, (), role, public=True)
        verdict = Policy().judge(call)
        assert verdict.decision == "deny"
        assert VALUE not in " ".join(verdict.reasons)
        assert answered(verdict, yes=True).decision == "deny"
    half = JudgedCall("web_search", {"query": "kx-Zw93 is half of it"}, (), role, public=True)
    assert Policy().judge(half).decision == "allow"


@table(
    "arguments",
    {"query": "kx-Zw93/", "country": "ab+Q7", "limit": 77},
    {"a": {"b": "Kx-zw9"}, "c": ["3/AB+", {"d": "q777"}]},
    {"url": "https://a.example/kx/-Zw9/3ab+/Q777/"},
    {"url": "https://a.example/?p=kx-Zw93&q=/ab%2BQ7&r[0]=77"},
    {"url": "https://a.example/?p=kx-Zw93;q=ab+Q777#x"},
    {"query": "k.x.Z.w.9.3.a.b.Q.7.7.7"},
    {"urls": ["https://a.example", "kx-Zw93", "/ab+Q777"]},
)
def test_a_known_secret_leaves_in_no_parts(arguments: dict[str, object]) -> None:
    add_secrets([VALUE])
    assert Policy().judge(JudgedCall("web_fetch", arguments, (), "owner", public=True)).decision == "deny"
    half = {"query": "kx-Zw93", "country": "AB", "limit": 7}
    assert Policy().judge(JudgedCall("web_fetch", half, (), "owner", public=True)).decision == "allow"
