"""The loop of all run_* commands: repeats while there is work, waits when there is none, survives a lost database,
stops on a signal."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connection

from webhookhub.conf import hub
from webhookhub.db import requirements
from webhookhub.db.errors import kind_of
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.logs import Log, log

from .backoff import SHORTEST_SECONDS, Backoff
from .notifier import Notifications
from .registry import Registration
from .signals import StopSignals
from .step import CannotStart, Step

T = TypeVar("T")
# How long after the drain the process is ended, whatever it does.
LATE_SECONDS = 5.0
POLL_SECONDS = 0.1
FIRST_RECONNECT_SECONDS = 0.5
LAST_RECONNECT_SECONDS = 15.0


class Loop:
    def __init__(self, kind: str, make_step: Callable[[str], Step], batch_size: int, interval: float) -> None:
        """`make_step` gets the process's name, which a worker writes into its leases."""
        self._registration = Registration(kind)
        self._notifications = Notifications(kind)
        self._make_step = make_step
        self._batch_size = batch_size
        self._backoff = Backoff(interval)
        self._lost = 0
        self._step: Step | None = None

    def run(self, *, once: bool = False) -> None:
        with StopSignals(hub().drain.total_seconds() + LATE_SECONDS) as stop:
            step = self._start(stop)
            if step is not None:
                self._step = step
                log(Log.PROCESS_STARTED, process=self._registration.name, batch_size=self._batch_size)
                try:
                    if once:
                        self._run_once(step, stop)
                    else:
                        self._run_until_stopped(step, stop)
                    self._drain(step, stop)
                finally:
                    self._notifications.close()
                    unfinished = step.pending()
                    step.close()
                    self._unregister()
                    log(Log.PROCESS_STOPPED, process=self._registration.name, left_unfinished=unfinished or None)

    def _start(self, stop: StopSignals) -> Step | None:
        """Waits for the database, checks it and creates the step; None if stopped before that."""
        step = None
        while step is None and not stop.requested:
            step = self._surviving_outages(stop, self._prepare)
        return step

    def _prepare(self) -> Step:
        requirements.require_migrated()
        self._registration.heartbeat(force=True)
        try:
            requirements.require(self._registration.name)
            return self._make_step(self._registration.name)
        except (UnsuitableDatabase, CannotStart):
            self._unregister()
            raise

    def _run_once(self, step: Step, stop: StopSignals) -> None:
        """Does one batch, waiting for a lost database if necessary."""
        while not stop.requested and self._surviving_outages(stop, lambda: step.run(self._batch_size)) is None:
            pass

    def _run_until_stopped(self, step: Step, stop: StopSignals) -> None:
        while not stop.requested:
            started_at = time.monotonic()
            done = self._surviving_outages(stop, lambda: self._run_step(step))
            took = time.monotonic() - started_at
            if done:
                self._backoff.reset()
            if done and (done >= self._batch_size or step.pending()):
                if idle_for := step.idle_for():
                    stop.wait(idle_for, self._notifications.fileno())
                continue
            # A run costs about the same for one row as for twenty. The wait collects rows that arrive in quick
            # succession, and limits the time spent on runs to one half.
            pause = 0.0 if done else self._backoff.after(took)
            minimum = min(took, SHORTEST_SECONDS)
            stop.wait(minimum)
            if pause > minimum:
                stop.wait(pause - minimum, self._notifications.fileno())

    def _run_step(self, step: Step) -> int:
        self._registration.heartbeat()
        if self._notifications.received():
            self._backoff.reset()
            step.on_notify()
        return step.run(self._batch_size)

    def _drain(self, step: Step, stop: StopSignals) -> None:
        until = time.monotonic() + hub().drain.total_seconds()
        if step.pending():
            log(
                Log.PROCESS_DRAINING,
                process=self._registration.name,
                pending=step.pending(),
                at_most_seconds=hub().drain.total_seconds(),
            )
        while step.pending() and time.monotonic() < until:
            self._surviving_outages(stop, lambda: step.finish(self._batch_size), until)

    def _unregister(self) -> None:
        try:
            self._registration.remove()
        except (DatabaseError, InterfaceError):
            connection.close()  # the cleaner removes the row after its expiry

    def _surviving_outages(self, stop: StopSignals, work: Callable[[], T], until: float = float("inf")) -> T | None:
        """The result of `work`; None after a wait if the database cannot do it now, and the caller repeats."""
        try:
            result = work()
        except (DatabaseError, InterfaceError) as error:
            kind = kind_of(error)
            if not kind.is_temporary:
                raise
            self._lost += 1
            longest = min(FIRST_RECONNECT_SECONDS * 2 ** min(self._lost, 10), LAST_RECONNECT_SECONDS)
            pause = min(longest * random.uniform(0.5, 1.0), max(0.0, until - time.monotonic()))  # noqa: S311
            log(
                Log.DATABASE_LOST,
                process=self._registration.name,
                error=str(error),
                cause=kind.value,
                retry_in_seconds=round(pause, 2),
            )
            connection.close()
            self._pause(stop, pause)
            return None
        if self._lost:
            log(Log.DATABASE_RECONNECTED, process=self._registration.name, after_attempts=self._lost)
            self._lost = 0
        return result

    def _pause(self, stop: StopSignals, seconds: float) -> None:
        """Waits for the database while the step attends to its open requests: their responses must not be missed."""
        until = time.monotonic() + seconds
        draining = stop.requested
        while (left := until - time.monotonic()) > 0 and stop.requested == draining:
            wait_until = until
            if self._step is not None and self._step.pending():
                wait_until = time.monotonic() + min(left, POLL_SECONDS)
                self._step.poll(min(left, POLL_SECONDS))
            # Also after the poll: it returns at once when no request is open any more.
            idle_for = max(0.0, wait_until - time.monotonic())
            stop.pause(idle_for) if draining else stop.wait(idle_for)
