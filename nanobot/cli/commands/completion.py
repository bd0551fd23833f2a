"""`nanobot completion`: a script for a shell, made from the command line's own parser."""

import argparse
import shlex
import sys
from collections.abc import Iterator

from msgspec import Struct

from nanobot.cli.options import build_parser
from nanobot.command.pages import topics
from nanobot.utils.translation import _

#: Sets `found` to what can follow the words of a command line, given the last one and all of them, as `word:meaning`.
# English: a shell reads it
_FOUND = """\
_nanobot_found() {{
    local last=$1 way= word
    shift
    for word in "$@"; do
        case "$way/$word" in
            {paths}) way="$way/$word" ;;
        esac
    done
    case "$way $last" in
{values}
        *) case "$way" in
{words}
        esac ;;
    esac
}}
"""
# English: a shell reads it
_BASH = """\
_nanobot() {
    local found=()
    _nanobot_found "${COMP_WORDS[COMP_CWORD-1]}" "${COMP_WORDS[@]:1:COMP_CWORD-1}"
    COMPREPLY=($(compgen -W "${found[*]%%:*}" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _nanobot nanobot
"""
# English: a shell reads it
_ZSH = """\
_nanobot() {
    local -a found
    _nanobot_found "$words[CURRENT-1]" "${(@)words[2,CURRENT-1]}"
    (( $#found )) && _describe nanobot found || _files
}
if [ "$funcstack[1]" = "_nanobot" ]; then _nanobot; else compdef _nanobot nanobot; fi
"""


class CommandWords(Struct, frozen=True):
    """What can follow a command: words and options with what each is for, and the values of options.

    `path` is as `/mcp/add`. An option that is not among `values` takes none; an empty list stands for files and names.
    """

    path: str
    words: dict[str, str]
    options: dict[str, str]
    values: dict[str, tuple[str, ...]]


def run_completion(args: argparse.Namespace) -> int:
    """Print the script; the exit code."""
    places = list(_places(build_parser(), ""))
    agent = next(place for place in places if place.path == "/agent")
    top = places[0]
    top.options.update(agent.options)  # a message needs no `agent`
    top.values.update(agent.values)
    next(place for place in places if place.path == "/help").words.update(dict.fromkeys(topics(), _("a page")))
    made = {"bash": f"{_script(places)}{_BASH}", "zsh": f"#compdef nanobot\n{_script(places)}{_ZSH}"}
    sys.stdout.write(made.get(args.shell) or _fish(places))
    return 0


def _places(parser: argparse.ArgumentParser, path: str) -> Iterator[CommandWords]:
    """The parser of a command, and of those below it."""
    place = CommandWords(path, {}, {}, {})
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:  # noqa: SLF001 - argparse shows what it knows in no other way
        about = " ".join((action.help or "").split())
        for option in action.option_strings:
            place.options[option] = about
            if action.nargs != 0:
                place.values[option] = tuple(map(str, action.choices or ()))
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            told = {one.dest: " ".join((one.help or "").split()) for one in action._choices_actions}  # noqa: SLF001
            place.words.update({name: told.get(name, "") for name in action.choices})
            below += action.choices.items()
        elif not action.option_strings and action.choices:
            place.words.update(dict.fromkeys(map(str, action.choices), about))
    yield place
    for name, inner in below:
        yield from _places(inner, f"{path}/{name}")


def _script(places: list[CommandWords]) -> str:
    """What bash and zsh have in common."""
    values = [f"        {where}) found=({' '.join(known)}) ;;" for where, known in _values(places)]
    told = [(place.path, " ".join(map(_described, (place.words | place.options).items()))) for place in places]
    words = [f"            {_quoted(path)}) found=({known}) ;;" for path, known in told]
    paths = "|".join(_quoted(place.path) for place in places if place.path)
    return _FOUND.format(paths=paths, values="\n".join(values), words="\n".join(words))


def _fish(places: list[CommandWords]) -> str:  # English: a shell reads it
    lines = ["complete -c nanobot -e"]
    for place in places:
        names = place.path.split("/")[1:]
        below = [name for name in place.words if any(one.path == f"{place.path}/{name}" for one in places)]
        seen = [f"__fish_seen_subcommand_from {name}" for name in names]
        seen += [f"not __fish_seen_subcommand_from {' '.join(below)}"] if below else []
        here = "__nanobot" + "_".join(("", *names))
        lines.append(f"function {here}; {'; and '.join(seen)}; end")
        for word, about in place.words.items():
            lines.append(f"complete -c nanobot -f -n {here} -a {shlex.quote(word)} -d {shlex.quote(about)}")
        for option, about in place.options.items():
            name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            known = place.values.get(option)
            takes = "" if known is None else f" -x -a {shlex.quote(' '.join(known))}" if known else " -r"
            lines.append(f"complete -c nanobot -n {here} {name}{takes} -d {shlex.quote(about)}")
    return "\n".join(lines) + "\n"


def _values(places: list[CommandWords]) -> list[tuple[str, tuple[str, ...]]]:
    """The values that options take, each with a pattern of the commands and options that take them."""
    found: dict[tuple[str, ...], list[str]] = {}
    for place in places:
        for option, known in place.values.items():
            found.setdefault(known, []).append(_quoted(f"{place.path} {option}"))
    return [("|".join(where), known) for known, where in found.items()]


def _quoted(text: str) -> str:
    return f'"{text}"'


def _described(entry: tuple[str, str]) -> str:
    """A word with its meaning, as `_describe` of zsh wants it."""
    return shlex.quote(":".join(entry))
