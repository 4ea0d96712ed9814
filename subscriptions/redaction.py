"""Taking what must not be read out of a text that somebody else has written."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from html.entities import html5
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple
from urllib.parse import quote

MASK = "•••"
# Anything shorter is no secret, and hiding it would leave holes everywhere.
SHORTEST = 4
LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
NOTHING = re.compile(r"(?!)")
ENTITIES: dict[str, list[str]] = {}
for _name, _character in html5.items():
    if _name.endswith(";") and len(_character) == 1:
        ENTITIES.setdefault(_character, []).append(_name)


class Hidden(NamedTuple):
    """Values that are not to be seen: wherever they stand whole, and what may be the beginning of one at the end."""

    whole: re.Pattern[str]
    spellings: tuple[str, ...]


def hidden(values: Iterable[str]) -> Hidden:
    secret = {value for value in values if len(value) >= SHORTEST}
    return Hidden(_whole(secret), _spellings(secret))


def mask(text: str, hidden: Hidden) -> str:
    """The text without what is hidden, in any letter case; nor does it end in the beginning of one, as a text that was
    cut off may."""
    lowered = _lower(text)
    for spelling in hidden.spellings:
        at = lowered.find(spelling[:SHORTEST])
        while at != -1:
            rest = lowered[at : at + len(spelling)]
            if spelling.startswith(rest):  # all of it, or what is left of it at the end
                text = text[:at] + MASK + text[at + len(rest) :]
                lowered = lowered[:at] + MASK + lowered[at + len(rest) :]
                at += len(MASK) - 1
            at = lowered.find(spelling[:SHORTEST], at + 1)
    return hidden.whole.sub(MASK, text)


def _whole(values: set[str]) -> re.Pattern[str]:
    """Any of the values, each sign of which may be escaped in its own way: languages differ in what they escape."""
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    parts = ["".join(map(_any_spelling, value)) for value in longest_first]
    return re.compile("|".join(parts), re.IGNORECASE | re.ASCII) if parts else NOTHING


def _any_spelling(character: str) -> str:
    if character.isalnum():
        return re.escape(character)
    code = ord(character)
    spelled = [
        rf"\\*{re.escape(character)}",
        rf"\\+u{code:04x}",
        rf"\\+x{code:02x}",
        *(f"%(?:25)*{byte:02x}" for byte in character.encode()[:1]),
        rf"&(?:amp;)*#0*{code};",
        rf"&(?:amp;)*#x0*{code:x};",
        *(rf"&(?:amp;)*{re.escape(name)}" for name in ENTITIES.get(character, ())),
    ]
    if character == " ":
        spelled.append(r"\+")
    return f"(?:{'|'.join(spelled)})"


def _spellings(values: set[str]) -> tuple[str, ...]:
    """How each value may begin at the end of a text: as it is, or escaped as most do it. The longest first."""
    found = set()
    for value in values:
        in_pages = html.escape(value), html.escape(value, quote=False)
        in_documents = json.dumps(value)[1:-1], json.dumps(value)[1:-1].replace("/", "\\/")
        found |= {value, *in_pages, *in_documents, quote(value), quote(value, safe="")}
    return tuple(sorted({_lower(spelling) for spelling in found}, key=lambda spelling: (-len(spelling), spelling)))


def _lower(text: str) -> str:
    # str.lower makes some letters two, and what is found in the one would not be in its place in the other.
    return text.lower() if text.isascii() else text.translate(LOWER)
