"""JSON pointers (RFC 6901)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

MAX_LENGTH = 200
VALID = re.compile(r"(?:/(?:[^~/]|~[01])*)*\Z")
INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


class Missing(LookupError):
    """The document has no such place."""


@dataclass(frozen=True)
class Pointer:
    """A place in a JSON document. Without parts, the whole document."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Pointer:
        """Raises ValueError if the text is not a pointer."""
        if not VALID.match(text):
            raise ValueError("must be a JSON pointer such as /order/region, with ~0 for ~ and ~1 for / in a name")
        return cls(tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]))

    @classmethod
    def from_fragment(cls, text: str) -> Pointer:
        """From the form in a URL, such as #/$defs/a%20b."""
        return cls.parse(unquote(text.removeprefix("#")))

    def find(self, document: Any) -> Any:
        """The value at this place. Raises Missing."""
        value = document
        for part in self.parts:
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and INDEX.match(part) and int(part) < len(value):
                value = value[int(part)]
            else:
                raise Missing(part)
        return value

    def __str__(self) -> str:
        return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in self.parts)
