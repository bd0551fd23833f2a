"""How much dearer than bare Python is `nanobot --version`?

    python benchmarks/startup.py

Both programs run in turns, at least 15 times each after one run that fills the caches. What counts is the CPU time of
the finished children (user and system), and the bar is a ratio, so that a slow or busy machine judges the same.
The last line is the summary. Exit code 0: at most 5 times the CPU of `python -c pass`. 1: more.
"""

import argparse
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence

BAR = 5.0
BARE = (sys.executable, "-c", "pass")
VERSION = (sys.executable, "-m", "nanobot", "--version")


def cpu_of(command: Sequence[str]) -> float:
    """CPU seconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU of `nanobot --version` against bare Python")
    parser.add_argument("--runs", type=int, default=25, help="runs of each program, at least 15 (default: 25)")
    runs = max(15, parser.parse_args().runs)
    cpu_of(BARE), cpu_of(VERSION)
    pairs = [(cpu_of(BARE), cpu_of(VERSION)) for _ in range(runs)]
    bare, version = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = version / bare
    print(
        f"startup: nanobot --version takes {ratio:.2f} x the CPU of python -c pass "
        f"({version * 1000:.1f} ms against {bare * 1000:.1f} ms, medians of {runs}); bar {BAR:g}"
    )
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
