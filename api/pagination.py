"""Lists in pages, each found by where the last one ended: no page costs more because the table has become long.

Where no index knows a condition, a page looks at a bounded stretch of the table and may be short, or empty, while
`next` still leads on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from django.core import signing
from django.http import HttpRequest
from pydantic import BaseModel, Field

from . import problems

SALT = "api.pagination"
MOST_LISTED = 200
# Rows that a page looks at where conditions have to be held against each.
WINDOW = 5000
Row = TypeVar("Row")


class PageRequest(BaseModel):
    limit: int = Field(50, ge=1, le=MOST_LISTED, description="How many at most.")
    cursor: str | None = Field(None, max_length=1000, description="`next` of the page before, to go on from there.")


class Stretch(Generic[Row]):
    """What one page has found, and the last row that it looked at if there may be more behind it."""

    def __init__(self, rows: list[Row], last: Row | None) -> None:
        self.rows = rows
        self.last = last


def stretch(
    look: Callable[[int], Iterable[Row]], limit: int, keep: Callable[[Sequence[Row]], Sequence[Row]] | None = None
) -> Stretch[Row]:
    """One page: `look` gives the next so many rows in order, `keep` those of them that are wanted."""
    if keep is None:
        rows = list(look(limit + 1))
        return Stretch(rows[:limit], rows[limit - 1] if len(rows) > limit else None)
    window = list(look(WINDOW))
    kept = list(keep(window))
    if len(kept) > limit:
        return Stretch(kept[:limit], kept[limit - 1])
    return Stretch(kept, window[-1] if len(window) == WINDOW else None)


def require_known(request: HttpRequest, model: type[BaseModel]) -> None:
    """A filter that is misspelt must not be taken for none."""
    for name, values in request.GET.lists():
        if name not in model.model_fields:
            raise problems.invalid(name[:100], f"is no parameter here; there are {', '.join(model.model_fields)}")
        if len(values) > 1:
            raise problems.invalid(name, "is given twice")


def seal(list_name: str, conditions: Mapping[str, Any], position: Sequence[Any]) -> str:
    """A cursor that fits the same list with the same conditions only."""
    return signing.dumps([_digest(list_name, conditions), *position], salt=SALT)


def opened(list_name: str, conditions: Mapping[str, Any], cursor: str | None) -> list[Any] | None:
    if cursor is None:
        return None
    try:
        digest, *position = signing.loads(cursor, salt=SALT)
    except (signing.BadSignature, ValueError, TypeError):
        raise problems.invalid("cursor", "is not one that was given out here") from None
    if digest != _digest(list_name, conditions):
        raise problems.invalid("cursor", "belongs to another list; keep the other parameters as they were")
    return list(position)


def _digest(list_name: str, conditions: Mapping[str, Any]) -> str:
    text = json.dumps([list_name, {name: str(value) for name, value in conditions.items()}], sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]
