"""Keys and values as people type them on a command line."""

import json
import re
from collections.abc import Sequence

from nanobot.config.given import ALIASES, HABITS, number_or_switch
from nanobot.config.keys import NAMES, KeyPath, ValueType, camel, find_key, keys_of, type_at, walk_keys
from nanobot.config.schema import Config
from nanobot.errors import UsageError
from nanobot.utils.text import nearest
from nanobot.utils.translation import _, sentences

_PART = re.compile(r'"([^"]*)"|([^.]+)')
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_SWITCHES = {"yes": True, "on": True, "no": False, "off": False}


def key_path(text: str) -> KeyPath:
    """The key path that a person means: `tools.web.search.maxResults`, in snake_case too, or a place of the family.

    A name with dots may stand in double quotes. Raises `UsageError` with the nearest key.
    """
    parts = [quoted or bare for quoted, bare in _PART.findall(text.strip())]
    tried = [parts]
    for alias, target in ALIASES.items():
        if tuple(map(camel, parts[: len(alias)])) == alias:
            tried.append([*target, *parts[len(alias) :]])
    for one in tried:
        found = _resolved(one, ValueType(Config))
        if found:
            return found
    raise UsageError(sentences(_("There is no key {key}.", key=text.strip() or _("without a name")), _near(parts)))


def _resolved(parts: Sequence[str], slot: ValueType) -> KeyPath | None:
    """The canonical path of `parts` below a value of this type; None where it has no such key."""
    if not parts:
        return ()
    if slot.section is not None:
        name = find_key(slot.section, parts[0])
        rest = _resolved(parts[1:], keys_of(slot.section)[name].slot) if name else None
        return None if rest is None else (name, *rest)
    if slot.base is not dict or slot.inner is None:
        return None
    if slot.named is None:
        return (".".join(parts),) if slot.inner.base is str else tuple(parts)
    for size in range(1, len(parts) + 1):  # names such as gpt-4.1 hold dots themselves
        rest = _resolved(parts[size:], ValueType(slot.named))
        if rest is not None:
            return (slot.name(".".join(parts[:size])), *rest)
    return None


def _near(parts: Sequence[str]) -> str:
    if len(parts) == 1 and parts[0] in HABITS:
        return _("It is {key}.", key=HABITS[parts[0]])
    known = {dotted(path[:size]): None for path, _key in walk_keys() for size in range(1, len(path) + 1)}
    last = camel(parts[-1]) if parts else ""
    ends = [one for one in known if one.rpartition(".")[2] == last]
    near = ends[0] if len(ends) == 1 else nearest(".".join(parts), ends or known)
    return _("Did you mean {near}?", near=near) if near else _("`nanobot config show` prints all of them.")


def dotted(path: Sequence[str]) -> str:
    """A key path as people read and type it."""
    return ".".join(f'"{part}"' if "." in part else part for part in path)


def is_secret(path: KeyPath) -> bool:
    """Whether what stands there must not be typed where others read it."""
    private = (type_at(path) or ValueType(str)).kind.private
    return private == "secret" or (private == "hidden" and bool(NAMES.search(path[-1])))


def literal(secret: str) -> str:
    """How a file writes a secret, so that none of its `$` begins a variable; a whole `${NAME}` names one."""
    return secret if _REFERENCE.fullmatch(secret) else secret.replace("$", "$$")


def value_of(words: Sequence[str], path: KeyPath) -> object:
    """What the words of a person say for this key, as plain JSON data: JSON, or plain text where the key takes text.

    What does not fit is left as it is: reading the file refuses it with a sentence.
    """
    # An unknown key is a warning, as in the file.
    slot, text = type_at(path) or ValueType(str), " ".join(words)
    if text == "null":
        return None
    if slot.base is tuple and not text.lstrip().startswith("["):
        return list(words)
    return _single(text, slot)


def _single(text: str, slot: ValueType) -> object:
    if slot.base is str:
        if text.lower() == "true" and True in slot.kind.words:
            return True
        return _json(text, text) if text.startswith('"') else text
    if slot.options:
        return _json(text, text) if text.lstrip()[:1] in ("{", "[", '"') else text
    if slot.base is bool and text.lower() in _SWITCHES:
        return _SWITCHES[text.lower()]
    if slot.base in (bool, int, float):
        return number_or_switch(text)
    return _json(text, text)


def _json(text: str, otherwise: object) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    return value
