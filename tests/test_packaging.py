"""What is shipped: the wheel and its metadata, the locked requirements, the few direct dependencies."""

import ast
import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.cli.newcomer import Services, installed, newcomer, three_minutes
from tests.reach import nodes, tree_of

ROOT = Path(__file__).parent.parent
MOST_DEPENDENCIES = 15
#: Of the standard library, from a Python on that is newer than the oldest one supported.
NEWER_STANDARD = {"compression"}
SHIPPED = ("nanobot", "templates", "docs")
LOCKS = ("requirements.lock", "requirements-dev.lock")
#: Imported by the package, and required by a direct dependency whose seams are made of them.
COMES_WITH = {
    "h11": "httpx",  # by httpcore, which is not used itself
    "idna": "httpx",
    "brotli": "httpx",  # httpx[brotli]: its own decoders bound no output
    "backports": "backports-zstd",
    "anyio": "mcp",
    "httpx2": "mcp",
    "jsonschema": "mcp",
    "referencing": "mcp",
    "psycopg-pool": "procrastinate",
}
PINNED = re.compile(r"(?m)^([a-z0-9][a-z0-9.-]*)==(\S+)(?: ; [^\n\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


@dataclass(frozen=True, slots=True)
class Shipment:
    """A wheel built from the checkout, one built from the source archive, and that archive."""

    wheel: Path
    wheel_of_sdist: Path
    sdist: Path


def build(*arguments: str, out: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *arguments, "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def shipment(tmp_path_factory: pytest.TempPathFactory) -> Shipment:
    direct, archive = tmp_path_factory.mktemp("direct"), tmp_path_factory.mktemp("archive")
    build("--wheel", out=direct)
    build(out=archive)
    return Shipment(next(direct.glob("*.whl")), next(archive.glob("*.whl")), next(archive.glob("*.tar.gz")))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def read(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as opened:
        return opened.read(next(name for name in opened.namelist() if name.endswith(ending))).decode()


def metadata(wheel: Path) -> Message:
    return email.message_from_string(read(wheel, ".dist-info/METADATA"))


def project() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["project"]
    assert isinstance(table, dict)
    return table


def bare_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def direct_dependencies() -> list[str]:
    listed = project()["dependencies"]
    assert isinstance(listed, list)
    return [bare_name(item) for item in listed]


def optional_dependencies() -> set[str]:
    """What the extras for people bring; `dev` and `tests` are for those who work on the project."""
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
    return {bare_name(item) for name, items in extras.items() if name not in {"dev", "tests"} for item in items}


def expected_files() -> set[str]:
    """The files of the checkout that belong into a wheel, by the names they have there."""
    found = set()
    for folder in SHIPPED:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                inside = path.relative_to(ROOT).as_posix()
                found.add(inside if folder == "nanobot" else f"nanobot/{inside}")
    return found


def test_the_wheel_holds_exactly_the_package_its_templates_and_its_docs(shipment: Shipment) -> None:
    inside = {name for name in names(shipment.wheel) if ".dist-info/" not in name}
    assert inside == expected_files()
    assert {"nanobot/templates/SOUL.md", "nanobot/docs/quickstart.md", "nanobot/py.typed"} <= inside


def test_the_source_archive_builds_the_same_wheel(shipment: Shipment) -> None:
    assert names(shipment.wheel) == names(shipment.wheel_of_sdist)
    with tarfile.open(shipment.sdist) as opened:
        archived = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {"LICENSE", "README.md", "config.example.json", "tests/test_packaging.py", ".ci/run", *LOCKS}
    assert wanted <= archived, wanted - archived


def test_nothing_in_the_wheel_runs_when_python_starts(shipment: Shipment) -> None:
    assert not [name for name in names(shipment.wheel) if name.endswith((".pth", "sitecustomize.py", ".so"))]


def test_the_wheel_names_the_command_the_licence_and_the_python_it_needs(shipment: Shipment) -> None:
    assert "nanobot = nanobot.__main__:main" in read(shipment.wheel, ".dist-info/entry_points.txt")
    about = metadata(shipment.wheel)
    assert about["Name"] == "nanobot"
    assert about["Version"] == project()["version"]
    assert about["License-Expression"] == "MIT"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Description-Content-Type"] == "text/markdown"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names(shipment.wheel))


def test_an_unpacked_wheel_finds_its_own_templates_and_docs(shipment: Shipment, tmp_path: Path) -> None:
    with zipfile.ZipFile(shipment.wheel) as opened:
        opened.extractall(tmp_path)
    found = found_folders(tmp_path)
    assert found == [tmp_path / "nanobot" / "templates", tmp_path / "nanobot" / "docs"]


def test_an_unpacked_wheel_answers_from_its_own_pages(shipment: Shipment, tmp_path: Path) -> None:
    with zipfile.ZipFile(shipment.wheel) as opened:
        opened.extractall(tmp_path / "site")
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.json").write_text('{"agents": {"defaults": {"provider": "lookup"}}}', encoding="utf-8")
    command = [sys.executable, "-m", "nanobot", "agent", "-m", "How do I use a local model with nanobot?"]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "NANOBOT_HOME": str(home),
        "PYTHONPATH": str(tmp_path / "site"),
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert "docs/quickstart.md#use-a-local-model" in done.stdout
    assert (home / "workspace" / "SOUL.md").read_text(encoding="utf-8") == read(shipment.wheel, "templates/SOUL.md")


async def test_U57_from_pip_install_three_questions_lead_to_an_answer_on_telegram(
    shipment: Shipment, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [*installed(shipment.wheel, tmp_path), "onboard"]
    async with Services() as services:
        with newcomer([*command, *services.options], services.env(home)) as terminal:
            assert await three_minutes(terminal, services.telegram.user("Ada")) == 3
            terminal.press("\x03")
            assert await terminal.wait() == 0
    assert (home / ".nanobot" / "workspace" / "SOUL.md").exists()


def test_a_checkout_finds_its_own_templates_and_docs(tmp_path: Path) -> None:
    assert found_folders(ROOT) == [ROOT / "templates", ROOT / "docs"]


def found_folders(importable: Path) -> list[Path]:
    """The folders of templates and of docs that the package finds when it is imported from `importable`."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from nanobot.utils.host import shipped; print(shipped('templates')); print(shipped('docs'))"
    )
    command = [sys.executable, "-c", code, str(importable)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=importable.anchor)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


def test_there_are_few_direct_dependencies_and_each_one_is_explained() -> None:
    dependencies = direct_dependencies()
    assert len(dependencies) <= MOST_DEPENDENCIES
    explained = re.findall(r"(?m)^\| `([^`]+)` \| \S", (ROOT / "docs" / "why.md").read_text(encoding="utf-8"))
    assert sorted(map(bare_name, explained)) == sorted(dependencies)
    assert f" {len(dependencies)} dependencies" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_wheel_declares_the_dependencies_of_the_project(shipment: Shipment) -> None:
    required = metadata(shipment.wheel).get_all("Requires-Dist", [])
    assert {bare_name(item) for item in required if "extra ==" not in item} == set(direct_dependencies())


def test_the_package_imports_only_what_it_declares() -> None:
    owners = packages_distributions()
    for path in (ROOT / "nanobot").rglob("*.py"):
        for node in nodes(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for top in (
                {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"nanobot", *NEWER_STANDARD}
            ):
                owner = {bare_name(name) for name in owners.get(top, [top])}
                owner = {COMES_WITH.get(name, name) for name in owner}
                named = {*direct_dependencies(), *optional_dependencies()}
                assert owner & named, f"{path} imports {top}, which pyproject.toml does not name"


@pytest.mark.parametrize("name", LOCKS)
def test_the_locked_requirements_are_pinned_hashed_and_name_no_address(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    body = re.sub(r"(?m)^#.*\n", "", text)
    assert not re.search(r"://|(?m:^-)|@", body), "an address or an option stands in the file"
    assert PINNED.sub("", body) == "", "every requirement is name==version with its hashes"
    locked = {match[1] for match in PINNED.finditer(body)}
    assert set(direct_dependencies()) <= locked


def test_both_lock_files_pin_the_same_versions() -> None:
    default, dev = (
        {match[1]: match[2] for match in PINNED.finditer((ROOT / name).read_text(encoding="utf-8"))} for name in LOCKS
    )
    assert default.items() <= dev.items()
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
    assert {bare_name(item) for item in (*extras["dev"], *extras["tests"])} - {"nanobot"} <= dev.keys()
