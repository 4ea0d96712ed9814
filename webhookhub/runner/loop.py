"""The one loop that all long-running commands share: go again while there is work, wait when there is none,
sit out a lost database, stop when asked."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connection

from webhookhub.conf import hub
from webhookhub.db import requirements, vendors
from webhookhub.db.errors import UnfitDatabase
from webhookhub.logs import Fact, log
from webhookhub.models import Process

from .backoff import SHORTEST_SECONDS, Backoff
from .errors import CannotStart
from .notifier import Listener
from .registry import Registration
from .signals import StopSignals
from .step import Step

T = TypeVar("T")
# Longer than a statement may wait for a lock, shorter than a request may take.
STATEMENT_SECONDS = 15
# What the drain may be exceeded by before the process is ended whatever it does.
LATE_SECONDS = 5.0
TEND_SECONDS = 0.1
FIRST_RECONNECT_SECONDS = 0.5
LAST_RECONNECT_SECONDS = 15.0


class Loop:
    def __init__(self, kind: str, make_step: Callable[[str], Step], batch_size: int, interval: float) -> None:
        """`make_step` gets the process's name, which a worker signs its leases with."""
        self._registration = Registration(kind)
        self._listener = Listener(kind)
        self._make_step = make_step
        self._batch_size = batch_size
        self._pauses = Backoff(interval)
        self._lost = 0
        self._step: Step | None = None

    def run(self, *, once: bool = False) -> None:
        vendors.bound_waiting(connection, STATEMENT_SECONDS)
        with StopSignals(hub().drain.total_seconds() + LATE_SECONDS) as stop:
            step = self._stand_up(stop)
            if step is not None:
                self._step = step
                log(Fact.PROCESS_STARTED, process=self._registration.name, batch_size=self._batch_size)
                try:
                    if once:
                        self._go_once(step, stop)
                    else:
                        self._go_on(step, stop)
                    self._drain(step, stop)
                finally:
                    self._listener.close()
                    unfinished = step.pending()
                    step.close()
                    self._leave(unfinished)

    def _stand_up(self, stop: StopSignals) -> Step | None:
        """Wait for the database, look at what it is, make the step; None if asked to stop before that."""
        step = None
        while step is None and not stop.requested:
            step = self._sit_out(stop, self._begin)
        return step

    def _begin(self) -> Step:
        requirements.require_migrated()
        self._registration.beat(now=True)
        try:
            requirements.require(Process._meta.db_table, "name", self._registration.name)
            return self._make_step(self._registration.name)
        except (UnfitDatabase, CannotStart):
            self._sign_off()
            raise

    def _go_once(self, step: Step, stop: StopSignals) -> None:
        """One batch that has really been done: a lost database is waited out here too."""
        while not stop.requested and self._sit_out(stop, lambda: step.run(self._batch_size)) is None:
            pass

    def _go_on(self, step: Step, stop: StopSignals) -> None:
        while not stop.requested:
            asked_at = time.monotonic()
            done = self._sit_out(stop, lambda: self._turn(step))
            took = time.monotonic() - asked_at
            if done:
                self._pauses.reset()
            if done and (done >= self._batch_size or step.pending()):
                if idle_for := step.idle_for():
                    stop.wait(idle_for, self._listener.fileno())
                continue
            # That was all for now. A turn costs about the same for one row as for twenty: what comes in quick
            # succession is done together, and no more than half of the time is spent on turns.
            pause = 0.0 if done else self._pauses.after(took)
            deaf = min(took, SHORTEST_SECONDS)
            stop.wait(deaf)
            if pause > deaf:
                stop.wait(pause - deaf, self._listener.fileno())

    def _turn(self, step: Step) -> int:
        self._registration.beat()
        if self._listener.heard():
            self._pauses.reset()
            step.on_notify()
        return step.run(self._batch_size)

    def _drain(self, step: Step, stop: StopSignals) -> None:
        until = time.monotonic() + hub().drain.total_seconds()
        if step.pending():
            log(
                Fact.PROCESS_DRAINING,
                process=self._registration.name,
                pending=step.pending(),
                at_most_seconds=hub().drain.total_seconds(),
            )
        while step.pending() and time.monotonic() < until:
            self._sit_out(stop, lambda: step.finish(self._batch_size), until)

    def _leave(self, unfinished: str) -> None:
        self._sign_off()
        log(Fact.PROCESS_STOPPED, process=self._registration.name, left_unfinished=unfinished or None)

    def _sign_off(self) -> None:
        try:
            self._registration.remove()
        except (DatabaseError, InterfaceError):
            connection.close()  # the row is forgotten in time

    def _sit_out(self, stop: StopSignals, work: Callable[[], T], until: float = float("inf")) -> T | None:
        """`work`, unless the database is lost or in conflict: then a wait instead, and the caller comes back."""
        try:
            result = work()
        except (DatabaseError, InterfaceError) as error:
            if not vendors.is_lost(error) and not vendors.is_conflict(error):
                raise
            self._lost += 1
            longest = min(FIRST_RECONNECT_SECONDS * 2 ** min(self._lost, 10), LAST_RECONNECT_SECONDS)
            pause = min(longest * random.uniform(0.5, 1.0), max(0.0, until - time.monotonic()))  # noqa: S311
            log(
                Fact.DATABASE_LOST,
                process=self._registration.name,
                error=str(error),
                retry_in_seconds=round(pause, 2),
            )
            connection.close()
            self._pause(stop, pause)
            return None
        if self._lost:
            log(Fact.DATABASE_BACK, process=self._registration.name, after_attempts=self._lost)
            self._lost = 0
        return result

    def _pause(self, stop: StopSignals, seconds: float) -> None:
        """Wait for the database, while what needs no database goes on: an answer that comes in now must be heard."""
        until = time.monotonic() + seconds
        draining = stop.requested
        while (left := until - time.monotonic()) > 0 and stop.requested == draining:
            wait_until = until
            if self._step is not None and self._step.pending():
                wait_until = time.monotonic() + min(left, TEND_SECONDS)
                self._step.poll(min(left, TEND_SECONDS))
            # Also after tending: where there is nothing to tend any more, it takes no time.
            idle_for = max(0.0, wait_until - time.monotonic())
            stop.pause(idle_for) if draining else stop.wait(idle_for)
