"""Taking what must not be read out of a text that somebody else has written.

Languages differ in what they escape, and how, and put one into the other. So both are read again and again, each time
without one layer of escapes, until nothing is left of them; what is hidden is looked for in every reading, in each of
its own. It takes time in proportion to the text, whatever is hidden and whatever the text is: whoever sends it may mean
harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from html.entities import html5
from typing import NamedTuple

MASK = "•••"
# Anything shorter is no secret, and hiding it would leave holes everywhere.
SHORTEST = 4
# The same for what is only a part of a value.
SHORTEST_PART = 8
# Layers of escapes that are taken off.
LAYERS = 8
# Of a longer value only so much is looked for, and as much hidden as it is long.
LONGEST_SOUGHT = 64
# No ordinary subscription has so much to hide. Of an answer to one that has, nothing is shown: to look for all of it
# would keep a worker from its work.
MOST_SOUGHT = 300
# How JSON and programs, addresses and pages write a sign. No part of it is ever tried in two ways.
ESCAPE = re.compile(
    r"""
      \\ (?:
          (?P<itself>[\\/"']) | u(?P<high>d[89ab][0-9a-f]{2}) \\u(?P<low>d[c-f][0-9a-f]{2})
        | (?-i:U)(?P<long_code>[0-9a-f]{8}) | u(?P<code>[0-9a-f]{4}) | u\{0*+(?P<braced_code>[0-9a-f]{1,6})\}
        | x(?P<short_code>[0-9a-f]{2}) | (?P<octal>[0-3][0-7]{2})
      )
    | (?P<bytes> %[89a-f][0-9a-f] (?: %[89ab][0-9a-f] ){0,3}+ )
    | % (?: (?P<byte>[0-7][0-9a-f]) | u(?P<script_code>[0-9a-f]{4}) )
    | & (?:
          (?: \#0*+(?P<number>[0-9]{1,7}+) | \#x0*+(?P<hex>[0-9a-f]{1,6}+) ) (?: ; | (?!\Z) )
        | (?P<name>[a-z][a-z0-9]{1,31}+);
      )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
# Before other signs they mean nothing; looked at last, as the other sign may be escaped itself. At the end they may
# have been cut off from what they escape.
BACKSLASHES = re.compile(r"(?P<nothing>(?<!\\)\\++)(?!(?:u\{?+[0-9a-f]{0,7}+|x[0-9a-f]?+)\Z)", re.IGNORECASE | re.ASCII)
# What may be the beginning of escapes at the end of a text that was cut off, or what was read of such a beginning.
CUT_OFF = re.compile(
    r"""
    (?: [\ufffd\ud800-\udbff]
      | \\++ (?: u\{[0-9a-f]{0,6}+ | u[0-9a-f]{0,7}+ | x[0-9a-f]?+ | [0-3][0-7]?+ )?+
      | % (?: u[0-9a-f]{0,3}+ | [0-9a-f]?+ )
      | & (?: \#x?+[0-9a-f]{0,7}+ | [a-z0-9]{0,31}+ )
    )++ \Z
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
# Signs at the end in which it is looked for.
LONGEST_CUT_OFF = 40
# What signs before a value may make an escape of, as `%` does of `2f`.
TAKEN_FOR_ESCAPE = re.compile(
    r"u[0-9a-f]{4}|x[0-9a-f]{2}|[0-3][0-7]{2}|(?:25)*[0-9a-f]{2}|\#x?[0-9a-f]{1,6};?|[a-z][a-z0-9]{1,31};",
    re.IGNORECASE | re.ASCII,
)
# After a backslash the letter stands for the sign; it is what is left if backslashes mean nothing.
WITHOUT_BACKSLASHES = str.maketrans("\a\b\t\n\v\f\r", "abtnvfr", "\\")
LARGEST_CODE = 0x10FFFF


class Hidden(NamedTuple):
    """Values that are not to be seen, in all their readings: wherever they stand whole, and at the end what may be the
    beginning of one."""

    # What is looked for, and how much of the text is hidden from there on.
    whole: Mapping[str, int]
    # What is left of them if the signs beside them are read with theirs.
    parts: Mapping[str, int]

    @property
    def is_too_much(self) -> bool:
        return len(self.whole) + len(self.parts) > MOST_SOUGHT


class Reading:
    """A text, or what it means without some layers of escapes; and where in the text each of its signs comes from."""

    def __init__(self, text: str, before: Reading | None = None, escapes: re.Pattern[str] = ESCAPE) -> None:
        self.text = text
        self.before = before
        self.escapes = escapes

    def next(self) -> Reading | None:
        """Without one more layer, if there is one."""
        if "\\" in self.text or "%" in self.text or "&" in self.text:
            for escapes in (ESCAPE, BACKSLASHES):
                meant = escapes.sub(_as_meant, self.text)
                if meant != self.text:
                    return Reading(meant, self, escapes)
        return None

    def origin(self, first: int, behind: int) -> tuple[int, int]:
        """Where in the text signs of this reading come from; those at the end from all that is left."""
        starts, ends = self._origins
        return starts[first], ends[behind - 1] if behind < len(self.text) else self._length

    @cached_property
    def _length(self) -> int:
        return self.before._length if self.before else len(self.text)

    @cached_property
    def _origins(self) -> tuple[Sequence[int], Sequence[int]]:
        if self.before is None:
            return range(len(self.text)), range(1, len(self.text) + 1)
        old_starts, old_ends = self.before._origins
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        for escape in self.escapes.finditer(self.before.text):
            meant = _meant(escape)
            if meant is None:
                continue
            start, end = escape.span()
            starts += [*old_starts[at:start], *[old_starts[start]] * len(meant)]
            ends += [*old_ends[at:start], *[old_ends[end - 1]] * len(meant)]
            at = end
        return [*starts, *old_starts[at:]], [*ends, *old_ends[at:]]


def hidden(values: Iterable[str]) -> Hidden:
    written = set(values)
    readings = {reading.text for value in written for reading in _readings(value)}
    # And as it is read where the text goes on.
    readings |= {reading.text[:-1] for value in written for reading in _readings(f"{value}\0")}
    readings |= {reading.translate(WITHOUT_BACKSLASHES) for reading in readings}
    whole = {_folded(reading) for reading in readings if len(reading) >= SHORTEST}
    parts = {part for reading in whole for part in _parts(reading) if len(part) >= SHORTEST_PART}
    return Hidden(_sought(whole), _sought(parts - whole))


def mask(text: str, hidden: Hidden) -> str:
    """The text without what is hidden, in any letter case and however it is escaped; nor does it end in the beginning
    of one, as a text that was cut off may."""
    if hidden.is_too_much:
        return MASK if text else text
    places = []
    for reading in _readings(text):
        folded = _folded(reading.text)
        places += [reading.origin(*place) for place in _places(folded, hidden.whole)]
        if reading.before:
            places += [reading.origin(*place) for place in _places(folded, hidden.parts)]
    kept, at = [], 0
    for start, end in _apart(sorted(places)):
        kept += [text[at:start], MASK]
        at = end
    return "".join([*kept, text[at:]]) if places else text


def _readings(text: str) -> Iterator[Reading]:
    reading: Reading | None = Reading(text)
    for _ in range(1 + LAYERS):
        if reading is None:
            break
        yield reading
        reading = reading.next()


def _parts(value: str) -> Iterator[str]:
    """A value without what signs beside it may make an escape of."""
    rests = [value]
    if taken := TAKEN_FOR_ESCAPE.match(value):
        rests.append(value[taken.end() :])
    for rest in rests:
        yield rest
        for end in _ends_if_cut_off(rest):
            yield rest[:end]


def _sought(values: Iterable[str]) -> dict[str, int]:
    sought: dict[str, int] = {}
    for value in values:
        head = value[:LONGEST_SOUGHT]
        sought[head] = max(len(value), sought.get(head, 0))
    return sought


def _places(text: str, sought: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """From where to where a value stands, or begins at the end."""
    ends = {len(text), *_ends_if_cut_off(text)}
    for head, length in sought.items():
        at = 0
        while (at := text.find(head, at)) != -1:
            yield at, min(at + length, len(text))
            at += length
        for end in ends:
            at = max(-1, end - len(head))
            while (at := text.find(head[:SHORTEST], at + 1, end)) != -1:
                if head.startswith(text[at:end]):
                    yield at, len(text)
                    break


def _ends_if_cut_off(text: str) -> set[int]:
    """Where the last whole sign may end, if the text was cut off in the middle of escapes: of the last of them, or of
    all that look like some."""
    first = max(0, len(text) - LONGEST_CUT_OFF)
    every = CUT_OFF.search(text, first)
    if every is None:
        return set()
    starts = (at for at in range(len(text) - 1, every.start(), -1) if CUT_OFF.match(text, at))
    return {every.start(), next(starts, every.start())}


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
    """Without letter cases, and with the blanks that are pluses in an address. Every sign stays in its place."""
    folded = text.lower() if text.isascii() else text.casefold()
    if len(folded) != len(text):
        folded = "".join(map(_folded_sign, text))
    return folded.replace("+", " ")


def _folded_sign(sign: str) -> str:
    """Of the letters that would become two the case is kept."""
    return next((folded for folded in (sign.casefold(), sign.lower()) if len(folded) == 1), sign)


def _as_meant(escape: re.Match[str]) -> str:
    meant = _meant(escape)
    return escape[0] if meant is None else meant


def _meant(escape: re.Match[str]) -> str | None:
    """The signs that an escape stands for, perhaps none; None if it is no escape but looks like one."""
    kind, written = escape.lastgroup, escape[escape.lastgroup or 0]
    match kind:
        case "code" | "long_code" | "short_code" | "braced_code" | "script_code" | "byte" | "hex":
            return _sign(int(written, 16))
        case "low":
            return bytes.fromhex(escape["high"] + written).decode("utf-16-be")
        case "octal":
            return _sign(int(written, 8))
        case "number":
            return _sign(int(written))
        case "bytes":
            return bytes.fromhex(written.replace("%", "")).decode(errors="replace")
        case "name":
            return html5.get(f"{written};") or html5.get(f"{written.lower()};")
        case "itself":
            return written
        case "nothing":
            return ""
        case _:
            return None


def _sign(code: int) -> str | None:
    return chr(code) if code <= LARGEST_CODE else None
