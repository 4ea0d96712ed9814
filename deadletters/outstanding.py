"""The dead letters still to be requeued, the longest dead first, found by a bounded look at the table."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.db import connection

from sagas.models import Saga
from webhookhub.db import vendors

from .filters import Choice, Position, along, position
from .models import DeadLetter, Requeue

# What one look passes over at most, and how many of those still to be requeued it takes from that.
EXAMINED = 4500
TAKEN = 2000
# At least so many looks, and as many as it takes to come to the limit where every one takes all that it may.
LOOKS = 2


@dataclass
class Outstanding:
    """`behind` is the last one looked at, if there may be more behind it."""

    letters: list[DeadLetter] = field(default_factory=list)
    behind: Position | None = None


def outstanding(choice: Choice, limit: int, behind: Position | None = None) -> Outstanding:
    """At most `limit` that match and have no new delivery."""
    found = Outstanding(behind=behind)
    for _ in range(max(LOOKS, -(-limit // TAKEN))):
        room = limit - len(found.letters)
        # Where the index knows everything that is asked for, none is taken in vain; one more shows that there are more.
        taken, found.behind = _look(choice, found.behind, min(TAKEN, room + 1) if choice.is_indexed else TAKEN)
        kept = choice.keep(taken)
        found.letters += kept[:room]
        if len(kept) > room:
            found.behind = position(found.letters[-1])
        if len(found.letters) == limit or found.behind is None:
            break
    return found


def _look(choice: Choice, behind: Position | None, most: int) -> tuple[list[DeadLetter], Position | None]:
    """Those still to be requeued in the next stretch along the index, and where it ended; None at the table's end."""
    walked = _walked(choice, behind)
    left = [id for id, is_left in walked if is_left]
    taken = left[:most]
    last = taken[-1] if len(left) > most else walked[-1][0] if len(walked) == EXAMINED else None
    wanted = taken if last is None else [*taken, last]
    letters = DeadLetter.objects.defer("payload_snapshot").in_bulk(wanted)
    return [letters[id] for id in taken], None if last is None else position(letters[last])


def _walked(choice: Choice, behind: Position | None) -> list[tuple[int, bool]]:
    """The next ids in the order of failure, each with whether it is still to be requeued."""
    stretch = along(choice, "id, failed_at", behind)
    join, letters, sagas = vendors.ordered_join(connection), DeadLetter._meta.db_table, Saga._meta.db_table
    # Looked for only where it was asked for. One without a delivery was cut short: whoever asks again completes it.
    delivery = (
        f"SELECT 1 FROM {letters} letter {join} {sagas} dead ON dead.id = letter.saga_id "  # noqa: S608
        f"{join} {sagas} successor ON successor.event_id = dead.event_id "
        "AND successor.subscription_id = dead.subscription_id AND successor.generation = dead.generation + 1 "
        "WHERE letter.id = stretch.id"
    )
    sql = (
        f"SELECT stretch.failed_at, stretch.id, request.id IS NULL OR NOT EXISTS ({delivery}) "  # noqa: S608
        f"FROM ({stretch.sql} ORDER BY failed_at, id LIMIT %s) stretch "
        f"LEFT JOIN {Requeue._meta.db_table} request ON request.dead_letter_id = stretch.id"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*stretch.parameters, EXAMINED])
        # A join keeps no order.
        return [(id, bool(is_left)) for _, id, is_left in sorted(cursor.fetchall())]
