"""The worker and the cleaner as steps of the shared loop."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence

from events.endpoint_events import announce
from subscriptions.secrets import require_keys
from webhookhub.conf import hub
from webhookhub.db.exists import Condition
from webhookhub.runner.registry import remove_expired
from webhookhub.runner.step import Step
from webhookhub.stats.rollup import roll_up

from .cleaner import clean
from .models import Job
from .states import LEASED, PENDING
from .worker import Worker

# How often to look for endpoints whose trouble is not announced yet.
ANNOUNCE_SECONDS = 5.0
# How often to look for minutes that are old enough to roll up.
ROLL_UP_SECONDS = 10.0


class WorkerStep(Step):
    def __init__(self, worker_id: str) -> None:
        # As many sockets as the system allows; the check webhookhub.E004 makes sure that it allows enough.
        _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
        require_keys()
        self._worker = Worker(worker_id)

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        self._worker.turn(batch_size, poll=poll, wait=False)
        return self._worker.found

    def has_few(self) -> bool:
        return self._worker.has_few()

    def run_few(self, batch_size: int) -> None:
        self._worker.lease_few(batch_size)
        self._worker.collect(0.0)

    def conditions(self) -> list[Condition]:
        return [Condition(Job, "status = %s AND lease_until <= {now}", PENDING)]

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        self._worker.hint(ids if topic == "attempts" else ())

    def hints_in(self) -> float:
        return self._worker.hints_in()

    def pending(self) -> str:
        count = self._worker.open_jobs
        return f"{count} {'delivery' if count == 1 else 'deliveries'} in flight" if count else ""

    def idle_for(self) -> float:
        return self._worker.idle_for()

    def files(self) -> tuple[list[int], list[int]]:
        return self._worker.files()

    def poll(self, seconds: float) -> None:
        self._worker.collect(seconds)

    def finish(self, batch_size: int) -> None:
        self._worker.drain(batch_size)

    def close(self) -> None:
        self._worker.close()


class CleanerStep(Step):
    """Resets expired leases at every turn. From time to time, it removes silent processes, rolls up stats and announces
    failing endpoints."""

    def __init__(self) -> None:
        self._forget_at = 0.0
        self._roll_up_at = 0.0
        self._announce_at = 0.0

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        if time.monotonic() >= self._forget_at:
            remove_expired()
            self._forget_at = time.monotonic() + hub().heartbeat.total_seconds()
        return clean(batch_size) + self._roll_up_stats(batch_size) + self._announce(batch_size)

    def conditions(self) -> list[Condition] | None:
        if time.monotonic() >= min(self._forget_at, self._roll_up_at, self._announce_at):
            return None
        return [Condition(Job, "status = %s AND lease_until < {now}", LEASED)]

    def _announce(self, batch_size: int) -> int:
        if time.monotonic() < self._announce_at:
            return 0
        count = announce(batch_size)
        if not count:
            self._announce_at = time.monotonic() + ANNOUNCE_SECONDS
        return count

    def _roll_up_stats(self, batch_size: int) -> int:
        if time.monotonic() < self._roll_up_at:
            return 0
        count = roll_up(batch_size)
        if not count:
            self._roll_up_at = time.monotonic() + ROLL_UP_SECONDS
        return count
