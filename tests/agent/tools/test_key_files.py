"""Files that usually hold keys: free in a clean conversation, asked for and hidden beside content from outside."""

import sys
from pathlib import Path

import pytest

from nanobot.security.paths import Root, Roots, holds_keys
from nanobot.security.sandbox import SandboxName
from tests.agent.tools.commands import commands_in
from tests.agent.tools.files import files_in

TAINT = ("page example.org",)
NAMES = (".env", "sub/server.pem", "keys/id_rsa", ".netrc", ".aws/credentials", "my.KDBX", ".env.local")
PLAIN = ("notes.md", ".env.example", "id_rsa.pub", "environment.md", ".aws/config", "keys.md", "cacert.pem")


def furnished(folder: Path) -> None:
    for name in (*NAMES, *PLAIN, "node_modules/x/test.pem"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"canary of {name}\n")


def test_what_usually_holds_keys_is_known_by_its_name_alone(tmp_path: Path) -> None:
    assert [name for name in (*NAMES, *PLAIN) if holds_keys(Path(name).parts)] == list(NAMES)
    furnished(tmp_path)
    found = Roots((Root(tmp_path),)).key_files()
    assert {str(one.relative_to(tmp_path.resolve())) for one in found} == set(NAMES), "not those of others' code"


@pytest.mark.parametrize("name", NAMES)
async def test_U4_such_a_file_is_read_free_and_beside_content_from_outside_only_after_a_question(
    tmp_path: Path, name: str
) -> None:
    with files_in(tmp_path) as files:
        furnished(files.workspace)
        (files.workspace / "link").symlink_to(name)
        calls: list[tuple[str, dict[str, object]]] = [
            ("read_file", {"path": name}),
            ("read_file", {"path": "link"}),
            ("grep", {"pattern": "canary", "path": name}),
            ("edit_file", {"path": name, "edits": [{"old": f"canary of {name}!", "new": "x"}]}),
        ]
        for tool, arguments in calls:
            clean = await files.judged(tool, arguments)
            assert f"canary of {name}" in clean.text, (tool, clean.text)
            asked = await files.judged(tool, arguments, taint=TAINT)
            assert (asked.error, "canary" in asked.text) == ("denied", False), (tool, asked.text)
            assert "it usually holds keys or passwords" in asked.text
        assert (await files.judged("read_file", {"path": "notes.md"}, taint=TAINT)).success


async def test_grep_prints_no_line_of_them_beside_content_from_outside_and_names_them(tmp_path: Path) -> None:
    with files_in(tmp_path) as files:
        furnished(files.workspace)
        clean = await files.call("grep", pattern="canary")
        assert all(f"canary of {name}" in clean.text for name in NAMES)
        for pattern in ("canary", "no such line"):
            found = await files.judged("grep", {"pattern": pattern}, taint=TAINT)
            assert not any(f"canary of {name}\n" in found.text for name in NAMES)
            assert all(name in found.text.partition("[Not searched")[2] for name in NAMES), (
                "whether it would match or not"
            )
        named = await files.judged("glob", {"pattern": ".env*"}, taint=TAINT)
        assert named.text.splitlines()[1:] == [".env", ".env.example", ".env.local"]


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TRIED: commands run on Linux only")
@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_a_command_in_a_sandbox_cannot_read_them_beside_content_from_outside(
    tmp_path: Path, name: SandboxName
) -> None:
    async with commands_in(tmp_path, name) as made:
        furnished(made.workspace)
        line = "cat " + " ".join((*NAMES, *PLAIN))
        clean = await made.call(command=line)
        assert {f"canary of {one}" for one in (*NAMES, *PLAIN)} <= {*clean.text.splitlines()}
        tainted = await made.call(context=made.context(taint=TAINT), command=line)
        shown = [one for one in (*NAMES, *PLAIN) if f"canary of {one}" in tainted.text.splitlines()]
        assert shown == list(PLAIN), tainted.text
        assert "Hidden from it" in tainted.text
        again = await made.call(command=line)
        assert again.text.splitlines()[1:] == clean.text.splitlines()[1:], "they are as they were"
