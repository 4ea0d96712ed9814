"""One step of a loop: when it runs next, and its restart after an error."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from webhookhub.db.exists import Condition

from .backoff import Backoff
from .database import Database
from .notifier import Notifications, steps_of_this_process
from .pace import Hosts, Pace
from .registry import Registration
from .step import Step

FIRST_PAUSE_SECONDS = 0.5
LAST_PAUSE_SECONDS = 30.0
# A step that has run for so long was not stopped by the error before.
HEALTHY_SECONDS = 30.0


class ManagedStep:
    def __init__(self, kind: str, make_step: Callable[[str], Step], database: Database, interval: float) -> None:
        """`make_step` gets the step's name in the registry, which a worker writes into its leases."""
        self.kind = kind
        self.database = database
        self.make_step = make_step
        self.step: Step | None = None
        self.registration = Registration(kind)
        database.use()  # its name is part of the address
        self.notifications = Notifications(kind)
        self._interval = interval
        self._pace = Pace(kind, interval)
        self._backoff = Backoff(interval)
        # When it runs for hints; infinite without any.
        self._hints_at = math.inf
        self._was_hinted_since_poll = False
        self._is_idle = False
        self._poll_at = 0.0
        self._attend_at = 0.0
        self._not_before = 0.0
        self._started_at = 0.0
        self._failures = 0
        # Statements that failed one after the other.
        self.conflicts = 0
        steps_of_this_process[kind] = self

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        self._hints_at = 0.0
        self._was_hinted_since_poll = True
        if self.step is not None:
            self.step.hint(topic, ids)

    def receive(self) -> None:
        """Takes the hints of other processes."""
        for topic, ids in self.notifications.received():
            # Not those of this process, which publishes a few events itself.
            self._pace.note_found(notified=True)
            self.hint(topic, ids)

    @property
    def has_few(self) -> bool:
        return self.step is not None and self.step.has_few()

    def run_few(self, batch_size: int) -> None:
        assert self.step is not None
        self.step.run_few(batch_size)

    @property
    def is_hinted(self) -> bool:
        return self._hints_at < math.inf

    @property
    def pending(self) -> str:
        return self.step.pending() if self.step is not None else ""

    def start(self, step: Step, between: Callable[[], None]) -> None:
        step.between = between  # type: ignore[method-assign]
        self.step = step
        self._started_at = time.monotonic()

    def wait_seconds(self, now: float) -> float:
        """For how long the loop may wait before it runs this step or attends to its unfinished work."""
        wait = max(self._not_before, self.database.available_at) - now
        if wait <= 0:
            wait = min(self._hints_at, self._poll_at) - now
        if self.pending:
            wait = min(wait, self._attend_at - now)
        return max(0.0, wait)

    def may_run(self, now: float) -> bool:
        return now >= self._not_before and now >= self.database.available_at

    def is_due(self, now: float) -> bool:
        return now >= min(self._hints_at, self._poll_at) or self.needs_attention(now)

    def needs_attention(self, now: float) -> bool:
        return now >= self._attend_at and bool(self.pending)

    def attend_after(self, seconds: float) -> None:
        self._attend_at = time.monotonic() + seconds

    def run(self, batch_size: int) -> int:
        """Runs one batch and plans the next."""
        step = self.step
        assert step is not None
        started_at = time.monotonic()
        is_poll = started_at >= self._poll_at
        was_hinted, self._hints_at = self.is_hinted, math.inf
        try:
            found = step.run(batch_size, poll=is_poll)
        except Exception:
            self._poll_at = 0.0  # its hints may be lost
            raise
        now = time.monotonic()
        self._hints_at = min(self._hints_at, now + step.hints_in())
        if found >= batch_size:
            self._poll_at = now
        elif is_poll:
            # Work without any hint: more may follow. Where hints arrive, a poll may find a row just before its hint.
            if found and not self._was_hinted_since_poll:
                self._backoff.reset()
                self._pace.note_found(notified=False)
            self.plan_poll(now - started_at)
        if is_poll:
            self._was_hinted_since_poll = False
        self._is_idle = is_poll and not found and not was_hinted
        return found

    def plan_poll(self, took: float, *, at_once: bool = False) -> None:
        """Plans the next poll after a query that took so many seconds; with `at_once`, in the same turn."""
        self._backoff.longest = self._pace.longest
        self._poll_at = 0.0 if at_once else time.monotonic() + self._backoff.after(took)

    def note_hosts(self, hosts: Hosts) -> None:
        """The hosts of each kind of loop. Work from a host whose notifications do not arrive is found by polling."""
        self._pace.note_hosts(hosts)
        self._poll_at = min(self._poll_at, time.monotonic() + self._pace.longest)

    def is_poll_due(self, now: float) -> bool:
        return now >= self._poll_at

    def idle_conditions(self, now: float) -> Sequence[Condition] | None:
        """The conditions under which a poll would find work; None if the step is not idle or its poll is far off."""
        if self.step is None or not self._is_idle or self.is_hinted or self.pending or not self.may_run(now):
            return None
        # Idle steps poll together, so that the process wakes up once for all of them.
        return self.step.conditions() if self._poll_at - now <= self._interval / 2 else None

    def clear_hints(self) -> None:
        self._hints_at = math.inf

    def back_off(self, longest: float = LAST_PAUSE_SECONDS) -> float:
        """Pauses the step after each lost statement, longer and longer: the other steps wait while it waits."""
        self.conflicts += 1
        seconds: float = min(FIRST_PAUSE_SECONDS * 2 ** (self.conflicts - 1), longest)
        self._not_before = time.monotonic() + seconds
        return seconds

    def end_back_off(self) -> None:
        self.conflicts = 0

    def fail(self) -> float:
        """Closes the step after an error; it is created again after a pause, which grows. Returns the pause."""
        if time.monotonic() - self._started_at > HEALTHY_SECONDS:
            self._failures = 0
        pause = min(FIRST_PAUSE_SECONDS * 2.0**self._failures, LAST_PAUSE_SECONDS)
        self._failures += 1
        self._not_before = time.monotonic() + pause
        step, self.step = self.step, None
        self.registration = Registration(self.kind)
        self._poll_at = 0.0
        if step is not None:
            step.close()
        return pause

    def close(self) -> None:
        steps_of_this_process.pop(self.kind, None)
        self.notifications.close()
        if self.step is not None:
            self.step.close()
