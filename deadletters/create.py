"""Creation of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from events.models import Event
from sagas.conditions import ending_saga
from webhookhub.db.bulk import insert_new_selected

from .models import DeadLetter


@dataclass(frozen=True)
class NewDeadLetter:
    saga_id: int
    event_id: int
    subscription_id: int
    final_error_code: str
    failed_at: datetime


def create_dead_letters(letters: Sequence[NewDeadLetter]) -> None:
    """Insert dead letters; the database copies the payload and the customer. Existing ones are kept.

    A saga that has moved on since it was read gets none, and the others get theirs.
    """
    insert_new_selected(
        DeadLetter,
        [asdict(letter) for letter in letters],
        key=("saga_id",),
        source=Event,
        source_id="event_id",
        copied={"payload_snapshot": "payload", "customer_key": "customer_key"},
        where=f"EXISTS ({ending_saga('given')})",
    )
