"""Where the parts of a JSON text begin and end, so that a payload can be taken out of it letter for letter.

Only the outer objects are walked here; what a value holds is left to the library's own scanner. It is lenient about
what the text means (numbers of any size, keys named twice): whoever takes a part reads that part strictly, and so one
bad payload spoils its own event and not the batch around it.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

BLANKS = re.compile(r"[ \t\n\r]*")
# Whatever opens, closes or hides brackets.
BRACKETS = re.compile(r'["\[\]{}]')
CLOSING = {"[": "]", "{": "}"}
# Numbers of thousands of digits are an error to int() and infinite to float(), which is all that is asked here. NaN and
# the infinities, which JSON does not have, must not look like null: whoever takes a text finds that it is none.
_decoder: Any = json.JSONDecoder(parse_int=float, parse_constant=float)
_scan = _decoder.scan_once


class Malformed(ValueError):
    """Not JSON; the message says where."""


class Part(NamedTuple):
    """`value` is TOO_DEEP if it was too deep to be read."""

    value: Any
    start: int
    end: int


TOO_DEEP = object()


def whole(text: str) -> Part:
    """The one value that the text consists of."""
    part = _value(text, _skip(text, 0))
    if _skip(text, part.end) != len(text):
        raise _malformed(text, "Extra data", part.end)
    return part


def members(text: str, start: int) -> list[tuple[str, Part]]:
    """The members of the object that begins at `start`, in order; a key may be there twice."""
    found: list[tuple[str, Part]] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        return found
    while True:
        if text[at : at + 1] != '"':
            raise _malformed(text, "Expecting property name enclosed in double quotes", at)
        key, at = _string(text, at)
        at = _expect(text, ":", _skip(text, at))
        part = _value(text, at)
        found.append((key, part))
        at = _skip(text, part.end)
        if text[at : at + 1] == "}":
            return found
        at = _expect(text, ",", at)


def items(text: str, start: int) -> list[Part]:
    """The items of the array that begins at `start`."""
    found: list[Part] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        return found
    while True:
        part = _value(text, at)
        found.append(part)
        at = _skip(text, part.end)
        if text[at : at + 1] == "]":
            return found
        at = _expect(text, ",", at)


def _value(text: str, at: int) -> Part:
    try:
        value, end = _scan(text, at)
    except StopIteration:
        raise _malformed(text, "Expecting value", at) from None
    except json.JSONDecodeError as error:
        raise Malformed(_said(error)) from None
    except RecursionError:
        return Part(TOO_DEEP, at, _end_of_brackets(text, at))
    return Part(value, at, end)


def _end_of_brackets(text: str, at: int) -> int:
    """Where a value ends that is nested too deep for the scanner."""
    open_brackets: list[str] = []
    while found := BRACKETS.search(text, at):
        sign, at = found.group(), found.end()
        if sign == '"':
            _, at = _string(text, found.start())
        elif sign in CLOSING:
            open_brackets.append(CLOSING[sign])
        elif open_brackets.pop() != sign:
            raise _malformed(text, "Mismatched bracket", found.start())
        if not open_brackets:
            return at
    raise _malformed(text, "Unterminated value", len(text))


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        value, end = scanstring(text, at + 1, True)
    except json.JSONDecodeError as error:
        raise Malformed(_said(error)) from None
    return str(value), int(end)


def _skip(text: str, at: int) -> int:
    blanks = BLANKS.match(text, at)
    assert blanks is not None
    return blanks.end()


def _expect(text: str, sign: str, at: int) -> int:
    if text[at : at + 1] != sign:
        raise _malformed(text, f"Expecting '{sign}' delimiter", at)
    return _skip(text, at + 1)


def _malformed(text: str, why: str, at: int) -> Malformed:
    return Malformed(_said(json.JSONDecodeError(why, text, at)))


def _said(error: json.JSONDecodeError) -> str:
    return f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
