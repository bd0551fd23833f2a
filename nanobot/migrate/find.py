"""Which homes of other programs there are, and reading one."""

from collections.abc import Callable, Mapping
from pathlib import Path

from nanobot.config.paths import expanded, person_home
from nanobot.errors import UsageError
from nanobot.migrate.claw import CLAW_FILES, claw_home, family_home
from nanobot.migrate.hermes import hermes_home
from nanobot.migrate.home import ForeignHome, Program
from nanobot.utils.text import nearest
from nanobot.utils.translation import _, listed, sentences

#: Where homes are, below the person's own folder, the newest name first; and what stands in each.
_PLACES: tuple[tuple[Program, str], ...] = (
    ("nanobot", ".nanobot"),
    ("hermes", ".hermes"),
    ("openclaw", ".openclaw"),
    ("openclaw", ".clawdbot"),
    ("openclaw", ".moltbot"),
)
_SIGNS: Mapping[Program, tuple[str, ...]] = {
    "hermes": ("config.yaml", "state.db", "memories"),
    "openclaw": (*CLAW_FILES, "agents"),
    "nanobot": ("config.json", "sessions", "workspace"),
}
_READERS: Mapping[Program, Callable[[Path], ForeignHome]] = {
    "nanobot": family_home,
    "hermes": hermes_home,
    "openclaw": claw_home,
}
#: What each place of the environment is for.
_VARIABLES: Mapping[str, Program] = {"HERMES_HOME": "hermes", "OPENCLAW_STATE_DIR": "openclaw"}


def homes_there(env: Mapping[str, str], own: Path) -> list[tuple[Program, Path]]:
    """The homes of other programs of this person; `own` is this nanobot's, in which another of the family may have
    kept conversations and schedules before."""
    user = person_home(env)
    named = [(program, Path(env[name])) for name, program in _VARIABLES.items() if env.get(name)]
    places = [*named, *((program, user / name) for program, name in _PLACES)]
    found: dict[Path, Program] = {}
    for program, folder in places:
        older = (own / "workspace" / "sessions").is_dir() or (own / "cron" / "jobs.json").is_file()
        if (folder.resolve() != own.resolve() or older) and _is_home(folder, program):
            found.setdefault(folder.resolve(), program)
    return [(program, folder) for folder, program in found.items()]


def named_home(word: str, env: Mapping[str, str], own: Path) -> tuple[Program, Path]:
    """The home that a person names by its program, or by its folder. Raises `UsageError`."""
    folder = expanded(word, person_home(env))
    if "/" in word or folder.is_dir():
        program = next((one for one in _SIGNS if _is_home(folder, one)), None)
        if program is None:
            raise UsageError(
                _("{word} is no home of nanobot's family, hermes or openclaw: none of their files are.", word=word)
            )
        return program, folder.resolve()
    there = homes_there(env, own)
    found = [one for one in there if one[0] == word or one[1].name == f".{word}"]
    if not found:
        near = nearest(word, [*_READERS])
        hint = _("Did you mean {near!r}?", near=near) if near and near != word else ""
        known = listed(str(home) for program, home in there) or _("none")
        raise UsageError(
            sentences(
                _("There is no home of {word!r} here.", word=word),
                hint,
                _("Found: {homes}.", homes=known),
                _("A folder can be named too."),
            )
        )
    return found[0]


def read_home(program: Program, folder: Path) -> ForeignHome:
    """Everything in a home that there is a place for here. Waits for the disk. Raises `UsageError`."""
    return _READERS[program](folder)


def _is_home(folder: Path, program: Program) -> bool:
    return folder.is_dir() and any((folder / name).exists() for name in _SIGNS[program])
