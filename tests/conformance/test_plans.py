"""Every polling query goes by its index, with a hundred thousand rows behind it: it reads what it takes, no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.db.models import NOT_PROVIDED

from events.routing import Router
from jobs.cleaner import clean
from jobs.lease import lease
from jobs.models import Job
from jobs.report import report
from sagas.dispatch import dispatch
from sagas.models import Saga
from sagas.orchestrator import pending_work
from sagas.parking import ParkedSubscriptions, oldest_parked, park, unpark
from sagas.settle import Settler
from subscriptions.models import Subscription
from tests.conftest import empty_tables
from tests.support import guards
from webhookhub.db import vendors

from .rivals import unquoted
from .world import reports

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db]
BATCH = 200
PART = 10_000

DIGITS = " UNION ALL ".join(f"SELECT {n}{' AS d' if n == 0 else ''}" for n in range(10))
# 1 … 100,000
NUMBERS = (
    "(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d + 1 AS n FROM "
    + ", ".join(f"({DIGITS}) {name}" for name in "abcde")
    + ") numbers"
)
# Of a hundred sagas: 1 waits for its first attempt, 2 for a retry (half of them due), 4 are in progress, 1 is dead.
SAGA_STATUS = """CASE WHEN n % 100 = 1 THEN 'Pending' WHEN n % 100 IN (2, 3) THEN 'PendingRetry'
    WHEN n % 100 BETWEEN 4 AND 7 THEN 'InProgress' WHEN n % 100 = 8 THEN 'DeadLettered' ELSE 'Completed' END"""
# Those in progress have a job each that is ready, leased (half of them expired), or finished and not settled.
JOB_STATUS = """CASE saga.status WHEN 'Completed' THEN 'Completed'
    WHEN 'InProgress' THEN ELT(saga.id % 100 - 3, 'Pending', 'Leased', 'Completed', 'Failed') ELSE 'Failed' END"""
ROWS = [
    """INSERT INTO subscriptions (id, event_type, callback_url, active, verified, {rest})
       SELECT n, 'order.created', CONCAT('https://127.0.0.1:8443/', n), 1, 0, {values} FROM {numbers} WHERE n <= 5""",
    "UPDATE subscriptions SET verified = 1, verification_at = UTC_TIMESTAMP(6)",
    """INSERT INTO events (id, event_type, source, payload)
       SELECT n, 'order.created', 'tests', '{{"n":1}}' FROM {numbers} WHERE n <= 20000""",
    "DELETE FROM routing_inbox WHERE event_id <= 17000",
    """INSERT INTO webhook_delivery_sagas
       (id, event_id, subscription_id, generation, status, attempt_count, max_retry_limit, base_delay, next_attempt_at)
       SELECT n, 1 + (n - 1) DIV 5, 1 + (n - 1) % 5, 0, {saga_status},
              IF(n % 100 IN (1, 4, 5, 6, 7), 0, 1), 10, 1000000,
              UTC_TIMESTAMP(6) + INTERVAL IF(n % 200 IN (2, 3), n, -n) SECOND
       FROM {numbers} WHERE n > {low} AND n <= {high}""",
    """INSERT INTO webhook_delivery_jobs
       (saga_id, attempt_no, status, attempt_at, lease_until, lease_token, finished_at, settled_at, error_code,
        worker_id, response_snippet, lease_resets)
       SELECT id, 1, {job_status} AS job_status, next_attempt_at - INTERVAL 2 DAY,
              CASE WHEN status = 'InProgress' AND id % 100 = 5
                   THEN UTC_TIMESTAMP(6) + INTERVAL IF(id % 200 = 5, id, -id) SECOND
                   ELSE created_at END,
              '', IF(status = 'InProgress' AND id % 100 < 6, NULL, created_at),
              IF(status = 'InProgress', NULL, created_at), IF({job_status} = 'Failed', 'timeout', NULL), '', '', 0
       FROM webhook_delivery_sagas saga WHERE status <> 'Pending' AND id > {low} AND id <= {high}""",
    """INSERT INTO webhook_delivery_jobs
       (saga_id, attempt_no, status, attempt_at, lease_until, lease_token, finished_at, settled_at, worker_id,
        response_snippet, lease_resets)
       SELECT id, 2, 'Completed', next_attempt_at - INTERVAL 1 DAY, created_at, '', created_at, created_at, '', '', 0
       FROM webhook_delivery_sagas saga WHERE status = 'Completed' AND id % 50 = 49""",
    # As many again are parked, most of them for one subscription.
    """INSERT INTO webhook_delivery_sagas
       (id, event_id, subscription_id, generation, status, attempt_count, max_retry_limit, base_delay, next_attempt_at)
       SELECT 100000 + n, 1 + (n - 1) DIV 5, IF(n % 10, 1, 2 + n DIV 10 % 4), 1 + (n - 1) % 5, 'Pending', 0, 10,
              1000000, '9000-01-01'
       FROM {numbers} WHERE n > {low} AND n <= {high}""",
]
TABLES = ["events", "routing_inbox", "webhook_delivery_sagas", "webhook_delivery_jobs", "subscriptions"]


def subscription_rest() -> dict[str, str]:
    """The columns of a subscription that have no default in the database."""
    named = {"id", "event_type", "callback_url", "active", "verified"}
    fields = [field for field in Subscription._meta.concrete_fields if not (field.column in named or field.generated)]
    empty = [field for field in fields if not field.null and getattr(field, "db_default", NOT_PROVIDED) is NOT_PROVIDED]
    values = [f"'{field.get_default()}'" for field in empty]
    return {"rest": ", ".join(field.column for field in empty), "values": ", ".join(values)}


@pytest.fixture(scope="module", autouse=True)
def _many_rows(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    if not vendors.is_server(connection):
        yield
        return
    with django_db_blocker.unblock():
        empty_tables()
        with connection.cursor() as cursor:
            with guards.switched_off():
                values = {"numbers": NUMBERS, "saga_status": SAGA_STATUS, "job_status": JOB_STATUS}
                for sql in ROWS:
                    # In parts, where it is prepared for that: a statement must not take longer than its time-out.
                    for low in range(0, 100_000 if "{low}" in sql else 1, PART):
                        part = {"low": low, "high": low + PART}
                        cursor.execute(sql.format(**values, **part, **subscription_rest()))
            cursor.execute("ANALYZE TABLE " + ", ".join(TABLES))
            cursor.fetchall()
    yield
    with django_db_blocker.unblock():
        empty_tables()
        connection.close()


@dataclass(frozen=True)
class Plan:
    sql: str
    rows: list[dict[str, Any]]
    rows_read: int


def polls(work: Callable[[], object], table: str) -> list[Plan]:
    """Of the limited SELECTs of `table`."""
    return plans(work, lambda sql: sql.startswith(f"SELECT {table}.") and " LIMIT " in sql)


def plans(work: Callable[[], object], wanted: Callable[[str], bool]) -> list[Plan]:
    """The plans of the wanted statements that `work` really issues, and how many rows each reads."""
    found: list[Plan] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not wanted(unquoted(sql)):
            return execute(sql, params, many, context)
        with connection.cursor() as cursor:
            cursor.cursor.execute("EXPLAIN FORMAT=TRADITIONAL " + sql, params)
            names = [column[0].lower() for column in cursor.cursor.description]
            plan = [dict(zip(names, row, strict=True)) for row in cursor.cursor.fetchall()]
        before = rows_read()
        result = execute(sql, params, many, context)
        found.append(Plan(unquoted(sql), plan, rows_read() - before))
        return result

    with connection.execute_wrapper(watch):
        work()
    return found


def rows_read() -> int:
    """What this session has read so far, by the server's own count."""
    with connection.cursor() as cursor:
        cursor.cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in cursor.cursor.fetchall())


def assert_goes_by(index: str, plan: Plan, *, reads_per_row: int = 2) -> None:
    driving = plan.rows[0]
    assert driving["key"] == index, plan
    for row in plan.rows:
        assert row["type"] != "ALL", plan
        extra = row["extra"] or ""
        assert "filesort" not in extra, plan
        assert "temporary" not in extra, plan
    # Whatever the plan says it expects: it stops at its limit.
    assert plan.rows_read <= reads_per_row * BATCH + 50, plan


def assert_no_scan(plan: Plan) -> None:
    assert all(row["type"] != "index" for row in plan.rows), plan


@pytest.mark.requirement("R1-10.1b")
def test_due_sagas_are_found_by_status_and_time():
    pending, retries = polls(lambda: dispatch(BATCH), "webhook_delivery_sagas")
    assert "status = " in pending.sql
    for plan in (pending, retries):
        assert_goes_by("idx_saga_status_retry", plan)
        assert_no_scan(plan)


@pytest.mark.requirement("R2-2.2c", "R2-5.1a")
def test_ready_jobs_are_found_by_status_and_lease():
    [plan] = polls(lambda: lease("worker", BATCH), "webhook_delivery_jobs")
    assert "FOR UPDATE SKIP LOCKED" in plan.sql
    assert_goes_by("idx_job_status_lease", plan)
    assert_no_scan(plan)


@pytest.mark.requirement("R2-5.1a")
def test_expired_leases_are_found_by_status_and_lease():
    [plan] = polls(lambda: clean(BATCH), "webhook_delivery_jobs")
    # One read of the saga and one of the event for each job.
    assert_goes_by("idx_job_status_lease", plan, reads_per_row=4)
    assert_no_scan(plan)


@pytest.mark.requirement("R1-10.1a")
def test_unsettled_results_are_found_by_the_mark_and_the_status():
    settler = Settler()
    for _ in range(2):  # the second time it goes on where it stopped
        plans = polls(lambda: settler.settle(BATCH), "webhook_delivery_jobs")
        assert len(plans) == 2
        for plan in plans:
            assert_goes_by("idx_job_settled", plan)
            assert_no_scan(plan)


@pytest.mark.requirement("R1-10.1a")
def test_pending_work_is_found_with_five_index_entries():
    [plan] = plans(pending_work, lambda sql: sql.startswith("SELECT EXISTS"))
    assert {row["key"] for row in plan.rows} <= {None, "idx_job_settled", "idx_saga_status_retry", "idx_request_due"}, (
        plan
    )
    assert plan.rows_read <= 10, plan


def test_the_inbox_is_read_from_its_beginning():
    [plan] = polls(lambda: Router().route(BATCH), "routing_inbox")
    assert "FOR UPDATE SKIP LOCKED" in plan.sql
    # It has no condition: the walk along the key, in order, is the index; that it stops is what counts.
    assert_goes_by("PRIMARY", plan)


def test_the_subscriptions_with_parked_sagas_are_found_by_one_look_up_each():
    parked = ParkedSubscriptions()
    parked.refresh()
    [plan] = plans(parked.refresh, lambda sql: "parked_subscription_id > " in sql)
    assert sorted(parked.ids) == [1, 2, 3, 4, 5]
    stored = [row for row in plan.rows if row["table"] == "webhook_delivery_sagas"]
    assert len(stored) == 6  # after 0 and after each of the five
    assert {(row["key"], row["type"]) for row in stored} == {("idx_saga_parked", "range")}, plan
    assert plan.rows_read <= 4 * len(stored), plan


def test_the_oldest_parked_sagas_are_read_in_order():
    limits = dict.fromkeys(range(1, 6), BATCH // 5)
    rows: list[object] = []
    [plan] = plans(lambda: rows.extend(oldest_parked(limits)), lambda sql: "parked_subscription_id = " in sql)
    assert len(rows) == BATCH
    stored = [row for row in plan.rows if row["table"] == "webhook_delivery_sagas"]
    assert [row["key"] for row in stored] == ["idx_saga_parked"] * 5, plan
    assert all("filesort" not in (row["extra"] or "") for row in stored), plan
    # The entries of the index with their rows, and the derived tables of the union.
    assert plan.rows_read <= 5 * BATCH + 50, plan


def test_parking_and_admission_access_only_their_own_rows():
    due = list(Saga.objects.filter(status="Pending", id__lte=100_000).values_list("id", flat=True)[:BATCH])
    writes = plans(lambda: (park(due, "Pending"), unpark(due, "Pending")), lambda sql: sql.startswith("UPDATE"))
    assert len(writes) == 2
    for plan in writes:
        [stored] = plan.rows
        assert (stored["key"], stored["type"]) == ("PRIMARY", "range"), plan
        assert plan.rows_read <= 4 * BATCH, plan


def test_open_attempts_are_counted_by_status():
    counts: dict[int, int] = {}
    [plan] = plans(lambda: counts.update(Job.objects.open_by_subscription()), lambda sql: "COUNT(" in sql)
    assert sum(counts.values()) == 2_000
    jobs, sagas = plan.rows
    assert jobs["key"] == "idx_job_status_lease", plan
    assert (sagas["key"], sagas["type"]) == ("PRIMARY", "eq_ref"), plan
    # Each job with its saga, and the groups.
    assert plan.rows_read <= 4 * sum(counts.values()) + 50, plan


def all_steps() -> None:
    Router().route(BATCH)
    dispatch(BATCH)
    report("worker", reports(lease("worker", BATCH)))
    Settler().settle(BATCH)
    clean(BATCH)


def test_the_insert_of_jobs_reads_only_the_sagas_it_names():
    [first, *retries] = plans(lambda: dispatch(BATCH), lambda sql: sql.startswith("INSERT INTO webhook_delivery_jobs"))
    for plan in (first, *retries):
        read = [row for row in plan.rows if row["select_type"] != "INSERT"]  # MySQL lists the target, too
        assert all(row["type"] in ("range", "eq_ref", "ref", "const") for row in read), plan
        # For each saga: its row, its jobs in the index, the attempt before, and the last two again for the trigger.
        assert plan.rows_read <= 9 * BATCH + 50, plan


@pytest.mark.requirement("R1-10.1a")
@pytest.mark.requirement("R4-4.1c")
def test_every_write_accesses_only_its_own_rows():
    writes = plans(all_steps, lambda sql: sql.startswith(("UPDATE", "DELETE")))
    assert len(writes) >= 8
    for plan in writes:
        [stored] = [row for row in plan.rows if str(row["table"]).startswith(("webhook_", "routing_"))]
        # The primary key, or an index that it completes: (status, id).
        assert stored["type"] in ("range", "eq_ref", "ref", "const"), plan
        assert int(stored["rows"]) <= BATCH, plan
        # The rows and the values given for them, which a server may read and write back a few times, and for the
        # trigger the attempt of each saga.
        assert plan.rows_read <= 7 * BATCH, plan
