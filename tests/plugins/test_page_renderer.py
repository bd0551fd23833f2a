"""The example of a plug-in as a person gets it: built, installed into an environment of its own, named, and used.

Where no Chromium is installed a stand-in answers that speaks its command line, and the test says so.
"""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from nanobot.providers.scripted import Call
from tests.cli.harness import Program
from tests.fakes.browser import __file__ as browser_file
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.website import Answer, Website

EXAMPLE = Path(__file__).parents[2] / "docs/examples/page-renderer"
STORY = "The ferry leaves the old pier at nine and comes back with the evening tide, as it has for many years."
SCRIPT = """
function show(path) {
  fetch(path).then(got => got.text()).then(text => { document.getElementById("root").innerHTML += text; });
}
show("INSIDE");
show("/story");
"""
SHELL = f'<html><body><div id="root"></div><script>{SCRIPT}</script></body></html>'


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the example installed in it, beside what these tests run with; no network."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    source = folder / "page-renderer"
    shutil.copytree(EXAMPLE, source)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source))
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv/bin/python"
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
        "--target",
        str(site),
        str(wheel),
    )
    here = [one for one in sys.path if one.endswith("site-packages")]
    (site / "beside.pth").write_text("\n".join([*here, str(EXAMPLE.parents[2])]))
    return python


def run(*command: str) -> None:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}  # pip has warnings of its own
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def browser(folder: Path) -> str:
    """An installed Chromium, which does not run as root, or else the stand-in."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    if os.geteuid() and (found := next(filter(None, map(shutil.which, names)), None)):
        return found
    warnings.warn("a stand-in speaks in the place of Chromium", stacklevel=1)
    program = folder / "chromium"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{browser_file}" "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.filterwarnings("ignore:a stand-in speaks")
async def test_the_example_of_a_plugin_reads_a_page_that_is_only_a_script_shell_and_its_scripts_reach_nothing_inside(
    tmp_path: Path, environment: Path
) -> None:
    home = tmp_path / ".nanobot"
    home.mkdir(mode=0o700)
    inside = Website({"/inside": Answer("canary")}, "127.0.0.2")
    pages = {"/story": Answer(f"<article><h1>Ferry</h1><p>{STORY}</p></article>")}
    async with LlmServer(after="Done.") as model, inside, Website(pages) as site:
        pages["/"] = Answer(SHELL.replace("INSIDE", f"{inside.url}/inside"))
        provider = {"apiKey": "sk-test", "apiBase": f"{model.url}/v1"}
        settings = {"program": browser(tmp_path)}
        config = {
            "agents": {"defaults": {"model": "fake", "provider": "custom"}},
            "providers": {"custom": provider},
            "plugins": {"enabled": ["nanobot-page-renderer"], "settings": {"nanobot-page-renderer": settings}},
            "tools": {"ssrfWhitelist": ["127.0.0.1/32"], "web": {"fetch": {"reader": "none"}}},
        }
        (home / "config.json").write_text(json.dumps(config))
        (home / "config.json").chmod(0o600)
        model.replies.append(Reply(Call("web_fetch", {"url": f"{site.url}/"})))
        nanobot = Installed(home, environment)
        ran = await nanobot.run("-m", f"read {site.url}/", env={"NO_PROXY": "127.0.0.1"})
        assert ran.code == 0, ran.err
        told = json.dumps(model.requests[-1].body, ensure_ascii=False)
        assert STORY in told
        assert "read by chromium" in told
        assert site.paths.count("/") == 2, "once without a browser, once with one"
        assert inside.paths == [], "an address inside was asked for, and refused"
        status = await nanobot.run("status")
        assert "nanobot-page-renderer 0.1.0: readers: chromium" in " ".join(status.out.split())


class Installed(Program):
    """The program as the environment runs it."""

    def __init__(self, home: Path, python: Path) -> None:
        super().__init__(home)
        object.__setattr__(self, "_python", python)

    def command(self, *arguments: str) -> list[str]:
        return [str(getattr(self, "_python")), "-m", "nanobot", *arguments]  # noqa: B009 - a frozen dataclass
