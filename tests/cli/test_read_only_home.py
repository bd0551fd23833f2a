"""A home that may not be written gets a sentence before anything is accepted."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import program

COMMANDS = [("gateway",), ("-m", "hello", "--model", "lookup"), ("status",)]
COMMANDS += [("schedule",), ("watch",), ("library", "status"), ("skill", "list"), ("usage",)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_that_may_only_be_read_gets_a_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    home = program(tmp_path, None)
    for folder in ("media", "cache", "logs", "workspace"):
        (home.home / folder).mkdir(exist_ok=True)
    ask = home.command(*command)
    if os.getuid() == 0:  # whom no mode keeps out
        place = shlex.quote(str(home.home))
        mount = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
        if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
            pytest.skip("this machine lets no test mount anything")
        ask = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *ask]
    else:
        home.home.chmod(0o500)
    try:
        done = subprocess.run(ask, env=home.env, capture_output=True, text=True, timeout=120, check=False)
    finally:
        home.home.chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert "cannot be made or written" in done.stderr
    assert "NANOBOT_HOME" in done.stderr
    assert "something inside broke" not in done.stderr
