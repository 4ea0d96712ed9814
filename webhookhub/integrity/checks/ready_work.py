"""Work that is ready is taken soon."""

from __future__ import annotations

from webhookhub.integrity.check import Bounds, Found, FunctionCheck, Violation
from webhookhub.stats import ready_work


def stuck(bounds: Bounds) -> Found:
    """At most one row of each kind: the oldest, which is found by an index."""
    work = ready_work.oldest(bounds.now)
    return sum(row is not None for row in work.values()), [
        Violation(row.table, row.pk, f"{kind.replace('_', ' ')}: not taken since {row.since}")
        for kind, row in ready_work.stuck(bounds.now, bounds.grace).items()
    ]


CHECKS = (
    FunctionCheck(
        name="ready-work",
        invariant=(
            "Work that is ready is taken soon: events to route, due deliveries, parked deliveries of "
            "endpoints that may have attempts, attempts to send, expired leases, "
            "results to apply, workflow events."
        ),
        find=stuck,
    ),
)
