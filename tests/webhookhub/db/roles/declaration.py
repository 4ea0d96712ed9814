"""The declaration of the roles, parsed for the tests."""

from __future__ import annotations

import re

from webhookhub.db.roles import BY_NAME

WORDS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def columns(role: str, word: str, table: str) -> set[str]:
    """The columns that `word` is allowed on: {""} for the whole table, empty for none."""
    match = re.search(rf"\b{word}\b(?: \(([^)]*)\))?", BY_NAME[role].tables.get(table, ""))
    if match is None:
        return set()
    return set(match[1].split(", ")) if match[1] else {""}


def may(role: str, word: str, table: str, column: str = "") -> bool:
    return bool(columns(role, word, table) & {"", column})
