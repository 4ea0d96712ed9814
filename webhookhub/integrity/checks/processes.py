"""The loops are running."""

from __future__ import annotations

from webhookhub.conf import KINDS
from webhookhub.integrity.check import Bounds, Found, FunctionCheck, Violation
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after

TABLE = Process._meta.db_table


def silent(bounds: Bounds) -> Found:
    processes = list(Process.objects.order_by("name"))
    return len(processes), [
        Violation(TABLE, process.name, f"silent since {process.heartbeat_at}")
        for process in processes
        if not process.is_alive(bounds.now, silent_after())
    ]


def missing(bounds: Bounds) -> Found:
    """A stopped hub is fine; one that runs without a worker is not."""
    alive = [process.kind for process in Process.objects.all() if process.is_alive(bounds.now, silent_after())]
    absent = [kind for kind in KINDS if alive and kind not in alive]
    return len(alive), [Violation(TABLE, kind, "not running, but other loops are") for kind in absent]


CHECKS = (
    FunctionCheck(
        name="processes",
        invariant="Every registered process sends heartbeats.",
        is_warning=True,
        find=silent,
    ),
    FunctionCheck(
        name="process-kinds",
        invariant="If any loop is running, every kind of loop is running.",
        is_warning=True,
        find=missing,
    ),
)
