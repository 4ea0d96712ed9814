"""Lists in keyset pages: the cost of a page does not grow with the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest
from pydantic import BaseModel, Field

from webhookhub import signed_state
from webhookhub.db import keyset
from webhookhub.db.keyset import Page

from . import problems

PURPOSE = "api.pagination"
MAX_LIMIT = 200
# Rows that a page examines when no index covers all conditions.
WINDOW = 5000
Row = TypeVar("Row")


class PageRequest(BaseModel):
    limit: int = Field(50, ge=1, le=MAX_LIMIT, description="The maximum number of items.")
    cursor: str | None = Field(None, max_length=1000, description="`next` of the previous page.")

    @property
    def conditions(self) -> dict[str, Any]:
        """The filters of the list, without the page."""
        return self.model_dump(exclude={"limit", "cursor"}, exclude_none=True)


def page(
    fetch: Callable[[int], Iterable[Row]], limit: int, keep: Callable[[Sequence[Row]], Sequence[Row]] | None = None
) -> Page[Row]:
    """See keyset.page()."""
    return keyset.page(fetch, limit, window=WINDOW, keep=keep)


def require_known(request: HttpRequest, model: type[BaseModel]) -> None:
    """Refuse unknown and repeated parameters: a misspelt filter must not be ignored."""
    for name, values in request.GET.lists():
        if name not in model.model_fields:
            raise problems.invalid(name[:100], f"is not a parameter; use one of {', '.join(model.model_fields)}")
        if len(values) > 1:
            raise problems.invalid(name, "is given twice")


def sign(list_name: str, conditions: Mapping[str, Any], position: Sequence[Any]) -> str:
    """A cursor that is valid for the same list with the same conditions only."""
    return signed_state.sign(list(position), PURPOSE, _digest(list_name, conditions))


def read(list_name: str, conditions: Mapping[str, Any], cursor: str | None) -> list[Any] | None:
    """The position that was signed; None without a cursor."""
    if cursor is None:
        return None
    try:
        position: list[Any] = signed_state.read(cursor, PURPOSE, _digest(list_name, conditions))
    except BadRequest:
        raise problems.invalid("cursor", "is not a valid cursor") from None
    except PermissionDenied:
        raise problems.invalid("cursor", "belongs to another list; keep the other parameters unchanged") from None
    return position


def _digest(list_name: str, conditions: Mapping[str, Any]) -> str:
    text = json.dumps([list_name, {name: str(value) for name, value in conditions.items()}], sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]
