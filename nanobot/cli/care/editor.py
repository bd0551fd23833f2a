"""The editor of a person: a text is changed in a copy, and counts once it has been judged."""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nanobot.cli.terminal import somebody_is_here
from nanobot.errors import UsageError
from nanobot.utils.text import printable
from nanobot.utils.translation import N_, _

#: Programs that are looked for where no variable names one.
_USUAL = ("sensible-editor", "nano", "vim", "vi", "emacs")
_AGAIN = N_("Enter opens the editor again, q leaves everything as it was: ")


def edited(text: str, name: str, env: Mapping[str, str]) -> str:
    """What a person makes of `text` in an editor. `name` is what the copy is called, for the editor's colours.

    Raises `UsageError` where there is no editor, or it fails.
    """
    command = _editor(env)
    with tempfile.TemporaryDirectory(prefix="nanobot-") as folder:  # readable by us alone
        copy = Path(folder, re.sub(r"[^\w.-]", "_", Path(name).name)[-80:].lstrip(".-") or "text")
        copy.write_bytes(text.encode(errors="replace"))
        _run(command, copy)
        try:
            return copy.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(_("The copy cannot be read: {error}.", error=error)) from error


def edited_well(text: str, name: str, env: Mapping[str, str], judge: Callable[[str], Sequence[str]]) -> str | None:
    """The same; None where nothing was changed, or nothing of it is to be kept. While `judge` finds problems, they are
    printed and the editor is offered again."""
    made = text
    while True:
        made = edited(made, name, env)
        problems = judge(made) if made != text else ()
        if not problems:
            return made if made != text else None
        for problem in problems:
            sys.stderr.write(printable(f"{problem}\n"))
        if not (sys.stdin.isatty() and _again()):
            return None


def _again() -> bool:
    sys.stderr.write(_(_AGAIN))
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().casefold() not in ("q", "quit", "n", "no")


def _editor(env: Mapping[str, str]) -> list[str]:
    named = env.get("VISUAL", "").strip() or env.get("EDITOR", "").strip()
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(_("VISUAL or EDITOR cannot be read as a command: {error}.", error=error)) from None
    if words:
        return words
    if not somebody_is_here():  # one that nobody chose would wait for keys for ever
        raise UsageError(_("There is no terminal to edit in. Run it in one, or name a program in the variable EDITOR."))
    found = next((one for one in _USUAL if shutil.which(one, path=env.get("PATH"))), "")
    if not found:
        raise UsageError(_("No editor was found. Name yours in the variable EDITOR, such as EDITOR=nano."))
    return [found]


def _run(command: Sequence[str], file: Path) -> None:
    try:
        ended = subprocess.run([*command, str(file)], check=False)  # noqa: S603 - the person's own
    except OSError as error:
        raise UsageError(
            _(
                "The editor {command} cannot be started: {why}. Name another one in EDITOR.",
                command=command[0],
                why=error.strerror,
            )
        ) from error
    if ended.returncode:
        raise UsageError(
            _(
                "The editor {command} ended with exit code {code}. Nothing was changed.",
                command=command[0],
                code=ended.returncode,
            )
        )
