"""What a definition takes from an event: its correlation key, its aggregate, the reason of a failure."""

from __future__ import annotations

import json
from typing import Any

from .definition import CORRELATION_ID

KEY_LENGTH = 200


class Document:
    """An event's payload, read only if somebody asks."""

    def __init__(self, correlation_id: str, payload: str) -> None:
        self._correlation_id = correlation_id
        self._payload = payload
        self._value: Any = None
        self._is_read = False

    def key(self, path: str | None) -> str | None:
        """A text by which something is known; None if there is none, or none that can be used."""
        value = self._correlation_id if path == CORRELATION_ID else self._find(path)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not 1 <= len(value) <= KEY_LENGTH:
            return None
        return value if value.isprintable() and value == value.strip() else None

    def text(self, path: str, limit: int) -> str:
        value = self._find(path)
        if value is None or isinstance(value, dict | list):
            return ""
        return printable(str(value), limit)

    def _find(self, path: str | None) -> Any:
        if path is None:
            return None
        if not self._is_read:
            self._value, self._is_read = _read(self._payload), True
        value = self._value
        for name in path.split(".")[1:]:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value


def printable(text: str, limit: int) -> str:
    """Others read it, on a terminal too: nothing in it may act upon that, or turn round the text beside it."""
    return "".join(sign if sign.isprintable() else " " for sign in text[:limit]).strip()


def _read(payload: str) -> Any:
    """None if it cannot be read: whoever writes events by SQL may store what is no JSON, or JSON beyond any bounds."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None
