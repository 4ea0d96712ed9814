"""Writing the trail.

In the transaction that does what is told where there is one, and otherwise before the first step: a crash may leave an
entry of something that was only begun, never something done without its entry.
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

MOST_LISTED = 100


def record(
    action: str,
    what: Model | None = None,
    *,
    kind: str = "",
    id: int | None = None,
    name: str = "",
    by: str | None = None,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """`what` is the object, or `kind`, `id` and `name` say it. `by` and `reason`: if not those that `acting` knows."""
    who = context.current()
    Entry.objects.create(
        actor=(who.name if by is None else by)[:NAME_LENGTH],
        via=who.via,
        action=action,
        object_type=kind or (what._meta.model_name or "" if what is not None else ""),
        object_id=what.pk if what is not None else id,
        object_name=(name or (str(what) if what is not None else ""))[:OBJECT_NAME_LENGTH],
        reason=(context.reason() if reason is None else reason)[:REASON_LENGTH],
        details=json.dumps(details or {}, ensure_ascii=False, default=str),
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is another than it was, by name."""
    return {name: {"from": before.get(name), "to": value} for name, value in after.items() if before.get(name) != value}


def listed(ids: Iterable[int]) -> list[int]:
    """The first of many."""
    return list(ids)[:MOST_LISTED]


def address(url: str) -> str:
    """An address without what may be a secret: the trail is kept for ever."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}" + ("?…" if parts.query else "")
