"""The product's side of the machine: its real steps on a real database, a clock that stands still between ticks,
producers that keep a transaction open on a connection of their own, and processes that die after a write."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import Atomic

from events.intake import publish
from tests.conformance.crashes import Crash
from tests.conformance.rivals import rows_are_locked_one_by_one

from .model import Job, Letter, Model, Request, Saga

Row = tuple[Any, ...]
WRITES = ("INSERT", "UPDATE", "DELETE")


class Clock:
    """The database's clock, which moves only by `advance`."""

    def __init__(self) -> None:
        self.now = datetime(2031, 5, 1, 12, tzinfo=UTC)

    def advance(self, duration: timedelta) -> None:
        self.now += duration
        self.set(connection=connection)

    def set(self, connection: BaseDatabaseWrapper, **_: Any) -> None:
        """Sets the clock of a connection."""
        if rows_are_locked_one_by_one():
            with connection.cursor() as cursor:
                cursor.execute(f"SET timestamp = {self._unix()}")
        else:
            connection.ensure_connection()
            connection.connection.create_function("strftime", -1, self._strftime)

    def _unix(self) -> str:
        return f"{calendar.timegm(self.now.utctimetuple())}.{self.now.microsecond:06}"

    def _strftime(self, form: str, time: str, seconds: str = "0 seconds") -> str:
        assert time == "now"
        later = self.now + timedelta(seconds=float(seconds.removesuffix(" seconds")))
        return f"{later:%Y-%m-%d %H:%M:%S.%f}"


class Producer:
    """Publishes in a transaction that stays open until it is told how to end it."""

    def __init__(self) -> None:
        self._connection = connections.create_connection("default")
        self._transaction: Atomic | None = None
        self.events: list[int] = []

    @property
    def is_open(self) -> bool:
        return self._transaction is not None

    def publish(self, event_type: str, number: int, external_id: str) -> int:
        with self._on_its_connection():
            if self._transaction is None:
                self._transaction = transaction.atomic()
                self._transaction.__enter__()
            self.events.append(number)
            return publish(event_type, {"n": number}, external_id=external_id).id

    def end(self, *, commit: bool) -> list[int]:
        """Returns the numbers of the events that it had published."""
        assert self._transaction is not None
        with self._on_its_connection():
            if not commit:
                transaction.set_rollback(True)
            self._transaction.__exit__(None, None, None)
        published, self.events, self._transaction = self.events, [], None
        return published

    def roll_back(self) -> None:
        if self.is_open:
            self.end(commit=False)

    def close(self) -> None:
        self.roll_back()
        self._connection.close()

    @contextmanager
    def _on_its_connection(self) -> Iterator[None]:
        usual = connections["default"]
        connections["default"] = self._connection
        try:
            yield
        finally:
            connections["default"] = usual


def dying_after(writes: int | None, work: Callable[[], object]) -> bool:
    """Run `work`, which dies when it has written so many times; whether it died.

    A transaction is one write, for what dies within it leaves nothing. An insert that the database refuses is none.
    """
    done, within = 0, False

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal done, within
        within = within and connection.in_atomic_block
        begins = sql.startswith(WRITES) and not within
        if begins and done == writes:
            raise Crash
        result = execute(sql, params, many, context)
        if begins:
            done, within = done + 1, connection.in_atomic_block
        return result

    if writes is None:
        work()
        return False
    try:
        with connection.execute_wrapper(watch):
            work()
    except Crash:
        connection.close()  # a process that is gone holds no connection
        return True
    return False


class Tables:
    """All rows of one example, in the order of their ids, in the model's terms."""

    def __init__(self) -> None:
        self._bases = {
            table: self._rows(f"SELECT COALESCE(MAX(id), 0) FROM {table}")[0][0]
            for table in (
                "events",
                "webhook_delivery_sagas",
                "webhook_delivery_jobs",
                "dead_letters",
                "delivery_requests",
            )
        }
        self.first_event: int = self._bases["events"] + 1
        self.subscription_numbers: dict[int, int] = {}
        self.event_ids: dict[int, int] = {}
        self.letter_ids: list[int] = []
        self.saga_ids: list[int] = []

    def stored(self) -> dict[str, list[Row]]:
        numbers = {id: number for number, id in self.event_ids.items()}
        sagas = self._after(
            "webhook_delivery_sagas",
            "event_id, subscription_id, generation, status, attempt_count, next_attempt_at, max_retry_limit, "
            "final_error_code, abandoned_by_id",
        )
        saga = {id: (numbers[row[0]], self.subscription_numbers[row[1]], row[2]) for id, *row in sagas}
        jobs = self._after(
            "webhook_delivery_jobs",
            "saga_id, attempt_no, status, lease_until, lease_token, worker_id, lease_resets, error_code, finished_at, "
            "retry_after, settled_at IS NOT NULL",
        )
        letters = self._after("dead_letters", "saga_id, final_error_code, failed_at")
        requeued: dict[int, str] = dict(
            self._rows(
                "SELECT dead_letter_id, requested_by FROM dead_letter_requeues WHERE dead_letter_id > %s",
                self._bases["dead_letters"],
            )
        )
        self.letter_ids = [row[0] for row in letters]
        self.saga_ids = [row[0] for row in sagas]
        requests = self._after("delivery_requests", "kind, saga_id, requested_by, changed, due_at")
        places = {row[0]: place for place, row in enumerate(requests)}
        return {
            "events": [(numbers[id],) for (id,) in self._after("events")],
            "inbox": sorted((numbers[id],) for (id,) in self._rows("SELECT event_id FROM routing_inbox")),
            "sagas": [(saga[id], *row[3:5], _time(row[5]), *row[6:8], places.get(row[8])) for id, *row in sagas],
            "requests": [(row[0], row[1] and saga[row[1]], *row[2:4], _time(row[4])) for _, *row in requests],
            "jobs": [
                (saga[row[0]], *row[1:3], _time(row[3]), *row[4:8], _time(row[8]), _time(row[9]), bool(row[10]))
                for _, *row in jobs
            ],
            "letters": [(saga[row[0]], row[1], _time(row[2]), requeued.get(id)) for id, *row in letters],
        }

    def put_to_rest(self) -> None:
        """What an example leaves behind is out of the way of the next one, which is far quicker than removing it."""
        sagas, jobs = self._bases["webhook_delivery_sagas"], self._bases["webhook_delivery_jobs"]
        with transaction.atomic():
            self._execute("DELETE FROM routing_inbox")
            self._execute("UPDATE delivery_requests SET due_at = NULL WHERE due_at IS NOT NULL")
            self._execute(
                "UPDATE webhook_delivery_sagas SET status = 'InProgress' "
                "WHERE id > %s AND status IN ('Pending', 'PendingRetry')",
                sagas,
            )
            self._execute(
                "UPDATE webhook_delivery_sagas SET status = 'Completed', attempt_count = attempt_count + 1 "
                "WHERE id > %s AND status = 'InProgress'",
                sagas,
            )
            self._execute(
                "UPDATE webhook_delivery_jobs SET status = 'Leased' WHERE id > %s AND status = 'Pending'", jobs
            )
            self._execute(
                "UPDATE webhook_delivery_jobs SET status = 'Failed', error_code = 'timeout', "
                "finished_at = '2031-01-01 00:00:00' WHERE id > %s AND status = 'Leased'",
                jobs,
            )
            self._execute(
                "UPDATE webhook_delivery_jobs SET settled_at = '2031-01-01 00:00:00' "
                "WHERE id > %s AND settled_at IS NULL",
                jobs,
            )

    def _after(self, table: str, columns: str = "") -> list[Row]:
        listed = f"id, {columns}" if columns else "id"
        return self._rows(f"SELECT {listed} FROM {table} WHERE id > %s ORDER BY id", self._bases[table])

    def _rows(self, sql: str, *parameters: Any) -> list[Row]:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def _execute(self, sql: str, *parameters: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)


def expected(model: Model) -> dict[str, list[Row]]:
    return {
        "events": [(number,) for number in model.events],
        "inbox": [(number,) for number in model.inbox],
        "sagas": [_saga(model, saga) for saga in model.sagas],
        "requests": [_request(request) for request in model.requests],
        "jobs": [_job(job) for job in model.jobs],
        "letters": [_letter(letter) for letter in model.letters],
    }


def _saga(model: Model, saga: Saga) -> Row:
    abandoned_by = None if saga.abandoned_by is None else model.requests.index(saga.abandoned_by)
    return saga.key, saga.status, saga.attempts, saga.next_at, saga.limit, saga.error, abandoned_by


def _request(request: Request) -> Row:
    saga = None if request.saga is None else request.saga.key
    return request.kind, saga, request.by, request.changed, request.due_at


def _job(job: Job) -> Row:
    holder = job.token, job.worker, job.resets
    result = job.error, job.finished_at, job.retry_after, job.settled
    return job.saga.key, job.attempt_no, job.status, job.lease_until, *holder, *result


def _letter(letter: Letter) -> Row:
    return letter.saga.key, letter.error, letter.failed_at, letter.requeued_by


def _time(value: Any) -> datetime | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return None if value is None else value.replace(tzinfo=UTC)
