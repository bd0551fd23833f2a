"""`pytest -n`: every test is done once, and what a worker finds or dies of is told."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.workers import GROUPS

ROOT = Path(__file__).parents[1]
#: Twenty that are well, and what goes wrong in a test, after it, and at the end of a worker.
TESTS = """
import os, pytest

@pytest.mark.parametrize("number", range(20))
def test_well(number, tmp_path):
    print("seen by nobody")
    with open(os.environ["DONE"], "a") as done:
        done.write(f"{number} {tmp_path}\\n")

def test_wrong():
    print("what it printed")
    assert 1 + 1 == 3

def test_dies():
    os._exit(7)

@pytest.fixture(scope="session")
def kept():
    yield
    raise OSError("at the end")

def test_leaves(kept):
    pass

@pytest.fixture(scope="session")
def server():
    yield
    print("it was ended", file=open(os.environ["DONE"], "w"))

def test_is_interrupted(server):
    raise KeyboardInterrupt
"""


def _pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_of_workers.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-c", "none.ini", "--rootdir", ".", "-p", "no:cacheprovider"]
    env = {"PYTHONPATH": str(ROOT), "DONE": str(folder / "done"), "HOME": str(folder)}
    env["PYTEST_DEBUG_TEMPROOT"] = str(folder)  # beside another suite it would warn of folders that both clear away
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what the environment has takes longer than these tests
    (folder / "none.ini").touch()
    command += ["-p", "tests.workers", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_workers_do_every_test_once_and_tell_what_went_wrong(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, "-n", "3", "-k", "not interrupted")
    done = [line.split() for line in (tmp_path / "done").read_text(encoding="utf-8").splitlines()]
    assert Counter(number for number, _ in done) == Counter(map(str, range(20)))
    assert len({folder for _, folder in done}) == 20
    assert ran.returncode == 1
    assert "2 failed, 21 passed, 1 deselected, 1 error" in ran.stdout
    assert "what it printed" in ran.stdout
    assert "the worker ended in this test: 7" in ran.stdout
    assert "OSError: at the end" in ran.stdout
    assert "seen by nobody" not in ran.stdout + ran.stderr


def test_after_the_first_failure_no_more_tests_are_begun_where_that_is_wanted(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, "-n", "1", "-x", "-k", "wrong or leaves or dies")
    assert (ran.returncode, "1 failed" in ran.stdout) == (1, True)
    assert "test_dies" not in ran.stdout
    assert "test_leaves" not in ran.stdout


def test_what_a_worker_had_taken_that_died_is_done_by_another_one(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, "-n", "1", "-k", "dies or leaves")
    assert "1 failed, 1 passed, 22 deselected, 1 error" in ran.stdout


def test_a_worker_that_is_interrupted_ends_what_its_tests_had_started(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, "-n", "2", "-k", "interrupted")
    assert (ran.returncode, "KeyboardInterrupt" in ran.stdout + ran.stderr) == (1, True)
    assert (tmp_path / "done").read_text(encoding="utf-8") == "it was ended\n"


def test_every_group_has_tests() -> None:
    assert [path for path in GROUPS if not list(ROOT.glob(f"{path.partition('::')[0]}*"))] == []
