"""Where files are, what the first start makes, and what is generated from the schema."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nanobot.config import generate
from nanobot.config.paths import SEEDS, Paths, judge_home, prepare_home
from nanobot.errors import ConfigError
from nanobot.utils.host import shipped
from tests.fakes.disk import without_room

ROOT = Path(__file__).parent.parent.parent


def test_N05_everything_is_in_the_home_of_the_user() -> None:
    paths = Paths.resolve({"HOME": "/home/ada"})
    assert paths.home == Path("/home/ada/.nanobot")
    assert paths.config == paths.home / "config.json"
    assert paths.workspace == paths.home / "workspace"
    assert not paths.config_named


def test_N05_the_environment_moves_the_home_and_the_file() -> None:
    env = {"HOME": "/home/ada", "NANOBOT_HOME": "~/bot", "NANOBOT_CONFIG": "/etc/nanobot.json"}
    paths = Paths.resolve(env)
    assert (paths.home, paths.config) == (Path("/home/ada/bot"), Path("/etc/nanobot.json"))
    assert paths.database.parent == paths.logs.parent == paths.home
    assert paths.config_named


def test_N05_arguments_win_over_the_environment() -> None:
    env = {"HOME": "/home/ada", "NANOBOT_CONFIG": "/etc/nanobot.json"}
    paths = Paths.resolve(env, "~/mine.json", "/srv/work")
    assert (paths.config, paths.workspace) == (Path("/home/ada/mine.json"), Path("/srv/work"))


def test_the_usual_workspace_follows_the_home() -> None:
    env = {"HOME": "/home/ada", "NANOBOT_HOME": "/srv/bot"}
    assert Paths.resolve(env, workspace="~/.nanobot/workspace").workspace == Path("/srv/bot/workspace")
    assert Paths.resolve(env, workspace="~/notes").workspace == Path("/home/ada/notes")


def test_looking_at_the_configuration_costs_no_event_loop() -> None:
    code = "import sys, nanobot.config.paths, nanobot.cli.care.config; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120, check=False).returncode == 0


def test_the_first_start_makes_a_private_home_and_a_filled_workspace(tmp_path: Path) -> None:
    paths = Paths.resolve({"HOME": str(tmp_path)})
    created = prepare_home(paths)
    assert {str(path.relative_to(paths.workspace)) for path in created} == set(SEEDS)
    assert stat.S_IMODE(paths.home.stat().st_mode) == 0o700
    assert (paths.workspace / "SOUL.md").read_text(encoding="utf-8").startswith("# Soul")
    assert prepare_home(paths) == ()


def test_an_edited_or_emptied_file_is_never_overwritten(tmp_path: Path) -> None:
    paths = Paths.resolve({"HOME": str(tmp_path)})
    paths.workspace.mkdir(parents=True)
    (paths.workspace / "SOUL.md").write_text("I am a pirate.", encoding="utf-8")
    (paths.workspace / "USER.md").write_text("", encoding="utf-8")
    assert len(prepare_home(paths)) == len(SEEDS) - 2
    assert (paths.workspace / "SOUL.md").read_text(encoding="utf-8") == "I am a pirate."
    assert (paths.workspace / "USER.md").read_text(encoding="utf-8") == ""


def test_a_first_start_on_a_full_disk_leaves_no_file_that_is_taken_for_an_edited_one(tmp_path: Path) -> None:
    paths = Paths.resolve({"HOME": str(tmp_path)})
    with without_room(100), pytest.raises(ConfigError, match="File too large"):
        prepare_home(paths)
    prepare_home(paths)
    source = shipped("templates")
    assert [one for one in SEEDS if (paths.workspace / one).read_bytes() != (source / one).read_bytes()] == []


def test_a_home_that_others_may_read_is_closed_with_all_that_an_older_version_left_in_it(tmp_path: Path) -> None:
    paths, elsewhere = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "open")}), tmp_path / "elsewhere"
    (paths.cache / "old").mkdir(parents=True)
    files = [paths.database, paths.cache / "old" / "mcp_tools.json", elsewhere, paths.config]
    for file in files:
        file.touch()
        file.chmod(0o644)
    for folder in (paths.home, paths.cache, paths.cache / "old"):
        folder.chmod(0o755)
    (paths.home / "link").symlink_to(elsewhere)
    paths.prepare()
    folders = (paths.home, paths.cache, paths.cache / "old", paths.media)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600, 0o644, 0o644]


def test_what_lies_in_a_closed_folder_of_the_home_keeps_its_rights_and_costs_no_start_anything(tmp_path: Path) -> None:
    paths = Paths.resolve({"HOME": str(tmp_path)})
    prepare_home(paths)
    script = paths.workspace / "tools" / "run.sh"
    script.parent.mkdir()
    script.touch()
    script.chmod(0o755)
    paths.prepare()
    assert stat.S_IMODE(paths.workspace.stat().st_mode) == 0o700
    assert stat.S_IMODE(script.stat().st_mode) == 0o755


def test_a_home_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="NANOBOT_HOME"):
        prepare_home(Paths.resolve({"NANOBOT_HOME": str(tmp_path / "file" / "home")}))


@pytest.mark.parametrize("workspace", ["/proc/work", "/proc"])
def test_a_workspace_where_no_file_can_stand_is_refused_before_the_start(tmp_path: Path, workspace: str) -> None:
    with pytest.raises(ConfigError, match="cannot be made"):
        judge_home(Paths.resolve({"HOME": str(tmp_path)}, workspace=workspace))
    assert not any(tmp_path.iterdir())


def test_a_file_in_the_place_of_a_folder_of_the_home_is_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(ConfigError, match="logs is no folder"):
        judge_home(Paths.resolve({"NANOBOT_HOME": str(tmp_path)}))


def test_the_templates_are_found_in_a_checkout_and_inside_an_installed_package(tmp_path: Path) -> None:
    assert shipped("templates") == ROOT / "templates"
    shutil.copytree(ROOT / "nanobot", tmp_path / "nanobot", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "templates", tmp_path / "nanobot" / "templates")
    code = "from nanobot.utils.host import shipped; print(shipped('templates'))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, timeout=120, check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == (tmp_path / "nanobot" / "templates").resolve()


def test_a_stale_table_is_made_anew_and_the_text_around_it_stays(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "configuration.md"
    page.write_text(f"before\n{generate.BEGIN}\nold\n{generate.END}\nafter\n", encoding="utf-8")
    generate.write(tmp_path)
    made = page.read_text(encoding="utf-8")
    assert (made.startswith("before\n"), made.endswith("\nafter\n"), "\nold\n" in made) == (True, True, False)
    assert (tmp_path / "config.example.json").read_text(encoding="utf-8") == generate.example()


def test_the_schema_for_editors_allows_variables_and_null_everywhere() -> None:
    schema = json.dumps(generate.editor_schema())
    group = json.loads(schema)["$defs"]["WebSearchConfig"]["properties"]
    assert {"type": "null"} in group["maxResults"]["anyOf"]
    assert {"maximum": 20, "minimum": 1, "type": "integer"} in group["maxResults"]["anyOf"]
    assert any("pattern" in option for option in group["maxResults"]["anyOf"])
    assert group["maxResults"]["description"]
    assert "brave" in schema
    assert json.loads(schema)["properties"]


@pytest.mark.parametrize("name", ["NANOBOT_HOME", "NANOBOT_CONFIG", "HOME"])
@pytest.mark.parametrize("command", [("config", "check"), ("-m", "hello"), ("backup",)])
def test_a_place_whose_name_is_no_utf_8_gets_one_sentence(tmp_path: Path, name: str, command: tuple[str, ...]) -> None:
    place = os.fsencode(tmp_path) + b"/caf\xe9"
    env = {b"PATH": os.environb.get(b"PATH", b""), b"HOME": os.fsencode(tmp_path), name.encode(): place}
    done = subprocess.run(
        [sys.executable, "-m", "nanobot", *command], env=env, capture_output=True, timeout=60, check=False
    )
    said = done.stderr.decode()
    assert (done.returncode, done.stdout, said.count("\n")) == (2, b"", 1), said
    assert f"{tmp_path}/caf\\xe9" in said
    assert "is no UTF-8, so nanobot cannot use it" in said
    assert not os.path.lexists(place)
