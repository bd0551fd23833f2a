"""Everyday words that stand for each other when one person asks and another writes.

One line is one group; members are parted by commas and may be of several words. A group holds words of one language,
and only such as a page uses of the same thing: the height of a tower, but not its age.
"""

from functools import cache

from nanobot.providers import lookup_synonyms_en, lookup_synonyms_world
from nanobot.utils.ranking import terms


@cache
def groups() -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Each group as its members, each member as its words in the form they are compared."""
    return tuple(
        tuple(dict.fromkeys(tuple(terms(member)) for member in line.split(",")))
        for line in (lookup_synonyms_en.GROUPS + lookup_synonyms_world.GROUPS).split("\n")
        if line
    )


@cache
def by_word() -> dict[str, tuple[int, ...]]:
    """The groups that a word is a member of on its own, or begins a member of."""
    found: dict[str, list[int]] = {}
    for number, group in enumerate(groups()):
        for member in group:
            if member:
                found.setdefault(member[0], []).append(number)
    return {word: tuple(dict.fromkeys(numbers)) for word, numbers in found.items()}
