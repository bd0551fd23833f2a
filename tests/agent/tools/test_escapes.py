"""Whatever path a model writes, and whatever is put in its way: nothing outside changes, no secret is read."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nanobot.security.paths import Root
from tests.agent.tools.files import Files, files_in

CANARY = "canary-4711"
#: `{tmp}` holds home/ (nanobot's, with the workspace in it), person/ (may be read), read/ (may be read), outside/.
PATHS = (
    """
../config.json|a/../../config.json|./././../config.json|sub/../../config.json|sub/../../../outside/secret
../../person/.ssh/id|{tmp}/home/config.json|{tmp}/home/./config.json|{tmp}//home//config.json|{tmp}/home
{tmp}/home/workspace/../config.json|{tmp}/home/workspace/sub/../../nanobot.db|{tmp}/home/nanobot.db|{tmp}/home/logs
{tmp}/home/files/files.db|{tmp}/home/files/trash|{tmp}/home/media/x|{tmp}/outside/secret|{tmp}/outside|{tmp}
{tmp}/person/.ssh/id|{tmp}/person/.ssh|{tmp}/person/.ssh/../.ssh/id|~/.ssh/id|~/.aws/credentials|~/.netrc|~/.config/gh/x
~/.SSH/../.ssh/id|~root/.bashrc|~nobody|/etc/shadow|/etc/passwd|/proc/self/environ|/proc/self/root|/proc/1/environ
/proc/self/root{tmp}/outside/secret|/proc/self/cwd/../../../../../../..{tmp}/outside/secret|/proc/self/fd/0|/proc/kcore
/proc/self/mem|/sys/kernel|/dev/stdin|/dev/zero|/dev/fd/0|/dev/shm|link|folder-link/secret|folder-link|link-to-link|loop
loop/x|home-link/config.json|proc-link/environ|dangling|dangling-folder/new|up-link/config.json|ssh-link/id|ssh-link
root-link{tmp}/outside/secret|relative-link|hard-config|hard-key|pipe|socket|sub|read-link/book
../../read/book|../CONFIG.JSON|..;/config.json|%2e%2e/config.json|．．/config.json|‥/config.json|file:///etc/passwd
..\\config.json|  ../config.json  |link/.|folder-link/./secret|folder-link/../outside/secret|sub/deep-link/secret
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
PATHS += ["a\0.md", "", " ", "x" * 5_000, "\ud800", "../" * 100 + "etc/passwd", "a/" * 2_000, "."]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """All folders, with every kind of link that somebody may have put into the workspace."""
    secrets = "home/config.json home/nanobot.db home/logs/log home/media/x person/.ssh/id person/.aws/credentials "
    secrets += "person/.netrc person/.config/gh/x outside/secret outside/canary-4711-name"
    for name in secrets.split():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{CANARY}\n")
    work = tmp_path / "home/workspace"
    for folder in ("sub", "../../read"):
        (work / folder).mkdir(parents=True)
    (tmp_path / "read/book").write_text("a book\n")
    links = {
        "link": tmp_path / "outside/secret",
        "folder-link": tmp_path / "outside",
        "link-to-link": Path("link"),
        "loop": Path("loop"),
        "home-link": tmp_path / "home",
        "proc-link": Path("/proc/self"),
        "dangling": tmp_path / "outside/new",
        "dangling-folder": tmp_path / "outside/new-folder",
        "up-link": Path(".."),
        "ssh-link": tmp_path / "person/.ssh",
        "root-link": Path("/"),
        "relative-link": Path("../config.json"),
        "read-link": tmp_path / "read",
        "sub/deep-link": Path("../folder-link"),
    }
    for name, target in links.items():
        (work / name).symlink_to(target)
    os.link(tmp_path / "home/config.json", work / "hard-config")
    os.link(tmp_path / "person/.ssh/id", work / "hard-key")
    os.mkfifo(work / "pipe")
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(work)  # the name of a socket is short
        listening.bind("socket")
        os.chdir(here)
    return tmp_path


@pytest.fixture
def files(place: Path) -> Iterator[Files]:
    with files_in(place, Root(place / "person")) as made:
        yield made


def outside(place: Path) -> dict[str, str]:
    """Everything besides the workspace and what nanobot keeps of changes, with what it holds."""
    found = {}
    for folder, folders, names in os.walk(place):
        if Path(folder) == place / "home":
            folders[:] = [name for name in folders if name not in ("workspace", "files")]
        for name in names:
            path = Path(folder, name)
            found[str(path)] = f"{path.read_text()} {path.stat().st_mode}"
        found.update(dict.fromkeys((str(Path(folder, name)) for name in folders), "folder"))
    return found


async def told(files: Files, path: str) -> str:
    """What all tools say when they are given this path."""
    calls: list[tuple[str, dict[str, object]]] = [
        ("read_file", {"path": path}),
        ("list_dir", {"path": path}),
        ("edit_file", {"path": path, "old": CANARY, "new": "changed"}),
        ("edit_file", {"path": path, "old": f"{CANARY}!", "new": "changed"}),
        ("write_file", {"path": path, "content": "changed"}),
        ("write_file", {"path": f"{path}/changed", "content": "changed"}),
        ("delete_file", {"path": path}),
    ]
    results = [await files.call(name, **arguments) for name, arguments in calls]
    return "\n".join(f"{one.text} {one.message} {one.receipt}" for one in results).replace(path, "")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40].encode("ascii", "replace").decode() or "empty")
async def test_no_path_leads_out_of_the_roots_or_to_a_secret(files: Files, place: Path, path: str) -> None:
    before = outside(place)
    assert CANARY not in await told(files, path.replace("{tmp}", str(place)))
    assert outside(place) == before


def test_sixty_paths_and_more_are_tried() -> None:
    assert len(set(PATHS)) >= 60


@pytest.mark.parametrize("path", [".", "folder-link", "{tmp}/person", "{tmp}", "up-link", "hard-config", "/"])
async def test_no_search_finds_what_is_outside_or_secret(files: Files, place: Path, path: str) -> None:
    where = path.replace("{tmp}", str(place))
    for name, pattern in (("grep", "canary-[0-9]+"), ("glob", "**/*canary*")):
        result = await files.call(name, path=where, pattern=pattern)
        assert result.is_error or "\n" not in result.text, "nothing is found"
        assert CANARY not in result.text


async def test_a_thread_that_swaps_a_folder_and_a_file_for_links_gains_nothing(files: Files, place: Path) -> None:
    work, over = files.workspace, threading.Event()
    (work / "swap").mkdir()
    for name in ("swap/secret", "file"):
        (work / name).write_text("mine\n")
    before = outside(place)

    def swap() -> None:
        while not over.is_set():
            for name, target in (("swap", place / "outside"), ("file", place / "outside/secret")):
                own, aside = work / name, work / f"{name}-aside"
                steps = (
                    partial(own.rename, aside),
                    partial(own.symlink_to, target),
                    own.unlink,
                    partial(aside.rename, own),
                )
                for step in steps:
                    with contextlib.suppress(OSError):  # a write came between
                        step()
                if aside.exists():
                    shutil.rmtree(aside) if aside.is_dir() else aside.unlink()

    thread = threading.Thread(target=swap)
    thread.start()
    said, done = [], 0
    try:
        for number in range(60):
            calls: list[tuple[str, dict[str, object]]] = [
                ("read_file", {"path": "swap/secret"}),
                ("read_file", {"path": "file"}),
                ("list_dir", {"path": "swap"}),
                ("edit_file", {"path": "swap/secret", "old": "mine", "new": "mine too", "all": True}),
                ("write_file", {"path": "file", "content": f"mine {number}"}),
                ("write_file", {"path": f"swap/new/{number}", "content": "mine"}),
            ]
            for name, arguments in calls:
                result = await files.call(name, **arguments)
                said.append(result.text)
                done += not result.is_error
        said.append((await files.call("grep", pattern="canary")).text.removeprefix("0 lines with canary"))
    finally:
        over.set()
        thread.join()
    assert done
    assert not any(CANARY in one or "canary" in one for one in said)
    assert outside(place) == before


MOUNTED = """
import asyncio, sys
from pathlib import Path
from nanobot.security.paths import Root
from tests.agent.tools.files import files_in

async def main(place):
    with files_in(place) as files:
        for name in ("mount/config.json", "mount/media/x", "mounted-file", "mount-proc/uuid"):
            print((await files.call("read_file", path=name)).error)
        print((await files.call("grep", pattern="canary-[0-9]+")).text)

asyncio.run(main(Path(sys.argv[1])))
"""


def test_what_is_mounted_into_a_root_is_no_way_to_a_secret(place: Path) -> None:
    work = place / "home/workspace"
    for name in ("mount", "mount-proc"):
        (work / name).mkdir()
    (work / "mounted-file").write_text("")
    binds = f"mount --bind {place}/home {work}/mount && mount --bind {place}/home/config.json {work}/mounted-file"
    binds += f" && mount --bind /proc/sys/kernel/random {work}/mount-proc"
    command = f"{binds} && exec '{sys.executable}' -c '{MOUNTED}' {place}"
    unshare = shutil.which("unshare")
    able = unshare and subprocess.run([unshare, "-rm", "true"], check=False, capture_output=True).returncode == 0
    if not able:
        pytest.skip("not tried: mounts of one's own are forbidden here")
    done = subprocess.run([str(unshare), "-rm", "sh", "-c", command], check=False, capture_output=True, text=True)
    assert done.stdout.splitlines() == [*["failed"] * 4, "0 lines with canary-[0-9]+"], done.stderr
