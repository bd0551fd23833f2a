"""Where this nanobot was installed from, and whether there is a newer one there; asked each time, never guessed."""

import json
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from nanobot import __version__
from nanobot.errors import TemporaryError, UsageError
from nanobot.utils.host import typed_path
from nanobot.utils.processes import run_program
from nanobot.utils.translation import N_, _

#: Seconds to ask a server, and to fetch or build a package.
ASK_SECONDS, FETCH_SECONDS = 120.0, 900.0
#: What an update leaves in an environment.
SOURCE_NOTE = "nanobot-source.json"
_EDITABLE = N_(
    "This is a checkout that is installed for working on it ({place}), so it is its own "
    "newest version: `git pull` there, then `pip install --editable .` again."
)
_UNKNOWN = N_(
    "This nanobot was installed from {place}, which knows of no newer one. Bring a newer "
    "checkout or package here and say `nanobot update --from PLACE`."
)


class Release(Struct, frozen=True):
    """Something that can be installed. `requirement` is for pip; `checkout` and `commit` are empty where it is none.

    `newer` is false where it is what runs now. `words` name it for people, and where was asked.
    """

    requirement: str
    words: str
    newer: bool
    checkout: str = ""
    commit: str = ""


async def run(*command: str, seconds: float = FETCH_SECONDS) -> str:
    """What a program prints. Raises `TemporaryError` with its last words where it fails or takes too long."""
    try:
        done = await run_program(command, seconds)
    except TimeoutError as error:
        raise TemporaryError(
            _(
                "`{command}` takes more than {seconds:.0f} s. Nothing was changed.",
                command=" ".join(command),
                seconds=seconds,
            )
        ) from error
    except OSError as error:
        raise UsageError(
            _("{command} is needed and cannot be started: {why}.", command=command[0], why=error.strerror)
        ) from error
    if done.code:
        said = (done.error or done.out).decode(errors="replace").strip().splitlines()[-3:]
        raise TemporaryError(
            _("`{command} …` failed: {why}. Nothing was changed.", command=" ".join(command[:4]), why=" ".join(said))
        )
    return done.out.decode(errors="replace").strip()


def noted(prefix: Path) -> dict[str, str]:
    """What an update has left in an environment: `place`, the link that leads to it, and `checkout`, its source."""
    try:
        return dict(json.loads((prefix / SOURCE_NOTE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


async def newest(named: str, prefix: Path) -> Release:
    """The newest release of where this one came from, or of the place that a person names.

    Raises `UsageError` where nobody can tell, and `TemporaryError` where it cannot be asked now.
    """
    if named:
        return _named(named)
    if checkout := noted(prefix).get("checkout"):
        return await _checkout(Path(checkout))
    try:
        files = distribution("nanobot").files or ()
    except PackageNotFoundError as error:
        raise UsageError(_("This nanobot was not installed, it runs from a folder: bring that up to date.")) from error
    told = next((Path(str(one.locate())) for one in files if one.name == "direct_url.json"), None)
    origin = json.loads(told.read_text(encoding="utf-8")) if told is not None else {}
    url = str(origin.get("url", ""))
    if not url:
        return await _index()
    if "vcs_info" in origin:
        return await _repository(url, origin["vcs_info"])
    place = Path(unquote(urlsplit(url).path))
    if origin.get("dir_info", {}).get("editable"):
        raise UsageError(_(_EDITABLE, place=place))
    if (place / ".git").exists():
        return await _checkout(place)
    raise UsageError(_(_UNKNOWN, place=place))


def _named(place: str) -> Release:
    folder = typed_path(place)
    if folder.exists():
        return Release(str(folder.resolve()), str(folder), newer=True)
    package = place.startswith("nanobot") and "/" not in place and folder.suffix not in {".whl", ".gz", ".zip"}
    if "://" not in place and not package:  # pip would take a slip of the fingers for any package of that name
        raise UsageError(_("There is no {place}. Name a folder, a package, or an address that pip takes.", place=place))
    return Release(place, place, newer=True)


async def _checkout(place: Path) -> Release:
    """The upstream of a checkout. What people have changed in it stays; a branch that went its own way is theirs."""

    async def git(*words: str) -> str:
        return await run("git", "-C", str(place), *words, seconds=ASK_SECONDS)

    await git("fetch", "--quiet")
    here, there = await git("rev-parse", "HEAD"), await git("rev-parse", "@{upstream}")
    try:
        await git("merge-base", "--is-ancestor", here, there)
    except TemporaryError as error:
        raise UsageError(
            _("The checkout {place} has commits of its own: bring it up to date with git, then --from it.", place=place)
        ) from error
    project = tomllib.loads(await git("show", f"{there}:pyproject.toml"))["project"]
    words = _("nanobot {version} ({commit}) of {place}", version=project["version"], commit=there[:10], place=place)
    return Release(
        "", words, newer=here != there or project["version"] != __version__, checkout=str(place), commit=there
    )


async def _repository(url: str, known: dict[str, str]) -> Release:
    ref = known.get("requested_revision") or "HEAD"
    told = await run("git", "ls-remote", url, ref, seconds=ASK_SECONDS)
    if not told:
        raise UsageError(
            _("{url} has no {ref} any more. Say what to install: nanobot update --from PLACE", url=url, ref=ref)
        )
    commit = told.split()[0]
    words = _("nanobot at {commit} of {url}", commit=commit[:10], url=url)
    return Release(f"git+{url}@{commit}", words, newer=commit != known.get("commit_id"), commit=commit)


async def _index() -> Release:
    """What pip would install, wherever it looks."""
    asked = ("install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-", "nanobot")
    report = json.loads(await run(sys.executable, "-m", "pip", *asked, seconds=ASK_SECONDS))
    version = str(report["install"][0]["metadata"]["version"])
    return Release(
        f"nanobot=={version}",
        _("nanobot {version} of the package index", version=version),
        newer=version != __version__,
    )
