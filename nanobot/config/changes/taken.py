"""When a running nanobot takes a change of each key: with its next turn, in the next terminal, after its next start."""

from collections.abc import Iterator, Mapping
from typing import get_args

from nanobot.config.keys import KeyPath, keys_of, path_of, value_at, with_value
from nanobot.config.schema import Config
from nanobot.config.section import Section, When


def _entries(model: type[Section], path: KeyPath = ()) -> Iterator[tuple[str, When]]:
    for name, key in keys_of(model).items():
        if key.slot.section is not None:
            yield from _entries(key.slot.section, (*path, name))
        else:
            yield ".".join((*path, name)), key.slot.kind.taken or model.taken


#: Every key, in one of whose names people may choose further ones, and when a change of it is taken.
TAKEN: Mapping[str, When] = dict(_entries(Config))


def taken(path: KeyPath) -> When:
    """When a change of this key, or of all keys below it, is in force in a nanobot that runs."""
    key = ".".join(path)
    found = {when for one, when in TAKEN.items() if f"{key}.".startswith(f"{one}.") or one.startswith(f"{key}.")}
    order: tuple[When, ...] = get_args(When)
    return max(found, key=order.index)


def changed(before: Config, after: Config) -> tuple[str, ...]:
    """The keys that differ between two configurations."""
    return tuple(one for one in TAKEN if value_at(before, path_of(one)) != value_at(after, path_of(one)))


def taken_over(before: Config, after: Config) -> Config:
    """`after`, where every key that counts after the next start has its value of `before`."""
    for one, when in TAKEN.items():
        if when == "next start":
            after = with_value(after, path_of(one), value_at(before, path_of(one)))
    return after
