"""The loop of a process: runs its steps in turn while there is work, waits when there is none, survives a lost
database, stops on a signal.

A step runs when it was notified, when its next poll is due, or when its unfinished work needs attention. While nothing
is due, the loop waits for notifications, for the responses to open requests and for a stop signal at the same time.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import TypeVar

from django.db import DatabaseError, InterfaceError

from webhookhub.conf import hub
from webhookhub.db import requirements
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.exists import Condition, which_exist
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.logs import Log, log

from .database import LAST_RECONNECT_SECONDS, Database
from .managed_step import ManagedStep
from .registry import heartbeat, hosts
from .signals import StopSignals
from .step import CannotStart, Step

T = TypeVar("T")
# How long after the drain the process is ended, whatever it does.
LATE_SECONDS = 5.0
# How often unfinished work is attended to while the database is lost.
ATTEND_SECONDS = 0.1
# After a step, or a portion of its work, that has taken so long, notifications are received at once.
LONG_STEP_SECONDS = 0.005


class Loop:
    def __init__(self, steps: Sequence[ManagedStep], batch_size: int, *, isolated: bool = False) -> None:
        """`isolated`: after an unexpected error of a step, the others go on and the step is created again."""
        self._steps = steps
        self._databases: list[Database] = list(dict.fromkeys(managed.database for managed in steps))
        self._batch_size = batch_size
        self._isolated = isolated
        # The kind of the step that runs now, for an error message.
        self.kind = steps[0].kind
        # When notifications were received last.
        self._received_at = 0.0

    def run(self, *, once: bool = False) -> None:
        with StopSignals(hub().drain.total_seconds() + LATE_SECONDS) as stop:
            try:
                if once:
                    self._run_once(stop)
                else:
                    self._run_until_stopped(stop)
                self._drain(stop)
            finally:
                for managed in self._steps:
                    self._close(managed)

    def _run_once(self, stop: StopSignals) -> None:
        """One batch of each step, after waiting for a lost database if necessary."""
        waiting = list(self._steps)
        while waiting and not stop.requested:
            waiting = [managed for managed in waiting if not self._run_if_possible(managed)]
            if waiting:
                self._wait(stop, waiting)

    def _run_if_possible(self, managed: ManagedStep) -> bool:
        """Returns whether the step did its batch."""
        return managed.may_run(time.monotonic()) and self._run(managed)

    def _run_until_stopped(self, stop: StopSignals) -> None:
        while not stop.requested:
            self._wait(stop, self._steps)
            now = time.monotonic()
            for database in self._databases:
                self._poll_together(database, now)
            self._run_due(stop, now)

    def _poll_together(self, database: Database, now: float) -> None:
        """One short query in place of the polls of all idle steps that use this connection."""
        idle = {
            managed: conditions
            for managed in self._steps
            if managed.database is database and (conditions := managed.idle_conditions(now))
        }
        if any(managed.is_poll_due(now) for managed in idle):
            self._guarded(next(iter(idle)), partial(self._look_for_work, idle))

    def _look_for_work(self, idle: Mapping[ManagedStep, Sequence[Condition]]) -> None:
        started_at = time.monotonic()
        self._heartbeat(next(iter(idle)).database)
        exist = iter(which_exist(*chain.from_iterable(idle.values())))
        for managed, conditions in idle.items():
            has_work = any(list(islice(exist, len(conditions))))
            managed.plan_poll(time.monotonic() - started_at, at_once=has_work)

    def _run_due(self, stop: StopSignals, turn_at: float) -> None:
        """One batch of each step that is due: what one step hands on, the next does in the same turn.

        A poll that becomes due while the turn lasts belongs to the next one, which polls all idle steps together.
        A step whose statements fail comes after the others, which would otherwise only wait for their connection.
        """
        for managed in sorted(self._steps, key=attrgetter("conflicts")):
            if stop.requested:
                return
            now = time.monotonic()
            if not managed.may_run(now):
                self._attend(managed, now)
            elif managed.is_due(turn_at):
                self._run(managed)
                self._run_few()

    def _run_few(self) -> None:
        """After a long piece of work, handles rows that came one by one, so that they need not wait for the rest.

        The queues of notifications are short, too: they would be full at the end of the turn.
        """
        now = time.monotonic()
        if now - self._received_at <= LONG_STEP_SECONDS:
            return
        self._received_at = now
        for managed in self._steps:
            managed.receive()
        for managed in self._steps:
            if managed.has_few and managed.may_run(now):
                self._guarded(managed, partial(managed.run_few, self._batch_size))

    def _between(self, interrupted: ManagedStep) -> None:
        kind = self.kind
        self._run_few()
        self.kind = kind
        interrupted.database.use()

    def _run(self, managed: ManagedStep) -> bool:
        """Creates the step if necessary, and does one batch. Returns whether this was possible."""
        return self._guarded(managed, partial(self._run_step, managed)) is not None

    def _run_step(self, managed: ManagedStep) -> int:
        if managed.step is None:
            managed.start(self._prepare(managed), partial(self._between, managed))
            log(Log.PROCESS_STARTED, process=managed.registration.name, batch_size=self._batch_size)
        self._heartbeat(managed.database)
        return managed.run(self._batch_size)

    def _prepare(self, managed: ManagedStep) -> Step:
        database = managed.database
        if not database.is_checked:
            requirements.require_migrated()
        heartbeat([managed.registration])
        try:
            if not database.is_checked:
                requirements.require(managed.registration.name)
                database.is_checked = True
            return managed.make_step(managed.registration.name)
        except (UnsuitableDatabase, CannotStart):
            self._unregister(managed)
            raise

    def _heartbeat(self, database: Database) -> None:
        """One statement for all steps that use this connection. A step that failed sends none."""
        now = time.monotonic()
        if now >= database.heartbeat_at:
            own = [each for each in self._steps if each.database is database and each.step]
            heartbeat([each.registration for each in own])
            running = hosts() if own else {}
            for managed in own:
                managed.note_hosts(running)
            database.heartbeat_at = now + hub().heartbeat.total_seconds()

    def _attend(self, managed: ManagedStep, now: float) -> None:
        """Attends to open requests while the database is lost: their responses must not be missed."""
        if managed.step is not None and managed.needs_attention(now):
            managed.step.poll(0.0)

    def _wait(self, stop: StopSignals, steps: Sequence[ManagedStep]) -> None:
        """Waits until a step is due, a notification or a response arrives, or a stop is requested."""
        waiting = select.poll()
        waiting.register(stop.fileno(), select.POLLIN)
        owners: dict[int, ManagedStep] = {}
        notified: dict[int, ManagedStep] = {}
        now = time.monotonic()
        for managed in steps:
            number = managed.notifications.fileno()
            if number is not None:
                waiting.register(number, select.POLLIN)
                notified[number] = managed
            if managed.step is not None and managed.pending:
                managed.attend_after(managed.step.idle_for() if managed.may_run(now) else ATTEND_SECONDS)
                self._register(waiting, managed, managed.step, owners)
        seconds = min(managed.wait_seconds(now) for managed in steps)
        for number, _ in waiting.poll(seconds * 1000):
            if number in owners:
                owners[number].attend_after(0.0)
            elif number in notified:
                notified[number].receive()
        self._received_at = time.monotonic()

    def _register(self, waiting: select.poll, managed: ManagedStep, step: Step, owners: dict[int, ManagedStep]) -> None:
        readable, writable = step.files()
        for number in readable:
            waiting.register(number, select.POLLIN)
        for number in writable:
            waiting.register(number, select.POLLOUT | (select.POLLIN if number in readable else 0))
        owners.update(dict.fromkeys([*readable, *writable], managed))

    def _drain(self, stop: StopSignals) -> None:
        """Finishes open requests, without new ones. Their results are settled here if the process has the step."""
        seconds = hub().drain.total_seconds()
        until = time.monotonic() + seconds
        for managed in self._steps:
            managed.clear_hints()
            if managed.pending:
                log(
                    Log.PROCESS_DRAINING,
                    process=managed.registration.name,
                    pending=managed.pending,
                    at_most_seconds=seconds,
                )
        while (left := until - time.monotonic()) > 0 and (unfinished := self._unfinished()):
            for managed in unfinished:
                if not managed.may_run(time.monotonic()):
                    self._attend_draining(stop, managed, min(left, ATTEND_SECONDS))
                else:
                    self._guarded(managed, partial(self._finish, managed), until)

    def _unfinished(self) -> list[ManagedStep]:
        return [
            managed for managed in self._steps if managed.step is not None and (managed.pending or managed.is_hinted)
        ]

    def _finish(self, managed: ManagedStep) -> None:
        assert managed.step is not None
        managed.clear_hints()
        managed.step.finish(self._batch_size)

    def _attend_draining(self, stop: StopSignals, managed: ManagedStep, seconds: float) -> None:
        until = time.monotonic() + seconds
        if managed.step is not None and managed.pending:
            managed.step.poll(seconds)
        # Also after the poll: it returns at once when no request is open any more.
        stop.pause(max(0.0, until - time.monotonic()))

    def _close(self, managed: ManagedStep) -> None:
        is_started, unfinished = managed.step is not None, managed.pending
        managed.close()
        if is_started:
            self._unregister(managed)
            log(Log.PROCESS_STOPPED, process=managed.registration.name, left_unfinished=unfinished or None)

    def _unregister(self, managed: ManagedStep) -> None:
        managed.database.use()
        try:
            managed.registration.remove()
        except (DatabaseError, InterfaceError):
            managed.database.close()  # the cleaner removes the row after its expiry

    def _guarded(self, managed: ManagedStep, work: Callable[[], T], until: float = float("inf")) -> T | None:
        """The result of `work`; None if the step has to wait, because of its database or an error."""
        self.kind = managed.kind
        managed.database.use()
        name = managed.registration.name
        try:
            result = work()
        except (UnsuitableDatabase, CannotStart):
            raise
        except Exception as error:
            kind = kind_of(error)
            if kind is Kind.CONFLICT:
                log(Log.DATABASE_CONFLICT, process=name, error=str(error), retry_in_seconds=managed.back_off())
                managed.database.close()
            elif kind.is_temporary:
                managed.back_off(LAST_RECONNECT_SECONDS)
                managed.database.note_lost(name, error, max(0.0, until - time.monotonic()))
            elif not self._isolated or kind in (Kind.DENIED, Kind.LOGIN):
                raise
            else:
                self._restart_later(managed, error)
            return None
        managed.database.note_used(name)
        managed.end_back_off()
        return result

    def _restart_later(self, managed: ManagedStep, error: Exception) -> None:
        self._unregister(managed)
        pause = managed.fail()
        log(Log.PROCESS_FAILED, kind=managed.kind, error=str(error), restart_in_seconds=pause, exc_info=True)
        managed.database.close()
