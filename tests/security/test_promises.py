"""What docs/security.md promises about turns and calls, each statement bound to the test that breaks with it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROLES, POLICY, WRAPPING = "agent/test_roles.py", "security/test_policy.py", "agent/test_wrapping.py"
#: The beginning of a statement → the file and the name of its test.
PROMISES: dict[str, tuple[str, str]] = {
    "Tools of MCP servers that are not": (ROLES, "test_the_owner_is_asked_for_what_may_change_something"),
    "An address that no person": (ROLES, "test_a_made_up_address_is_asked_for_by_its_host"),
    "Where no owner can be asked": (ROLES, "test_a_tool_runs_for_whom_it_is_and_nobody_is_asked"),
    "A call whose arguments hold": (POLICY, "test_A21_a_known_secret_leaves_in_no_argument"),
    "Whatever a server chose": (WRAPPING, "test_nothing_that_a_web_server_says"),
    "`USER.md` and": (ROLES, "test_what_belongs_to_the_owner_is_in_no_prompt"),
    "Guests have search": (ROLES, "test_a_tool_runs_for_whom_it_is_and_nobody_is_asked"),
    "Nobody speaks in the turn": (ROLES, "test_nobody_speaks_in_the_turn_of_somebody_else"),
    "In a group, a turn sees": (ROLES, "test_a_guest_sees_of_the_owners_turn_in_a_group"),
    "What guests said stands": (ROLES, "test_what_a_guest_said_stands_in_the_owners_turn"),
    "What the owner granted": (POLICY, "test_an_answer_counts_for_the_person_the_session"),
    "Everything is under the home": ("cli/test_web_process.py", "test_everything_in_the_home_is_its_owners_alone"),
}
_SECTIONS = ("## What content from outside can do", "## Who speaks")


def test_every_bullet_about_turns_and_calls_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    for beginning, (file, name) in PROMISES.items():
        assert page.count(beginning) == 1, beginning
        assert f"def {name}" in (ROOT / "tests" / file).read_text(encoding="utf-8"), name
    for section in _SECTIONS:
        bullets = re.findall(r"(?m)^- (.+)$", page.split(section, 1)[1].split("\n## ", 1)[0])
        assert bullets
        unbound = [bullet for bullet in bullets if not bullet.startswith(tuple(PROMISES))]
        assert unbound == []
