"""Write the audit log.

Record an action in the transaction that performs it or, where there is none, before its first step. A crash may then
leave an entry of an unfinished action, but never a finished action without an entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Model

from webhookhub.validators import REASON_LENGTH

from . import context
from .models import NAME_LENGTH, OBJECT_NAME_LENGTH, Entry

MAX_LISTED = 100


def record(
    action: str,
    obj: Model | None = None,
    *,
    kind: str = "",
    id: int | None = None,
    name: str = "",
    by: str | None = None,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add an entry about `obj`, or about `kind`, `id` and `name`. `details` is plain data; `render` makes it text.

    The actor and the reason are those of the context unless `by` and `reason` are given.
    """
    actor = context.current()
    Entry.objects.create(
        actor=(actor.name if by is None else by)[:NAME_LENGTH],
        via=actor.via,
        action=action,
        object_type=kind or (obj._meta.model_name or "" if obj is not None else ""),
        object_id=obj.pk if obj is not None else id,
        object_name=(name or (str(obj) if obj is not None else ""))[:OBJECT_NAME_LENGTH],
        reason=(context.reason() if reason is None else reason)[:REASON_LENGTH],
        details=json.dumps(details or {}, ensure_ascii=False, default=str),
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The values that differ, by name."""
    return {name: {"from": before.get(name), "to": value} for name, value in after.items() if before.get(name) != value}


def listed(ids: Iterable[int]) -> list[int]:
    """The first ids, as many as an entry may list."""
    return list(ids)[:MAX_LISTED]


def url_without_query(url: str) -> str:
    """The query may hold a secret, and the audit log is kept for ever."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}" + ("?…" if parts.query else "")
