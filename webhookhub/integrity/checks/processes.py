"""Whether those who do the work are there."""

from __future__ import annotations

from webhookhub.conf import KINDS, hub
from webhookhub.integrity.check import Bounds, Found, Question, Violation
from webhookhub.models import Process

TABLE = Process._meta.db_table


def silent(bounds: Bounds) -> Found:
    processes = list(Process.objects.order_by("name"))
    dead = [process for process in processes if not process.is_alive(bounds.now, hub().process_expiry)]
    return len(processes), [
        Violation(TABLE, process.name, f"silent since {process.heartbeat_at}, and forgotten by nobody")
        for process in dead
    ]


def missing(bounds: Bounds) -> Found:
    """A hub that is stopped altogether is no fault; one that runs without a worker is."""
    alive = [process.kind for process in Process.objects.all() if process.is_alive(bounds.now, hub().process_expiry)]
    absent = [kind for kind in KINDS if alive and kind not in alive]
    return len(alive), [Violation(TABLE, kind, "none is running, though others are") for kind in absent]


CHECKS = (
    Question(
        name="processes",
        invariant="A registered process says that it is alive.",
        warns=True,
        ask=silent,
    ),
    Question(
        name="process-kinds",
        invariant="Where one loop of the hub is running, so is each of the others.",
        warns=True,
        ask=missing,
    ),
)
