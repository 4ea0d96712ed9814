"""The worker and the cleaner as steps of the shared loop."""

from __future__ import annotations

import resource
import time

from subscriptions.secrets import require_keys
from webhookhub.conf import hub
from webhookhub.runner.registry import remove_expired
from webhookhub.runner.step import Step
from webhookhub.stats.rollup import tidy

from .cleaner import clean
from .worker import Worker

# How often it is worth looking whether a minute has become old.
TIDY_SECONDS = 10.0


class WorkerStep(Step):
    def __init__(self, worker_id: str) -> None:
        # As many sockets as the system grants; the check webhookhub.E004 has seen that it grants enough.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        require_keys()
        self._worker = Worker(worker_id)

    def run(self, batch_size: int) -> int:
        return self._worker.turn(batch_size)

    def on_notify(self) -> None:
        self._worker.lease_soon()

    def pending(self) -> str:
        count = self._worker.open_jobs
        return f"{count} {'delivery' if count == 1 else 'deliveries'} under way" if count else ""

    def idle_for(self) -> float:
        return self._worker.idle_for()

    def poll(self, seconds: float) -> None:
        self._worker.collect(seconds)

    def finish(self, batch_size: int) -> None:
        self._worker.wind_up(batch_size)

    def close(self) -> None:
        self._worker.close()


class CleanerStep(Step):
    """Expired leases at every turn, vanished processes and old figures now and then."""

    def __init__(self) -> None:
        self._forget_at = 0.0
        self._tidy_at = 0.0

    def run(self, batch_size: int) -> int:
        if time.monotonic() >= self._forget_at:
            remove_expired()
            self._forget_at = time.monotonic() + hub().heartbeat.total_seconds()
        return clean(batch_size) + self._tidy(batch_size)

    def _tidy(self, batch_size: int) -> int:
        if time.monotonic() < self._tidy_at:
            return 0
        tidied = tidy(batch_size)
        if not tidied:
            self._tidy_at = time.monotonic() + TIDY_SECONDS
        return tidied
