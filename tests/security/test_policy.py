"""The verdict on a call: who speaks, what the tool does, where it sends what, and what was answered before."""

from base64 import b64encode

import pytest
from msgspec.structs import replace

from nanobot.messages import ROLES, Role
from nanobot.security.policy import Access, Decision, Destination, JudgedCall, Policy, Verdict, digest
from nanobot.utils.logs import add_secrets

SEND = JudgedCall("mcp_mail_send", {"to": "ann"}, "changes", role="owner", person="telegram:1", session="s")
READ = JudgedCall("web_fetch", {"url": "https://a.example/x"}, "public", (), "owner", "telegram:1", "s")
MADE_UP = replace(READ, destinations=(Destination("https://a.example/x", named=False),))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("access", "named", "expected"),
    [
        ("public", True, ("allow", "allow", "allow")),
        ("public", False, ("ask", "ask", "ask")),
        ("reads", True, ("deny", "deny", "allow")),
        ("reads", False, ("deny", "deny", "ask")),
        ("changes", True, ("deny", "deny", "ask")),
        ("changes", False, ("deny", "deny", "ask")),
    ],
)
def test_A21_role_access_and_address_decide(role: Role, access: Access, named: bool, expected: tuple[Decision]) -> None:
    call = JudgedCall("tool", {}, access, (Destination("https://a.example/", named),), role)
    assert Policy().judge(call).decision == dict(zip(ROLES, expected, strict=True))[role]


@pytest.mark.parametrize(
    ("call", "choice", "now", "same", "other"),
    [
        (MADE_UP, "once", "allow", "ask", "ask"),
        (MADE_UP, "host", "allow", "allow", "ask"),
        (MADE_UP, "no", "deny", "ask", "ask"),
        (MADE_UP, "never", "deny", "deny", "ask"),
        (SEND, "once", "allow", "ask", "ask"),
        (SEND, "session", "allow", "allow", "ask"),
        (SEND, "never", "deny", "deny", "ask"),
        (SEND, "whatever", "deny", "ask", "ask"),
    ],
)
def test_an_answer_counts_for_the_person_the_session_and_what_was_shown(
    call: JudgedCall, choice: str, now: Decision, same: Decision, other: Decision
) -> None:
    policy = Policy()
    assert policy.answered(call, policy.judge(call), choice).decision == now
    assert policy.judge(replace(call, arguments={"to": "bob"})).decision == same
    elsewhere = (Destination("https://b.example/", named=False),)
    for change in (
        {"person": "telegram:2"},
        {"session": "t"},
        {"tool": "another", "destinations": elsewhere},
    ):
        assert policy.judge(replace(call, **change)).decision == other


def test_a_yes_to_a_host_is_none_to_another_and_lifts_no_denial() -> None:
    policy = Policy()
    policy.answered(MADE_UP, policy.judge(MADE_UP), "host")
    both = (*MADE_UP.destinations, Destination("https://b.example/", named=False))
    assert policy.judge(replace(MADE_UP, destinations=both)).about == ("b.example",)
    policy.answered(SEND, policy.judge(SEND), "session")
    assert policy.judge(replace(SEND, role="guest")).decision == "deny"


def test_A21_a_verdict_is_for_one_call_alone() -> None:
    verdict = Policy().judge(READ)
    assert verdict.covers("web_fetch", {"url": "https://a.example/x"})
    assert not verdict.covers("web_fetch", {"url": "https://a.example/y"})
    assert not verdict.covers("web_search", {"url": "https://a.example/x"})
    assert not Verdict("ask", digest("web_fetch", {})).covers("web_fetch", {})


VALUE = "kx-Zw93/ab+Q7 77"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "said",
    [
        VALUE,
        f"see {VALUE.upper()}!",
        "kx-Zw93%2Fab%2BQ7%2077",
        "kx-Zw93%252Fab%252BQ7%252077",
        "kx-Zw93/ab\n+Q777",
        VALUE.encode().hex(),
        VALUE[::-1],
        *(b64encode(b"x" * before + VALUE.encode() + b"tail").decode() for before in range(4)),
        b64encode(VALUE.encode()).decode().replace("+", "-").replace("/", "_"),
    ],
)
def test_A21_a_known_secret_leaves_in_no_argument_however_it_is_written(said: str, role: Role) -> None:
    add_secrets([VALUE])
    for arguments in (
        {"query": said},
        {"url": f"https://a.example/?q={said}"},
        {"a": [{"b": {"c": f"<{said}>"}}]},
        {said: 1},
    ):
        call = JudgedCall("web_search", arguments, "public", role=role)
        verdict = Policy().judge(call)
        assert verdict.decision == "deny"
        assert VALUE not in " ".join(verdict.reasons)
        assert Policy().answered(call, verdict, "no").decision == "deny"
    half = JudgedCall("web_search", {"query": "kx-Zw93 is half of it"}, "public", role=role)
    assert Policy().judge(half).decision == "allow"


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "kx-Zw93/", "country": "ab+Q7", "limit": 77},
        {"a": {"b": "Kx-zw9"}, "c": ["3/AB+", {"d": "q777"}]},
        {"url": "https://a.example/kx/-Zw9/3ab+/Q777/"},
        {"url": "https://a.example/?p=kx-Zw93&q=/ab%2BQ7&r[0]=77"},
        {"url": "https://a.example/?p=kx-Zw93;q=ab+Q777#x"},
        {"query": "k.x.Z.w.9.3.a.b.Q.7.7.7"},
        {"urls": ["https://a.example", "kx-Zw93", "/ab+Q777"]},
    ],
)
def test_a_known_secret_leaves_in_no_parts(arguments: dict[str, object]) -> None:
    add_secrets([VALUE])
    assert Policy().judge(JudgedCall("web_fetch", arguments, "public", role="owner")).decision == "deny"
    half = {"query": "kx-Zw93", "country": "AB", "limit": 7}
    assert Policy().judge(JudgedCall("web_fetch", half, "public", role="owner")).decision == "allow"
