"""What does running a command cost besides the start of its process?

    python -m benchmarks.command_calls [--calls 60]

`--calls` calls of `exec` that run `true` in the sandbox that works here, judged effects and result included; beside
them, in the same run, the bare start of the same command line as a process. What is compared is CPU time of this
process, user and system. Then what is kept of files is measured: how much more a call takes in a workspace of 10,000
files than in an empty one, when their versions are kept already, in a clean conversation and beside content from
outside, where keys are looked for as well. The last lines are the summary. Exit code 0: a call costs at most 5 ms of
CPU more than the bare start, and 10,000 files at most 100 ms, or 150 ms beside content from outside. 1: more, or no
sandbox works.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a file

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.commands.background import BackgroundTasks
from nanobot.agent.tools.commands.execute import ExecSetup, ExecTool
from nanobot.agent.tools.commands.processes import CommandLimits, limited
from nanobot.config.schema_tools import ExecConfig
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.security.paths import Root
from nanobot.security.sandbox import Confinement, Reason, Sandbox, choose

BAR_MS, FILES_BAR_MS, TAINTED_BAR_MS = 5.0, 100.0, 150.0
RUNS = 3
#: Folders of the large workspace, files in each, calls that are measured in it, and in an empty one.
FOLDERS, EACH, FEW = 100, 100, 8
TAINT = ("page example.org",)


async def bare(line: list[str], folder: Path, count: int) -> float:
    """CPU in milliseconds of one process that is started and awaited."""
    nothing = asyncio.subprocess.DEVNULL
    before = time.process_time()
    for _ in range(count):
        process = await asyncio.create_subprocess_exec(
            *line, stdin=nothing, stdout=nothing, stderr=nothing, cwd=folder, start_new_session=True
        )
        await process.wait()
    return (time.process_time() - before) / count * 1_000


async def calls(tool: ExecTool, count: int, taint: tuple[str, ...] = ()) -> float:
    """CPU in milliseconds of one call, judging included."""
    before = time.process_time()
    for _ in range(count):
        context = ToolContext(role="owner", direct=True, taint=taint)
        arguments: dict[str, object] = {"command": "true"}
        context.allowed = await asyncio.to_thread(tool.effects, arguments, context)
        result = await tool.call(arguments, context)
        assert result.receipt.startswith("ran true: exit 0"), result
    return (time.process_time() - before) / count * 1_000


async def with_files(sandbox: Sandbox) -> tuple[float, float, float]:
    """What 10,000 files cost in ms of CPU: the first call, a later one, and one beside content from outside."""
    with tempfile.TemporaryDirectory(prefix="nanobot-commands-") as place:
        folder = Path(place, "work")
        folder.mkdir()
        spaces = FileSpaces((Root(folder, writable=True),), Path(place, "home"), (), Path(place))
        tool = ExecTool(ExecConfig(), sandbox, ExecSetup(spaces, BackgroundTasks(None), {"PATH": "/usr/bin:/bin"}))
        empty, tainted = await calls(tool, FEW), await calls(tool, FEW, TAINT)
        for number in range(FOLDERS * EACH):
            file = folder / f"folder-{number // EACH}" / f"file-{number}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{number}\n" * 200, encoding="utf-8")
        began = time.process_time()
        spaces.of(FileUser("owner", "")).snapshots.take()
        first = (time.process_time() - began) * 1_000
        found = first, await calls(tool, FEW) - empty, await calls(tool, FEW, TAINT) - tainted
        await tool.aclose()
        spaces.close()
        return found


async def once(sandbox: Sandbox, count: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="nanobot-commands-") as place:
        folder = Path(place, "work")
        folder.mkdir()
        spaces = FileSpaces((Root(folder, writable=True),), Path(place, "home"), (), Path(place))
        config = ExecConfig()
        tool = ExecTool(config, sandbox, ExecSetup(spaces, BackgroundTasks(None), {"PATH": "/usr/bin:/bin"}))
        limits = CommandLimits(config.timeout, config.memory_mb, config.processes)
        inner = limited(["true"], limits, own_processes=sandbox.name == "bubblewrap")
        line = sandbox.command(inner, folder, Confinement(writable=(folder,)))
        alone, whole = await bare(line, folder, count), await calls(tool, count)
        await tool.aclose()
        spaces.close()
        return alone, whole


async def measured(count: int) -> int:
    sandbox = await choose("auto")
    if isinstance(sandbox, Reason):
        print(f"no sandbox works here: {sandbox.text}")
        return 1
    runs = [await once(sandbox, count) for _ in range(RUNS)]
    for alone, whole in runs:
        print(f"bare {alone:.2f} ms, call {whole:.2f} ms of CPU")
    more = statistics.median(whole - alone for alone, whole in runs)
    print(f"a command in {sandbox.name}: {more:.2f} ms of CPU more than its start; bar {BAR_MS:.0f} ms")
    first, clean, tainted = await with_files(sandbox)
    print(
        f"{FOLDERS * EACH:,} files: {first:,.0f} ms of CPU once, then {clean:.0f} ms a command, "
        f"{tainted:.0f} ms beside content from outside; bars {FILES_BAR_MS:.0f} and {TAINTED_BAR_MS:.0f} ms"
    )
    return 0 if more <= BAR_MS and clean <= FILES_BAR_MS and tainted <= TAINTED_BAR_MS else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=60)
    return asyncio.run(measured(parser.parse_args().calls))


if __name__ == "__main__":
    raise SystemExit(main())
