"""Filters on the labels of events: a list of conditions, all of which must hold.

    [{"label": "region", "one_of": ["eu", "us"]}, {"not": {"label": "test", "exists": true}}]

Pure functions: the router applies them, and the same functions judge past events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_CONDITIONS = 16
MAX_VALUES = 100
LABEL_NAME = re.compile(r"[a-z0-9_.-]{1,64}\Z")
LABEL_NAME_RULE = "a label's name must be 1 to 64 lower-case letters, digits, dots, dashes and underscores"
VALUE_LENGTH = 256
VALUE_RULE = f"must be a text of at most {VALUE_LENGTH} characters"
KINDS = ("equals", "one_of", "prefix", "exists")
FORM = f'must be an object such as {{"label": "region", "equals": "eu"}}, with one of {", ".join(KINDS)}'
Labels = Mapping[str, str]


class InvalidFilter(ValueError):
    """`place` is the place of the error within the filter, such as [0].one_of; `why` says what would be right."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place} {why}".strip())
        self.place = place
        self.why = why


@dataclass(frozen=True, slots=True)
class Condition:
    """`value` is a text, a tuple of texts for one_of, or True for exists."""

    label: str
    kind: str
    value: str | tuple[str, ...] | bool
    negated: bool = False

    def holds(self, labels: Labels) -> bool:
        return self._holds(labels.get(self.label)) is not self.negated

    def _holds(self, found: str | None) -> bool:
        if found is None:
            return False
        match self.kind:
            case "equals":
                return found == self.value
            case "one_of":
                assert isinstance(self.value, tuple)
                return found in self.value
            case "prefix":
                assert isinstance(self.value, str)
                return found.startswith(self.value)
            case _:
                return True

    def as_json(self) -> dict[str, Any]:
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        condition = {"label": self.label, self.kind: value}
        return {"not": condition} if self.negated else condition


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """`is_readable` is False for a stored text that is no filter: it accepts nothing."""

    conditions: tuple[Condition, ...]
    is_readable: bool = True

    def accepts(self, labels: Labels) -> bool:
        return self.is_readable and all(condition.holds(labels) for condition in self.conditions)

    def as_json(self) -> list[dict[str, Any]]:
        return [condition.as_json() for condition in self.conditions]

    def __str__(self) -> str:
        return json.dumps(self.as_json(), ensure_ascii=False)


UNREADABLE = LabelFilter((), is_readable=False)


def parse(conditions: Any) -> LabelFilter | None:
    """The filter; None if there are no conditions. Raises InvalidFilter, which names the condition."""
    if not isinstance(conditions, list):
        raise InvalidFilter("", "must be a list of conditions")
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidFilter("", f"has {len(conditions)} conditions; at most {MAX_CONDITIONS} are allowed")
    parsed = tuple(_condition(condition, f"[{index}]") for index, condition in enumerate(conditions))
    return LabelFilter(parsed) if parsed else None


def read(text: str) -> LabelFilter | None:
    """The filter of a JSON text. Raises InvalidFilter."""
    try:
        conditions = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidFilter("", f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidFilter("", "is nested too deeply") from None
    return parse(conditions)


def stored(text: str) -> LabelFilter | None:
    """The filter of a stored text. One that another program has stored may be unreadable."""
    try:
        return read(text)
    except InvalidFilter:
        return UNREADABLE


def _condition(value: Any, place: str, *, negated: bool = False) -> Condition:
    if not isinstance(value, dict):
        raise InvalidFilter(place, FORM)
    if "not" in value:
        if negated or len(value) > 1:
            raise InvalidFilter(place, 'must have the form {"not": {"label": …}}, with a single condition within')
        return _condition(value["not"], f"{place}.not", negated=True)
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) != 1 or value.keys() != {"label", kinds[0]}:
        raise InvalidFilter(place, FORM)
    label = value["label"]
    if not isinstance(label, str) or not LABEL_NAME.match(label):
        raise InvalidFilter(f"{place}.label", f"is not valid: {LABEL_NAME_RULE}")
    return Condition(label, kinds[0], CHECKS[kinds[0]](value[kinds[0]], f"{place}.{kinds[0]}"), negated)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or len(value) > VALUE_LENGTH or not value.isprintable():
        raise InvalidFilter(place, VALUE_RULE)
    return value


def _prefix(value: Any, place: str) -> str:
    if _text(value, place) == "":
        raise InvalidFilter(place, 'must not be empty; use {"exists": true} for any value')
    return str(value)


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_VALUES:
        raise InvalidFilter(place, f"must be a list of 1 to {MAX_VALUES} texts")
    return tuple(_text(item, f"{place}[{index}]") for index, item in enumerate(value))


def _true(value: Any, place: str) -> bool:
    if value is not True:
        raise InvalidFilter(place, 'must be true; use {"not": {…}} for labels that must not exist')
    return True


CHECKS: Mapping[str, Callable[[Any, str], Any]] = {
    "equals": _text,
    "one_of": _texts,
    "prefix": _prefix,
    "exists": _true,
}
