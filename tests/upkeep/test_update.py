"""`nanobot update` in an environment of its own: from a checkout with a newer upstream, and back from a broken one."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from nanobot import __version__
from nanobot.errors import UsageError
from nanobot.upkeep.environments import MARK, Environment, making, sweep
from nanobot.upkeep.update import switch, switch_back
from tests.channels.telegram.gateway import furnished
from tests.cli.harness import Program, Ran, program
from tests.fakes.crash import strace
from tests.fakes.llm_server import Reply
from tests.fakes.postgres import TestServer

ROOT = Path(__file__).parents[2]
GIT = shutil.which("git")
SOURCES = "nanobot templates docs pyproject.toml README.md LICENSE config.example.json .gitignore".split()
#: A `venv` for those of many updates that need not try the whole one. Nearly all its work is to unpack a pip, and the
#: first environment here has none of its own either.
WITHOUT_PIP = """
import runpy, sys
sys.path.remove(__file__.rpartition("/")[0])
sys.argv.insert(1, "--without-pip")
runpy.run_module("venv", run_name="__main__")
"""
pytestmark = [
    pytest.mark.skipif(GIT is None, reason="git is not installed: no update was tried"),
    pytest.mark.timeout(600),
]


def done(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout.strip()


@dataclass(slots=True)
class Installation:
    """nanobot as the README installs it: an upstream, a checkout of it, and an environment made from that."""

    place: Path
    home: Program

    @property
    def env(self) -> dict[str, str]:
        # What nanobot needs comes from the environment of the tests: no package index is asked.
        found = {**self.home.env, "PYTHONPATH": str(self.place / "needed"), "PYTHONWARNINGS": "default"}
        found |= {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
        found["PIP_NO_COMPILE"] = "0"  # what is imported is compiled then, and most of a version never is
        return found | {"GIT_CONFIG_GLOBAL": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def quick(self, env: dict[str, str]) -> dict[str, str]:
        """These variables, and that `venv`."""
        (self.place / "quick").mkdir(exist_ok=True)
        (self.place / "quick" / "venv.py").write_text(WITHOUT_PIP, encoding="utf-8")
        return env | {"PYTHONPATH": f"{self.place / 'quick'}:{self.env['PYTHONPATH']}"}

    def make(self) -> None:
        needed, upstream = self.place / "needed", self.place / "upstream"
        needed.mkdir()
        for one in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if "nanobot" not in one.name and one.suffix != ".pth":
                (needed / one.name).symlink_to(one)
        upstream.mkdir()
        for name in SOURCES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, upstream / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, upstream / name)
        done("git", "init", "-q", "-b", "main", cwd=upstream)
        self.commit("the first one")
        done("git", "clone", "-q", str(upstream), str(self.place / "checkout"))
        done(sys.executable, "-m", "venv", "--without-pip", str(self.place / "checkout" / ".venv"))  # it is in `needed`
        done(self.python, "-m", "pip", "install", "-q", str(self.place / "checkout"), env=self.env)

    @property
    def python(self) -> str:
        return str(self.place / "checkout" / ".venv" / "bin" / "python")

    def commit(self, words: str) -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        done("git", "add", "-A", cwd=self.place / "upstream")
        done("git", *who, "commit", "-q", "-m", words, cwd=self.place / "upstream")

    def release(self, version: str) -> None:
        for name in ("pyproject.toml", "nanobot/__init__.py"):
            file = self.place / "upstream" / name
            file.write_text(file.read_text(encoding="utf-8").replace(__version__, version), encoding="utf-8")
        self.commit(version)

    def breaks(self, name: str, text: str) -> None:
        file = self.place / "upstream" / name
        file.write_text(f"{file.read_text(encoding='utf-8')}\n{text}\n", encoding="utf-8")
        self.commit("broken")

    async def run(self, *arguments: str, env: dict[str, str] | None = None) -> Ran:
        process = await asyncio.create_subprocess_exec(
            *(self.python, "-P", "-m", "nanobot", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.env, **(env or {})},
            cwd=self.place,
        )
        out, err = await asyncio.wait_for(process.communicate(), 300)
        return Ran(process.returncode or 0, out.decode(), err.decode())

    async def killed_while_installing(self, env: dict[str, str]) -> Path:
        """Kill an update and its pip as soon as pip runs; the environment that it leaves."""
        command = (self.python, "-P", "-m", "nanobot", "update", "--yes")
        update = await asyncio.create_subprocess_exec(
            *command, env={**self.env, **env}, cwd=self.place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        children = Path(f"/proc/{update.pid}/task/{update.pid}/children")
        async with asyncio.timeout(120):
            while not (found := [one for one in children.read_text().split() if _installs(one)]):
                await asyncio.sleep(0.02)
        pip = Path(f"/proc/{found[0]}/cmdline").read_bytes().decode().partition("\0")[0]
        update.kill()
        os.killpg(int(found[0]), signal.SIGKILL)
        await update.wait()
        return Path(pip).parents[1]


def _installs(process: str) -> bool:
    with suppress(OSError):
        return b"\0pip\0install\0" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


async def test_an_update_is_asked_for_tried_beside_and_taken_where_it_proves_itself(
    tmp_path: Path, tools: Path
) -> None:
    async with furnished(tmp_path, after=Reply("still here")) as (telegram, _, ada, home):
        at = Installation(tmp_path, home)
        await asyncio.to_thread(at.make)
        service = {"PATH": f"{tools}:{at.env['PATH']}", "FAKE_KEEPS": "PYTHONPATH"}
        same = await at.run("update", "--yes")
        await at.run("agent", "-m", "remember the boat")
        ready = await at.run("gateway", "--install", env=service)
        at.release("9.9.1")
        killed = await at.killed_while_installing(at.quick(service))
        left = tmp_path / "checkout" / ".venv-2026-01-01T030405"  # as that one was
        left.mkdir()
        (left / MARK).touch()
        told = await at.run("update", "--check", env=service)
        taken = await at.run("update", "--yes", env=service)
        now = await at.run("--version")
        await ada.asks("are you there", "still here")
        at.breaks("nanobot/demo/web.py", "raise SystemExit('broken')")
        untested = await at.run("update", "--yes", env=at.quick(service))
        at.breaks("nanobot/demo/web.py", "")
        shutil.copy(ROOT / "nanobot" / "demo" / "web.py", tmp_path / "upstream" / "nanobot" / "demo" / "web.py")
        at.release("9.9.2")
        at.breaks("nanobot/channels/telegram/channel.py", "raise SystemExit('never starts')")
        back = await at.run("update", "--yes", env=at.quick(service))
        after = await at.run("--version")
        await ada.asks("and now", lambda: sum("still here" in line for line in telegram.visible(ada.chat)) == 2)
        gone = await at.run("gateway", "--uninstall", env=service)
    folder = tmp_path / "checkout"
    assert (same.code, "is up to date" in same.out, "asked just now" in same.out) == (0, True, True), same.err
    assert ready.code == 0, ready.out + ready.err
    assert (told.code, "There is nanobot 9.9.1" in told.out) == (0, True), told.err
    assert (taken.code, "Updated to nanobot 9.9.1" in taken.out) == (0, True), taken.out + taken.err
    unfinished = [(one / MARK).exists() for one in (killed, left)]  # an update of the same second takes the same name
    assert (unfinished, left.exists()) == ([False, False], False), taken.out
    assert all(f"is gone: {one}" in taken.out for one in (killed, left)), taken.out
    assert now.out == "nanobot 9.9.1\n"
    assert (untested.code, "Nothing was changed" in untested.err) == (1, True), untested.out + untested.err
    assert (back.code, "going back" in back.out) == (1, True), back.out + back.err
    assert after.out == "nanobot 9.9.1\n"
    assert gone.code == 0
    assert (folder / ".venv").is_symlink()
    assert (folder / f".venv-{__version__}" / "bin" / "python").exists()
    kept = [one.name for one in (home.home / "backups").iterdir()]
    assert len(kept) == sum(one.startswith("before-update-") for one in kept) == 2, kept
    assert done("git", "status", "--porcelain", cwd=folder) == ""


#: Going back to a version `old` from a `new` one, by a backup.
GO_BACK = """
import os, sys
from pathlib import Path
from nanobot.cli.agent_command import Setup
from nanobot.cli.care.update import _go_back
from nanobot.config.loader import located
from nanobot.upkeep.environments import Environment
place, old, new, backup = map(Path, sys.argv[1:])
setup = Setup(*located(os.environ, "", ""), os.environ)
sys.exit(_go_back(setup, Environment(place, new), Environment(place, old), backup))
"""


def test_who_goes_back_has_the_room_of_the_new_version_and_is_told_where_nothing_could_be_put_back(
    tmp_path: Path, tools: Path
) -> None:
    home, unit = program(tmp_path), tmp_path / ".config" / "systemd" / "user" / "nanobot.service"
    place, old, new = (tmp_path / name for name in ("env", "env-old", "env-new"))
    for folder in (unit.parent, old, new):
        folder.mkdir(parents=True)
    place.symlink_to(new)
    unit.write_text(f"ExecStart=true\nEnvironmentFile={os.devnull}\nEnvironment=\nWorkingDirectory=/\n", "utf-8")
    # Where it lies nothing can be read any more: the new version has gone before.
    done(sys.executable, "-m", "nanobot", "backup", f"{new}/b.tar.gz", env=home.env)
    command = [sys.executable, "-c", GO_BACK, *map(str, (place, old, new, new / "b.tar.gz"))]
    env = {**home.env, "PATH": f"{tools}:{home.env['PATH']}"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, place.resolve(), new.exists()) == (1, old, False), ran.stderr
    assert "could not be put back" in ran.stdout
    assert "runs again" not in ran.stdout
    assert "restart" in (tools / "calls").read_text(encoding="utf-8")


def test_of_two_updates_at_once_the_later_one_leaves_the_place_to_the_first(tmp_path: Path) -> None:
    place = tmp_path / ".venv"
    own = Environment(place, place)
    fresh = [Environment(tmp_path / name, tmp_path / name) for name in ("one", "two")]
    for one in (own, *fresh):
        one.folder.mkdir()
    kept = switch(own, fresh[0])
    with pytest.raises(UsageError, match="Another update"):
        switch(own, fresh[1])
    assert place.resolve() == fresh[0].folder
    switch_back(kept)
    assert place.resolve() == kept.folder


@pytest.mark.skipif(strace.STRACE is None, reason=strace.MISSING)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_update_that_is_killed_while_it_switches_leaves_an_environment_in_its_place(tmp_path: Path, at: int) -> None:
    for name in (".venv", "fresh"):
        (tmp_path / name / "bin").mkdir(parents=True)
    place, fresh = (
        f"Environment(Path({str(tmp_path / name)!r}), Path({str(tmp_path / name)!r}))" for name in (".venv", "fresh")
    )
    code = f"from pathlib import Path; from nanobot.upkeep.update import *; switch({place}, {fresh})"
    calls = "rename,renameat,renameat2,symlink"
    command = [str(strace.STRACE), "-f", "-qq", "-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when={at}"]
    subprocess.run([*command, sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (tmp_path / ".venv" / "bin").is_dir()


async def test_a_self_test_touches_nothing_of_a_database_gateways_share(tmp_path: Path, postgres: TestServer) -> None:
    address = postgres.fresh()
    home = program(tmp_path, gateway={"ledger": address}, providers={"custom": {"apiBase": "http://127.0.0.1:9/v1"}})
    backup = tmp_path / "backup.tar.gz"
    assert (await home.run("backup", str(backup))).code == 0
    env = {**home.env, "NANOBOT_CONFIG": str(home.home / "config.json")}
    code = (
        "import asyncio, sys; from pathlib import Path; from nanobot.upkeep.update import Environment, prove; "
        "here = Path(sys.prefix); "
        f"print(asyncio.run(prove(Environment(here, here), Path({str(backup)!r}), (), "
        f"Path({str(home.home / 'config.json')!r}))))"
    )
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    with psycopg.connect(postgres.address) as db:
        name = urlsplit(address).path.removeprefix("/")
        sessions = db.execute("SELECT sessions FROM pg_stat_database WHERE datname = %s", [name]).fetchone()
    assert (ran.returncode, ran.stdout.strip()) == (0, __version__), ran.stderr
    assert sessions == (0,)
    assert address in (home.home / "config.json").read_text(encoding="utf-8")


def test_only_what_a_broken_update_left_and_none_makes_now_is_deleted(tmp_path: Path) -> None:
    own = Environment(tmp_path / ".venv", tmp_path / ".venv-2026-01-01T030405")
    at = {
        name: tmp_path / f".venv-2026-01-0{number}T030405" for number, name in enumerate(("half", "before", "made"), 2)
    }
    for folder in (own.folder, *at.values()):
        (folder / "bin").mkdir(parents=True)
        (folder / MARK).touch()
    own.place.symlink_to(own.folder)
    (tmp_path / ".venv-0.1.0").symlink_to(at["made"])
    (at["before"] / MARK).unlink()
    with making(at["made"]):
        told = sweep(own)
    assert [line.endswith(f"is gone: {at['half']}.") for line in told] == [True], told
    assert {name for name, folder in at.items() if not folder.exists()} == {"half"}
    assert not (own.folder / MARK).exists()


async def test_what_cannot_be_updated_says_what_to_do(tmp_path: Path) -> None:
    home = program(tmp_path)
    editable = await home.run("update", "--yes")
    nowhere = await home.run("update", "--from", str(tmp_path / "nothing.whl"), "--yes")
    mistyped = await home.run("update", "--from", "nothing", "--yes")
    nobody = await home.run("update", "--from", str(ROOT))
    assert (editable.code, "is installed for working on it" in editable.err) == (2, True), editable.err
    assert (nowhere.code, "There is no /" in nowhere.err) == (2, True), nowhere.err
    assert (mistyped.code, "There is no nothing." in mistyped.err) == (2, True), mistyped.err
    assert (nobody.code, "Say --yes to update" in nobody.err) == (2, True)
