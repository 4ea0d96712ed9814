"""Creation of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from events.models import Event
from sagas.transitions import WITH_DEAD_LETTER
from webhookhub.db.bulk import insert_new_selected

from .models import DeadLetter

STATUSES = ", ".join(f"'{status}'" for status in WITH_DEAD_LETTER)
ENDING_SAGA = (
    "SELECT 1 FROM webhook_delivery_sagas saga "  # noqa: S608
    f"WHERE saga.id = given.saga_id AND saga.status IN ({STATUSES})"
)


@dataclass(frozen=True)
class NewDeadLetter:
    saga_id: int
    event_id: int
    subscription_id: int
    final_error_code: str
    failed_at: datetime


def create_dead_letters(letters: Sequence[NewDeadLetter]) -> None:
    """Insert dead letters; the database copies the payload. Existing ones are kept.

    A saga that has changed to another status since it was read gets none, and the others get theirs.
    """
    insert_new_selected(
        DeadLetter,
        [asdict(letter) for letter in letters],
        key=("saga_id",),
        source=Event,
        source_id="event_id",
        copied={"payload_snapshot": "payload"},
        where=f"EXISTS ({ENDING_SAGA})",
    )
