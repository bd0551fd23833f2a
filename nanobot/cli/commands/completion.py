"""`nanobot completion`: a script for bash, made from the command line's own parser; zsh reads it, too."""

import argparse
import shlex
import sys
from collections.abc import Iterator

from msgspec import Struct

from nanobot.cli.options import build_parser
from nanobot.command.pages import topics

# English: a shell reads it
_BASH = """\
_nanobot() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} last=${{COMP_WORDS[COMP_CWORD-1]}} way= word known=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$way/$word" in
            {ways}) way="$way/$word" ;;
        esac
    done
    case "$way $last" in
{values}
        *) case "$way" in
{words}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$known" -- "$cur"))
}}
complete -o default -F _nanobot nanobot
"""


class CommandWords(Struct, frozen=True):
    """What can follow a command: words and options, and the values of options that take one.

    `way` is as `/mcp/add`. No values stand for files and names.
    """

    way: str
    words: list[str]
    values: dict[str, tuple[str, ...]]


def run_completion(args: argparse.Namespace) -> int:  # noqa: ARG001 - there is one shell
    """Print the script; the exit code."""
    places = {place.way: place for place in _places(build_parser(), "")}
    top, agent = places[""], places["/agent"]
    top.words.extend(agent.words)  # a message needs no `agent`
    top.values.update(agent.values)
    places["/help"].words.extend(topics())
    words = [f"            {_quoted(way)}) known={shlex.quote(' '.join(one.words))} ;;" for way, one in places.items()]
    values = [
        f"        {_quoted(f'{way} {option}')}) known={shlex.quote(' '.join(known))} ;;"
        for way, place in places.items()
        for option, known in place.values.items()
    ]
    ways = "|".join(_quoted(way) for way in places if way)
    sys.stdout.write(_BASH.format(ways=ways, values="\n".join(values), words="\n".join(words)))
    return 0


def _places(parser: argparse.ArgumentParser, way: str) -> Iterator[CommandWords]:
    """The parser of a command, and of those below it."""
    place = CommandWords(way, [], {})
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse shows what it knows in no other way
        known = tuple(map(str, action.choices or ()))
        place.words.extend(action.option_strings or known)
        if action.nargs != 0:
            place.values.update(dict.fromkeys(action.option_strings, known))
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            below = action.choices
    yield place
    for name, inner in below.items():
        yield from _places(inner, f"{way}/{name}")


def _quoted(text: str) -> str:
    return f'"{text}"'
