"""Shows a page to an installed Chromium and gives what stands in it once its scripts have run.

The browser has no network of its own: everything it asks for goes to the proxy of nanobot, which judges each address as
for every other page. It runs with an empty profile that is deleted, and ends with everything that it started.
"""

import asyncio
import os
import shutil
import signal
import tempfile

from nanobot.errors import FetchError, SkipTool
from nanobot.plugins.entry_points import PluginSetup

PROGRAMS = (
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
MOST_BYTES = 5_000_000


class ChromiumReader:
    """A reader of pages, as `nanobot.web.fetch.page.PluginReader` says."""

    name = "chromium"

    def __init__(self, program: str, env: dict[str, str]) -> None:
        self._program = program
        self._env = env

    async def read(self, url: str, *, proxy: str, timeout: float) -> str:
        """The page as HTML after its scripts have run. Raises `FetchError`."""
        profile = await asyncio.to_thread(tempfile.mkdtemp, prefix="page-renderer-")
        try:
            return await self._dumped(url, proxy, profile, timeout)
        finally:
            await asyncio.to_thread(shutil.rmtree, profile, ignore_errors=True)

    async def _dumped(self, url: str, proxy: str, profile: str, timeout: float) -> str:
        process = await asyncio.create_subprocess_exec(
            self._program,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-quic",
            "--webrtc-ip-handling-policy=disable_non_proxied_udp",
            f"--proxy-server={proxy}",
            "--proxy-bypass-list=<-loopback>",  # loopback, too, is asked of the proxy, which refuses it
            f"--user-data-dir={profile}",
            f"--virtual-time-budget={int(min(timeout, 10) * 1000)}",
            "--dump-dom",
            url,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._env,
            start_new_session=True,
        )
        out, told = process.stdout or asyncio.StreamReader(), b""
        try:
            async with asyncio.timeout(timeout):
                while len(told) <= MOST_BYTES and (more := await out.read(65_536)):
                    told += more
                if len(told) <= MOST_BYTES:
                    await process.wait()
        except TimeoutError:
            raise FetchError("timeout", f"Chromium had not shown {url} after {timeout:.0f} s.") from None
        finally:
            _end(process)
        if not told.strip():
            raise FetchError(
                "no_content", f"Chromium ended with code {process.returncode} and showed nothing of {url}."
            )
        return told[:MOST_BYTES].decode("utf-8", "replace")


def _end(process: asyncio.subprocess.Process) -> None:
    """End the browser and all of its processes; they are a session of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def make(setup: PluginSetup) -> ChromiumReader:
    """The entry point. Raises `SkipTool` where no browser is there."""
    path = setup.env.get("PATH", os.defpath)
    named = setup.settings.get("program")
    wanted = (named,) if isinstance(named, str) and named else PROGRAMS
    found = next(filter(None, (shutil.which(one, path=path) for one in wanted)), None)
    if found is None:
        raise SkipTool(f"none of these programs is installed here: {', '.join(wanted)}")
    kept = {key: setup.env[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in setup.env}
    return ChromiumReader(found, kept)
