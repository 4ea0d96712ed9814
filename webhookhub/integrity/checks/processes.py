"""The loops are running."""

from __future__ import annotations

from webhookhub.conf import KINDS, hub
from webhookhub.integrity.check import Bounds, Found, FunctionCheck, Violation
from webhookhub.models import Process

TABLE = Process._meta.db_table


def silent(bounds: Bounds) -> Found:
    processes = list(Process.objects.order_by("name"))
    return len(processes), [
        Violation(TABLE, process.name, f"silent since {process.heartbeat_at}")
        for process in processes
        if not process.is_alive(bounds.now, hub().process_expiry)
    ]


def missing(bounds: Bounds) -> Found:
    """A stopped hub is fine; one that runs without a worker is not."""
    alive = [process.kind for process in Process.objects.all() if process.is_alive(bounds.now, hub().process_expiry)]
    absent = [kind for kind in KINDS if alive and kind not in alive]
    return len(alive), [Violation(TABLE, kind, "not running, but other loops are") for kind in absent]


CHECKS = (
    FunctionCheck(
        name="processes",
        invariant="A registered process says that it is alive.",
        is_warning=True,
        find=silent,
    ),
    FunctionCheck(
        name="process-kinds",
        invariant="Where one loop of the hub is running, so is each of the others.",
        is_warning=True,
        find=missing,
    ),
)
