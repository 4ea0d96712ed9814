"""Taking what must not be read out of a text that somebody else has written."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase
from urllib.parse import quote

MASK = "•••"
# Anything shorter is no secret, and hiding it would leave holes everywhere.
SHORTEST = 4
LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def spellings(values: Iterable[str]) -> tuple[str, ...]:
    """How each value may appear in a page or a document: as it is, or escaped. The longest first."""
    found = set()
    for value in values:
        if len(value) >= SHORTEST:
            in_pages = html.escape(value), html.escape(value, quote=False)
            found |= {value, *in_pages, json.dumps(value)[1:-1], quote(value), quote(value, safe="")}
    return tuple(sorted({_lower(spelling) for spelling in found}, key=lambda spelling: (-len(spelling), spelling)))


def mask(text: str, hidden: Sequence[str]) -> str:
    """The text without `hidden`, in any letter case; nor does it end in the beginning of one, as a text cut off may."""
    lowered = _lower(text)
    for spelling in hidden:
        at = lowered.find(spelling[:SHORTEST])
        while at != -1:
            rest = lowered[at : at + len(spelling)]
            if spelling.startswith(rest):  # all of it, or what is left of it at the end
                text = text[:at] + MASK + text[at + len(rest) :]
                lowered = lowered[:at] + MASK + lowered[at + len(rest) :]
                at += len(MASK) - 1
            at = lowered.find(spelling[:SHORTEST], at + 1)
    return text


def _lower(text: str) -> str:
    # str.lower makes some letters two, and what is found in the one would not be in its place in the other.
    return text.lower() if text.isascii() else text.translate(LOWER)
