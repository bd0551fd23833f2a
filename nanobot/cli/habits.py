"""Reading the command line: a command, a word of habit, or a message. Imports nothing heavy."""

import argparse
import re
from collections.abc import Sequence

from nanobot.cli.actions import BY_NAME
from nanobot.cli.options import build_parser
from nanobot.command.words import WORDS, Word
from nanobot.errors import UsageError
from nanobot.utils.translation import _

#: Options of the top level that take a value, so that the first plain word can be found behind them.
_WITH_VALUE = frozenset(
    "-m --message -r --session --model --config --workspace --color --timeout --record --role".split()
)
#: Commands that take no words: a sentence that begins so is a message.
_ALONE = frozenset(("gateway", "status", "onboard", "doctor"))
#: How the name of a model looks, as after `ollama run`: with a tag, or with a number in it.
_MODEL = re.compile(r"(?i)[a-z][\w.-]*(:[\w.-]+|-?\d[\w.-]*)")
#: Commands of other programs → the command here that is nearest.
_NEAREST = {"list": "sessions", "ls": "sessions", "info": "status", "docs": "help", "man": "help", "ask": "agent"}
#: Words after which `help` begins a sentence and names no topic.
_PEOPLE = frozenset("me us him her them my our please with out".split())


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments. Without a command word it is `agent`. Raises `UsageError`."""
    return build_parser().parse_args(meant(list(argv)))


def meant(argv: list[str]) -> list[str]:
    """The arguments with a command in front: `agent` where they are a message. Raises `UsageError`."""
    if any(word in {"--version", "-h", "--help"} for word in argv[:1]):
        return argv
    place = _first_word(argv)
    if place is None:
        return ["agent", *argv]
    before, words = argv[:place], argv[place:]
    word, rest = words[0], words[1:]
    if phrase := _phrase(words):
        return [*_told(" ".join(words[:2]), phrase), *before, *words[2:]]
    if word == "help" and rest and _is_topic(rest):
        return ["help", *before, *rest]
    sentence = word in _ALONE and len(rest) > 1 and not any(one.startswith("-") for one in rest)
    if word in BY_NAME and word != "help" and not (BY_NAME[word].actions and not rest) and not sentence:
        return [word, *before, *rest] if place else argv
    habit = WORDS.get(word.casefold())
    if habit and _first_word(rest) is None:
        return [*_told(word, habit), *before, *rest]
    if habit and rest[0].startswith("--") and rest[0].partition("=")[0] not in _WITH_VALUE:
        raise UsageError(_elsewhere(word, habit, rest[0]))
    if word in {"run", "chat"} and len(rest) == 1 and _MODEL.fullmatch(rest[0]):
        said = _(
            "There is no command {word!r}. To talk with that model: nanobot --model {model}", word=word, model=rest[0]
        )
        raise UsageError(said)
    slips = (name for name in BY_NAME if _is_slip(word, name))
    if len(argv) == 1 and (near := _NEAREST.get(word) or next(slips, "")):
        told = _(
            "There is no command {word!r}. Did you mean {near!r}? As a message: nanobot -m {word}", word=word, near=near
        )
        raise UsageError(told)
    return ["agent", *argv]


def _is_slip(word: str, name: str) -> bool:
    """Whether a word is a name with two neighbours swapped or, where it is long, a letter too many or too few. Any
    other word, however near it looks (`hello`, `what`, `state`), is a message."""
    mine, its = ({one[:at] + one[at + 1 :] for at in range(len(one))} for one in (word, name))
    if len(word) == len(name):
        return word != name and sorted(word) == sorted(name) and not mine.isdisjoint(its)
    return len(name) > 5 and (word in its or name in mine) and (len(word) > 5 or name.startswith(word))


def _phrase(words: Sequence[str]) -> Word | None:
    """Two words of the table, alone or with options behind them."""
    if len(words) < 2 or (len(words) > 2 and not words[2].startswith("-")):
        return None
    return WORDS.get(" ".join(words[:2]).casefold())


def _is_topic(words: Sequence[str]) -> bool:
    """Whether what follows `help` names a page; one word does, right or wrong, unless it begins a sentence."""
    from nanobot.command.pages import page_of

    if page_of(" ".join(words)) is not None:
        return True
    return len(words) == 1 and words[0].isascii() and words[0].casefold() not in _PEOPLE


def _told(word: str, habit: Word) -> tuple[str, ...]:
    """The arguments that do what is meant. Raises `UsageError` where there is only something to say."""
    arguments = habit.on_command_line()
    if not arguments:
        raise UsageError(_("There is no command {word!r}. {instead}", word=word, instead=_(habit.says)))
    return arguments


def _elsewhere(word: str, habit: Word, option: str) -> str:
    """What is said to a word of habit with an option that it does not have here."""
    arguments = " ".join(habit.on_command_line())
    does = _("`nanobot {arguments}` does that, and has no {option}.", arguments=arguments, option=option)
    does = _(habit.says) or does
    return _("There is no command {word!r} with {option}. {instead}", word=word, option=option, instead=does)


def _first_word(argv: Sequence[str]) -> int | None:
    """Where the first argument stands that is neither an option nor the value of one."""
    skip = False
    for place, word in enumerate(argv):
        if skip:
            skip = False
        elif word == "--":
            return place + 1 if place + 1 < len(argv) else None
        elif word in _WITH_VALUE:
            skip = True
        elif not word.startswith("-") or word == "-":
            return place
    return None
