"""The deliveries that have not ended, in the order of their ids, in bounded windows."""

from __future__ import annotations

from webhookhub.db import keyset

from .models import Saga
from .transitions import OPEN

COLUMNS = (
    "id",
    "status",
    "attempt_count",
    "event_id",
    "subscription_id",
    "next_attempt_at",
    "abandoned_by_id",
    "created_at",
)


class OpenSagas:
    """Reads the open sagas with ids above `after` and up to `max_id`, each once.

    A saga that changes its status meanwhile is neither missed nor read twice: one statement reads all three statuses.
    """

    def __init__(self, after: int, max_id: int) -> None:
        self.position = after
        self.at_end = after >= max_id
        self._max_id = max_id

    def next(self, limit: int) -> list[Saga]:
        """The next sagas, at most `limit`; advances the position."""
        if self._max_id < 1:
            return []
        parts, values = [], []
        for status in OPEN:
            where = {"status": status, "id__lte": self._max_id}
            sql, parameters = keyset.select(
                Saga,
                COLUMNS,
                index="idx_saga_status",
                where=where,
                after=[self.position] if self.position else None,
                limit=limit,
                descending=False,
            )
            parts.append(f"SELECT * FROM ({sql}) {status}")  # noqa: S608
            values += parameters
        rows = sorted(Saga.objects.raw(" UNION ALL ".join(parts), values), key=lambda saga: saga.pk)
        # Each status has its first rows here, so the first rows of all are among them.
        self.at_end = len(rows) < limit
        rows = rows[:limit]
        self.position = self._max_id if self.at_end else rows[-1].pk
        return rows
