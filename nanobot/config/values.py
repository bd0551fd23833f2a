"""From what a file gives to the configuration: every value judged, every refusal a sentence with the nearest value."""

import json
import re
from typing import Annotated, TypeVar

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert

from nanobot.config.given import Findings, Given, number_or_switch
from nanobot.config.keys import ValueType, find_key, keys_of
from nanobot.config.section import Section
from nanobot.utils.text import nearest, shorten, squeeze
from nanobot.utils.translation import _, either

_SHOWN = 60
_BARE_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")
_SWITCHES = {"true": "true", "yes": "true", "on": "true", "1": "true"}
_SWITCHES |= {"false": "false", "no": "false", "off": "false", "0": "false"}
_S = TypeVar("_S", bound=Section)


class Validator(Struct):
    """Makes sections of what is given, and tells `found` the problems. A value that is refused is UNSET."""

    found: Findings

    def section(self, given: Given, model: type[_S]) -> _S | UnsetType:
        values: dict[str, object] = {}
        for written, inner in given.value.items() if isinstance(given.value, dict) else ():
            key = keys_of(model).get(find_key(model, written))
            if key is None:  # a group in a list; those of others were told when the file was read
                near = nearest(written, keys_of(model))
                tell = self.found.error if model.strict else self.found.warning
                tell(
                    inner.line,
                    inner.spelled,
                    _("unknown key, not used."),
                    _('Did you mean "{near}"?', near=near) if near else "",
                )
            elif inner.value is not None and not inner.missing:
                values[key.attribute] = self.value(inner, key.slot)
        if any(value is UNSET for value in values.values()):
            return UNSET
        try:
            return model(**values)
        except ValueError as error:
            return self._refused(given, _sentence(error))

    def value(self, given: Given, slot: ValueType) -> object:
        if slot.options:
            options = (one for one in slot.options if _is_like(given.value, one))
            return self.value(given, next(options, ValueType(str, kind=slot.kind)))
        if slot.section is not None and isinstance(given.value, dict):
            return self.section(given, slot.section)
        if slot.base is object:
            return _plain(given)
        parts: dict[str, object] | tuple[object, ...]
        if slot.base is dict and isinstance(given.value, dict):
            parts = self._named(given.value, slot)
            return UNSET if UNSET in parts.values() else parts
        if slot.base is tuple and isinstance(given.value, list) and slot.inner is not None:
            parts = tuple(self.value(item, slot.inner) for item in given.value)
            return UNSET if UNSET in parts else parts
        return self._scalar(given, slot)

    def _named(self, given: dict[str, Given], slot: ValueType) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, inner in given.items():
            if slot.names is not None and slot.part is not None:
                known = self._scalar(Given(inner.line, inner.spelled, name), slot.names)
                values[str(known)] = UNSET if known is UNSET else self.value(inner, slot.part)
        return values

    def _scalar(self, given: Given, slot: ValueType) -> object:
        kind = slot.kind
        value: object = given.value
        if given.filled and slot.base is not str and isinstance(value, str):
            value = number_or_switch(value)
        if isinstance(value, bool | str):
            value = kind.words.get(value, value)
        if kind.numbers and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and kind.private == "secret" and _BARE_VARIABLE.fullmatch(value):
            hint = _("A variable is written ${{{name}}}.", name=value[1:])
            message = _("this is taken as it stands, with its $.")
            self.found.warning(given.line, given.spelled, message, hint)
        try:
            value = kind.check(value) if isinstance(value, str) and slot.base is str else value
        except ValueError as error:
            return self._refused(given, _sentence(error))
        if _fits(value, slot):
            return float(value) if slot.base is float and isinstance(value, int) else value
        hint = "" if kind.private else _nearest_value(value, slot)
        return self._refused(
            given,
            _("got {value}, wants {wanted}.", value=got(value, secret=bool(kind.private)), wanted=wanted(slot)),
            hint,
        )

    def _refused(self, given: Given, message: str, hint: str = "") -> UnsetType:
        self.found.error(given.line, given.spelled, message, hint)
        return UNSET


def _plain(given: Given) -> object:
    """What was given, whatever it is."""
    if isinstance(given.value, dict):
        return {name: _plain(inner) for name, inner in given.value.items()}
    return [_plain(item) for item in given.value] if isinstance(given.value, list) else given.value


def _fits(value: object, slot: ValueType) -> bool:
    if isinstance(value, dict | list) or (slot.choices and value not in slot.choices):
        return False
    try:
        convert(value, Annotated[slot.base, slot.bounds] if slot.bounds else slot.base)
    except ValidationError:
        return False
    return True


def _is_like(value: object, slot: ValueType) -> bool:
    kind = dict if slot.section is not None else list if slot.base is tuple else slot.base
    return isinstance(kind, type) and isinstance(value, kind)


def _sentence(error: ValueError) -> str:
    text = str(error)
    return text if text.endswith((".", "?", "。", "？")) else _("{words}.", words=text)


def wanted(slot: ValueType) -> str:
    """What a key takes, in words: `a whole number from 1 to 20`, `one of "text", "json"`."""
    said = _kind(slot)
    if True in slot.kind.words:
        said = _("{kind} or true or false", kind=said)
    return _("{kind} or a whole number", kind=said) if slot.kind.numbers else said


def _kind(slot: ValueType) -> str:
    if slot.options:
        return either(wanted(option) for option in slot.options)
    if slot.choices:
        return _("one of {choices}", choices=", ".join(json.dumps(choice) for choice in slot.choices))
    if slot.base is tuple and slot.inner is not None:
        return _("a list of texts") if _is_text(slot.inner) else _("a list, each {kind}", kind=wanted(slot.inner))
    if slot.base is dict and slot.named is None:
        anything = slot.inner is not None and slot.inner.base in (object, dict)
        return _("a group of names and values") if anything else _("a group of names and texts")
    if slot.base is dict or slot.section is not None:
        return _("a group of keys")
    if slot.base is bool:
        return _("true or false")
    return _number(slot) if slot.base in (int, float) else _("a text")


def _is_text(slot: ValueType) -> bool:
    others = slot.options or slot.choices or slot.section or slot.kind.numbers or True in slot.kind.words
    return not others and slot.base not in (tuple, dict, bool, int, float)


def _number(slot: ValueType) -> str:
    said = _("a whole number") if slot.base is int else _("a number")
    low, over, high = (getattr(slot.bounds, name, None) for name in ("ge", "gt", "le"))
    told = {"kind": said, "low": low if over is None else over, "high": high}
    if over is not None:
        return _("{kind} above {low}", **told) if high is None else _("{kind} above {low} up to {high}", **told)
    if low is None:
        return said if high is None else _("{kind} up to {high}", **told)
    return _("{kind} from {low} up", **told) if high is None else _("{kind} from {low} to {high}", **told)


def got(value: object, *, secret: bool) -> str:
    """What was given, in words; never the value itself where it is a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _("a text") if secret else f'"{shorten(squeeze(value), _SHOWN)}"'
        case int() | float():
            return _("a number") if secret else shorten(json.dumps(value), _SHOWN)
        case list():
            return _("a list")
        case _:
            return _("a group of keys")


def _nearest_value(value: object, slot: ValueType) -> str:
    if isinstance(value, str):
        return _nearest_to_text(value, slot) if len(value) <= _SHOWN else ""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if slot.base is bool and value in (0, 1):
        return _("Write {value}.", value="true" if value else "false")
    if slot.base is tuple and number:
        return _("Write {value}.", value=f"[{value}]")
    if slot.base is str and number and not slot.choices:
        return _("Write {value}.", value=f'"{value}"')
    if slot.base in (int, float) and isinstance(value, int | float) and number:
        low, high = (getattr(slot.bounds, name, None) for name in ("ge", "le"))
        near = low if low is not None and value < low else high if high is not None and value > high else round(value)
        return _("The nearest is {near}.", near=near) if near != value or slot.base is int else ""
    return ""


def _nearest_to_text(text: str, slot: ValueType) -> str:
    word = text.strip()
    if slot.choices:
        near = nearest(text, slot.choices)
        return _('Did you mean "{near}"?', near=near) if near else ""
    if slot.base is bool:
        switch = _SWITCHES.get(word.lower())
        return _("Write {value} without quotes.", value=switch) if switch else ""
    if slot.base in (int, float) and re.fullmatch(r"-?\d+(\.\d+)?", word):
        return _("Write {value} without quotes.", value=word)
    return _("Write {value}.", value=f"[{json.dumps(text, ensure_ascii=False)}]") if slot.base is tuple else ""
