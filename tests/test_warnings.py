"""A warning fails a test, wherever it is given: in tests, in the programs that they start, and in what those start."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from nanobot.web.extract.page import Job
from nanobot.web.extract.worker import Extractor
from tests.cli.harness import Program, finish, judge_warnings
from tests.fakes.crash.nursery import Life


async def _python(program: Program, code: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=pipe, stderr=pipe, env=program.env)


@pytest.mark.parametrize("kind", ["DeprecationWarning", "ResourceWarning", "UserWarning"])
async def test_a_warning_ends_a_program_that_tests_start(tmp_path: Path, kind: str) -> None:
    process = await _python(Program(tmp_path), f"import warnings; warnings.warn('odd', {kind}); print('goes on')")
    out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    with pytest.raises(AssertionError, match=f"{kind}: odd"):
        judge_warnings(err.decode())


async def test_what_a_program_leaves_open_fails_the_test_though_it_ends_well(tmp_path: Path) -> None:
    process = await _python(Program(tmp_path), "import os; open(os.devnull); print('goes on')")
    with pytest.raises(AssertionError, match="ResourceWarning: unclosed file"):
        await finish(process)
    assert process.returncode == 0


async def test_a_life_of_the_crash_suite_that_warned_fails_the_test(tmp_path: Path) -> None:
    end = asyncio.ensure_future(asyncio.sleep(0, 0))
    (tmp_path / "printed").write_text("nanobot 1.0\nResourceWarning: unclosed database in <...>\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="unclosed database"):
        await Life(0, tmp_path, end).ended()


async def test_a_worker_that_takes_pages_apart_runs_with_warnings_as_errors() -> None:
    async with aclosing(Extractor(size=1)) as extractor:
        page = await extractor.extract(Job(b"<p>Words enough to be read.</p>", "https://a.example/"))
        (pid,) = extractor.pids
        environment = Path(f"/proc/{pid}/environ")
        if environment.exists():
            assert b"PYTHONWARNINGS=error" in environment.read_bytes()
    assert page.notes == ()
