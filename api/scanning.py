"""Where the parts of a JSON text begin and end, so that a payload can be taken out of it letter for letter.

Only the outer objects are walked here, and no further than is asked for; what a value holds is left to the library's
own scanner. It is lenient about what the text means (numbers of any size, keys named twice): whoever takes a part reads
that part strictly, and so one bad payload spoils its own event and not the batch around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from events import payloads

BLANKS = re.compile(r"[ \t\n\r]*")
# As far as the next brackets: some that open (1), some that close (2), or none; strings may hide others. Nothing is
# tried twice (the second plus): a text must not be able to make this slow.
TOKENS = re.compile(r'(?:[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+")*+(?:([\[{]++)|([\]}]++)|"|\Z)', re.DOTALL)
# The body, its list of events, an event, and the payload itself.
OUTER_LEVELS = 4
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


class Body:
    """A JSON text and its outer parts."""

    def __init__(self, text: str) -> None:
        self.text = text

    def whole(self) -> Part:
        """The one value that the text consists of."""
        part = self._value(_skip(self.text, 0))
        end = _skip(self.text, part.end)
        if end != len(self.text):
            raise _malformed(self.text, "Extra data", end)
        return part

    def members(self, start: int) -> Iterator[tuple[str, Part]]:
        """The members of the object that begins at `start`, in order; a key may be there twice."""
        text = self.text
        at = _skip(text, start + 1)
        if text[at : at + 1] == "}":
            return
        while True:
            if text[at : at + 1] != '"':
                raise _malformed(text, "Expecting property name enclosed in double quotes", at)
            key, at = _string(text, at)
            at = _expect(text, ":", _skip(text, at))
            part = self._value(at)
            yield key, part
            at = _skip(text, part.end)
            if text[at : at + 1] == "}":
                return
            at = _expect(text, ",", at)

    def items(self, start: int) -> Iterator[Part]:
        """The items of the array that begins at `start`."""
        text = self.text
        at = _skip(text, start + 1)
        if text[at : at + 1] == "]":
            return
        while True:
            part = self._value(at)
            yield part
            at = _skip(text, part.end)
            if text[at : at + 1] == "]":
                return
            at = _expect(text, ",", at)

    def _value(self, at: int) -> Part:
        try:
            value, end = _scan(self.text, at)
        except StopIteration as error:
            # Not `at`: what is missing may lie deep within the value that begins there.
            raise _malformed(self.text, "Expecting value", error.value) from None
        except json.JSONDecodeError as error:
            raise Malformed(_said(error)) from None
        except RecursionError:
            if at not in self._deep:
                raise _malformed(self.text, "Unterminated value", len(self.text)) from None
            return Part(TOO_DEEP, at, self._deep[at])
        return Part(value, at, end)

    @cached_property
    def _deep(self) -> dict[int, int]:
        """Where values begin and end that are nested too deep to be read; outer ones alone, for no other is asked for.

        Found for all of them in one walk from bracket to bracket, not once for each level around them. What they hold
        is not looked at: it is refused whatever it is.
        """
        text, found = self.text, {}
        starts: list[int] = []  # of the outer values that are open
        depth = 0
        deep = -1  # where the last bracket is that is too deep: so are the values around it
        for token in TOKENS.finditer(text):
            match token.lastindex:
                case 1:
                    start, end = token.span(1)
                    starts.extend(range(start, min(end, start + OUTER_LEVELS - depth)))
                    depth += end - start
                    if depth > OUTER_LEVELS - 1 + payloads.MAX_DEPTH:
                        deep = end
                case 2:
                    start, end = token.span(2)
                    for at in range(start + max(0, depth - OUTER_LEVELS), end):
                        if not starts or CLOSING[text[starts[-1]]] != text[at]:
                            raise _malformed(text, "Mismatched bracket", at)
                        began = starts.pop()
                        if began < deep:
                            found[began] = at + 1
                    depth -= end - start
                case _:
                    break
        return found


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
