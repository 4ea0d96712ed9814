"""Taking what must not be read out of a text that somebody else has written.

Both are read without their escapes and compared like that: languages differ in what they escape, and how. It takes
time in proportion to the text, whatever is hidden and whatever the text is: whoever sends it may mean harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.entities import html5
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

MASK = "•••"
# Anything shorter is no secret, and hiding it would leave holes everywhere.
SHORTEST = 4
# In an address a plus is a blank.
FOLDED = str.maketrans(ascii_uppercase + "+", ascii_lowercase + " ")
# How JSON and programs, addresses and pages write a sign, escaped once or more; or the beginning of that, at the end of
# a text that was cut off. Backslashes before other signs mean nothing. No part of it is ever tried in two ways.
ESCAPE = re.compile(
    r"""
      \\++ (?: u(?P<code>[0-9a-f]{4}) | x(?P<short_code>[0-9a-f]{2}) | (?: u[0-9a-f]{0,3} | x[0-9a-f]? ) \Z )?+
    | (?P<bytes> (?: % (?:25)*+ [89a-f][0-9a-f] )++ )
    | % (?:25)*+ (?: (?P<byte>[0-7][0-9a-f]) | [0-9a-f]? \Z )
    | (?P<percent> % (?:25)++ )
    | & (?:amp;)*+ (?:
          \#0*+(?P<number>[0-9]{1,7}); | \#x0*+(?P<hex>[0-9a-f]{1,6}); | (?P<name>[a-z][a-z0-9]{1,31});
        | (?: \#x?[0-9a-f]{0,7} | [a-z0-9]{0,31} ) \Z
      )
    | (?P<ampersand> & (?:amp;)++ )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
LARGEST_CODE = 0x10FFFF


class Hidden(NamedTuple):
    """Values that are not to be seen: wherever they stand whole, and at the end what may be the beginning of one."""

    as_written: tuple[str, ...]
    as_meant: tuple[str, ...]


def hidden(values: Iterable[str]) -> Hidden:
    written = {value for value in values if len(value) >= SHORTEST}
    meant = {value for value in map(_unescaped, written) if len(value) >= SHORTEST}
    return Hidden(tuple(map(_folded, written)), tuple(map(_folded, meant)))


def mask(text: str, hidden: Hidden) -> str:
    """The text without what is hidden, in any letter case and however it is escaped; nor does it end in the beginning
    of one, as a text that was cut off may."""
    # As it is written, too: what stands before a value may make an escape of the value's first signs.
    places = list(_places(_folded(text), hidden.as_written))
    if found := list(_places(_folded(_unescaped(text)), hidden.as_meant)):
        starts, ends = _signs(text)
        places += [(starts[first], ends[behind - 1] if behind < len(starts) else len(text)) for first, behind in found]
    kept, at = [], 0
    for start, end in _apart(sorted(places)):
        kept += [text[at:start], MASK]
        at = end
    return "".join([*kept, text[at:]]) if places else text


def _places(text: str, values: Iterable[str]) -> Iterator[tuple[int, int]]:
    """From where to where a value stands, or begins at the end."""
    for value in values:
        at = 0
        while (at := text.find(value, at)) != -1:
            yield at, at + len(value)
            at += len(value)
        at = max(-1, len(text) - len(value))
        while (at := text.find(value[:SHORTEST], at + 1)) != -1:
            if value.startswith(text[at:]):
                yield at, len(text)
                break


def _apart(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Places in their order, those that overlap as one."""
    before: tuple[int, int] | None = None
    for start, end in places:
        if before is not None and start < before[1]:
            before = before[0], max(before[1], end)
            continue
        if before is not None:
            yield before
        before = start, end
    if before is not None:
        yield before


def _folded(text: str) -> str:
    """Without letter cases. Every sign stays in its place: of the letters that would become two the case is kept."""
    return text.lower().replace("+", " ") if text.isascii() else text.translate(FOLDED)


def _unescaped(text: str) -> str:
    return ESCAPE.sub(_as_meant, text) if "\\" in text or "%" in text or "&" in text else text


def _as_meant(escape: re.Match[str]) -> str:
    meant = _meant(escape)
    return escape[0] if meant is None else meant


def _signs(text: str) -> tuple[list[int], list[int]]:
    """Where in a text each sign of what it means begins and ends."""
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for escape in ESCAPE.finditer(text):
        meant = _meant(escape)
        if meant is None:
            continue
        starts += [*range(at, escape.start()), *[escape.start()] * len(meant)]
        ends += [*range(at + 1, escape.start() + 1), *[escape.end()] * len(meant)]
        at = escape.end()
    return [*starts, *range(at, len(text))], [*ends, *range(at + 1, len(text) + 1)]


def _meant(escape: re.Match[str]) -> str | None:
    """The signs that an escape stands for, perhaps none; None if it is no escape but looks like one."""
    kind, written = escape.lastgroup, escape[escape.lastgroup or 0]
    match kind:
        case "code" | "short_code" | "byte" | "hex":
            return _sign(int(written, 16))
        case "number":
            return _sign(int(written))
        case "bytes":
            return bytes.fromhex(re.sub("%(?:25)*+", "", written)).decode(errors="replace")
        case "percent":
            return "%"
        case "ampersand":
            return "&"
        case "name":
            return html5.get(f"{written};") or html5.get(f"{written.lower()};")
        case _:
            return ""


def _sign(code: int) -> str | None:
    return chr(code) if code <= LARGEST_CODE else None
