"""Each violation, planted in a healthy database whose protection was taken away, is found and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from events.models import Event, RoutingInbox
from jobs.models import Job
from sagas.models import Saga
from webhookhub.db import clock
from webhookhub.integrity.checks import ALL
from webhookhub.models import Process

from .population import populate
from .support import audit, execute, keys, value, without_protection

EVENTS, INBOX, SUBSCRIPTIONS = "events", "routing_inbox", "subscriptions"
SAGAS, JOBS = "webhook_delivery_sagas", "webhook_delivery_jobs"
INSTANCES, FACTS, WORKFLOW_INBOX = "saga_instances", "saga_facts", "workflow_inbox"
LETTERS, REQUEUES, REQUESTS = "dead_letters", "dead_letter_requeues", "delivery_requests"
SEND_AGAIN = "kind = 'send_again'"
ABANDONED = "final_error_code = 'abandoned'"
PAST, FUTURE = "'2001-01-01 00:00:00'", "'2101-01-01 00:00:00'"
NOWHERE = 987654
NO_UID = f"'{0:032}'"

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.fixture(scope="module")
def population(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Committed, once for all tests here; what each of them plants is rolled back after it."""
    with django_db_blocker.unblock():
        populate()
        with without_protection():
            yield


@pytest.fixture
def planting(population: None, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process writes here, so the second read need not wait."""
    monkeypatch.setattr("webhookhub.integrity.check.RECHECK_SECONDS", 0)


def pick(table: str, where: str) -> int:
    found = value(f"SELECT MIN(id) FROM {table} WHERE {where}")
    assert found, f"no row of {table} is {where}"
    return int(found)


def update(table: str, where: str, change: str) -> int:
    id = pick(table, where)
    execute(f"UPDATE {table} SET {change} WHERE id = {id}")
    return id


def delete(table: str, where: str) -> int:
    id = pick(table, where)
    execute(f"DELETE FROM {table} WHERE id = {id}")
    return id


GENERATED = ("id", "active_saga_id", "parked_subscription_id", "existing")


def copy(table: str, where: str, **changed: str) -> int:
    """Copies a row, with these changes."""
    id = pick(table, where)
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, table)
    columns = [column.name for column in described if column.name not in GENERATED]
    values = ", ".join(changed.get(column, column) for column in columns)
    execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE id = {id}")
    return int(value(f"SELECT MAX(id) FROM {table}"))


def of_saga(status: str, more: str = "1 = 1") -> str:
    """The condition on jobs or dead letters that their saga is in this state."""
    return f"saga_id = {pick(SAGAS, f'status = {status!r} AND {more}')}"


def saga_of_job(where: str) -> int:
    return int(value(f"SELECT saga_id FROM {JOBS} WHERE id = {pick(JOBS, where)}"))


def predecessor_completed() -> int:
    later = Saga.objects.filter(generation=2).order_by("id")[0]
    execute(
        f"UPDATE {SAGAS} SET status = 'Completed' WHERE generation = 1 AND event_id = {later.event_id} "
        f"AND subscription_id = {later.subscription_id}"
    )
    return later.id


def without_requeue_record() -> int:
    saga = Saga.objects.filter(generation=1).order_by("id")[0]
    [before] = Saga.objects.filter(event_id=saga.event_id, subscription_id=saga.subscription_id, generation=0)
    letter = value(f"SELECT id FROM {LETTERS} WHERE saga_id = {before.id}")
    execute(f"DELETE FROM {REQUEUES} WHERE dead_letter_id = {letter}")
    return saga.id


def requeue_cut_short() -> int:
    saga = Saga.objects.filter(generation=2).order_by("id")[0]
    [before] = Saga.objects.filter(event_id=saga.event_id, subscription_id=saga.subscription_id, generation=1)
    delete(SAGAS, f"id = {saga.id}")
    letter = value(f"SELECT id FROM {LETTERS} WHERE saga_id = {before.id}")
    return update(REQUEUES, f"dead_letter_id = {letter}", f"requested_at = {PAST}")


def abandoned_by_nobody() -> int:
    saga = update(SAGAS, ABANDONED, "abandoned_by_id = NULL")
    return pick(LETTERS, f"saga_id = {saga}")


def abandoned_later() -> int:
    execute(f"UPDATE {REQUESTS} SET saga_id = NULL, max_saga_id = 0 WHERE kind = 'abandon'")
    return pick(SAGAS, ABANDONED)


def not_sent_again() -> int:
    delete(SAGAS, f"id = {_sent_again()}")
    return pick(REQUESTS, SEND_AGAIN)


def sent_again_by_nobody() -> int:
    saga = _sent_again()
    delete(REQUESTS, SEND_AGAIN)
    return saga


def _sent_again() -> int:
    first = Saga.objects.get(id=value(f"SELECT saga_id FROM {REQUESTS} WHERE {SEND_AGAIN}"))
    return Saga.objects.get(
        event_id=first.event_id, subscription_id=first.subscription_id, generation=first.generation + 1
    ).id


def accepted_attempt_unfinished() -> int:
    saga = saga_of_job(of_saga("Completed"))
    update(JOBS, f"saga_id = {saga}", "status = 'Pending'")
    return saga


def in_progress_without_job() -> int:
    saga = saga_of_job("status = 'Leased'")
    delete(JOBS, f"saga_id = {saga}")
    return saga


def in_progress_with_settled_job() -> int:
    saga = saga_of_job("status = 'Leased'")
    update(JOBS, f"saga_id = {saga}", f"status = 'Failed', settled_at = {PAST}")
    return saga


def applied_long_ago_and_not_settled() -> int:
    job = update(JOBS, of_saga("Completed"), "settled_at = NULL")
    update(SAGAS, f"id = {Job.objects.get(id=job).saga_id}", f"updated_at = {PAST}")
    return job


def letter_of(change: str) -> int:
    """The dead letter of a saga that is changed."""
    saga = update(SAGAS, "status = 'DeadLettered' AND generation = 0", change)
    return pick(LETTERS, f"saga_id = {saga}")


def letter_written_long_ago_and_saga_in_progress() -> int:
    letter = letter_of("status = 'InProgress'")
    return update(LETTERS, f"id = {letter}", f"failed_at = {PAST}")


def error_of_last_attempt_differs() -> int:
    letter = pick(LETTERS, "1 = 1")
    saga = value(f"SELECT saga_id FROM {LETTERS} WHERE id = {letter}")
    execute(f"UPDATE {JOBS} SET error_code = 'timeout' WHERE saga_id = {saga}")
    return letter


def number_written_otherwise() -> int:
    """1 and 1.0 are the same number and not the same document."""
    letter = update(LETTERS, "1 = 1", """payload_snapshot = '{"n": 1.0}'""")
    event = value(f"SELECT event_id FROM {LETTERS} WHERE id = {letter}")
    execute(f"""UPDATE {LETTERS} SET payload_snapshot = '{{"n": 1}}' WHERE event_id = {event} AND id <> {letter}""")
    execute(f"""UPDATE {EVENTS} SET payload = '{{"n": 1}}' WHERE id = {event}""")
    return letter


def never_routed() -> int:
    event = int(value(f"SELECT MIN(event_id) FROM {INBOX}"))
    return update(EVENTS, f"id = {event}", f"created_at = {PAST}")


def inbox_row_of_no_event() -> int:
    execute(f"INSERT INTO {INBOX} (event_id, event_type) VALUES ({NOWHERE}, 'order.created')")
    return NOWHERE


def not_delivered_to_all() -> int:
    execute(f"UPDATE {SUBSCRIPTIONS} SET updated_at = {PAST}, verification_at = {PAST}")
    event = Event.objects.get(external_id="order.created:a")
    execute(f"UPDATE {EVENTS} SET created_at = '2002-01-01 00:00:00' WHERE id = {event.id}")
    delete(SAGAS, f"event_id = {event.id} AND status = 'Completed'")
    return event.id


NOT_EU = """'[{"not": {"label": "region", "equals": "eu"}}]'"""
ONLY_EU = """'[{"label": "region", "equals": "eu"}]'"""


def not_delivered_to_filtered() -> int:
    execute(f"UPDATE {SUBSCRIPTIONS} SET label_filter = {NOT_EU}")
    return not_delivered_to_all()


def delivered_in_spite_of_a_filter() -> int:
    saga = Saga.objects.filter(status="Completed", generation=0).order_by("id")[0]
    execute(f"""UPDATE {EVENTS} SET labels = '{{"region": "eu"}}' WHERE id <> {saga.event_id}""")
    execute(f"UPDATE {EVENTS} SET created_at = '2002-01-01 00:00:00' WHERE id = {saga.event_id}")
    where = f"id = {saga.subscription_id}"
    execute(f"UPDATE {SUBSCRIPTIONS} SET updated_at = {PAST}, label_filter = {ONLY_EU} WHERE {where}")
    return saga.pk


def never_tracked() -> int:
    event = int(value(f"SELECT MIN(event_id) FROM {WORKFLOW_INBOX}"))
    return update(EVENTS, f"id = {event}", f"created_at = {PAST}")


def never_tracked_though_leased() -> int:
    """A tracker that fails at each start leases it again each time."""
    event = never_tracked()
    execute(f"UPDATE {WORKFLOW_INBOX} SET lease_until = {FUTURE} WHERE event_id = {event}")
    return event


def never_tracked_from_the_future() -> int:
    event = int(value(f"SELECT MIN(event_id) FROM {WORKFLOW_INBOX}"))
    return update(EVENTS, f"id = {event}", f"created_at = {FUTURE}")


def workflow_inbox_row_of_no_event() -> int:
    execute(f"INSERT INTO {WORKFLOW_INBOX} (event_id) VALUES ({NOWHERE})")
    return NOWHERE


def without_fact(status: str, fact: str) -> int:
    """A workflow in this state that lacks a fact."""
    instance = pick(INSTANCES, f"status = '{status}'")
    execute(f"DELETE FROM {FACTS} WHERE instance_id = {instance} AND {fact}")
    return instance


def compensation_of_a_completed_run() -> int:
    instance = pick(INSTANCES, "status = 'COMPLETED'")
    copy(FACTS, "detail = 'saga.compensation_requested'", instance_id=str(instance))
    return instance


def born_for_nothing() -> int:
    instance = pick(INSTANCES, "status = 'IN_PROGRESS'")
    execute(f"DELETE FROM {FACTS} WHERE instance_id = {instance}")
    return update(INSTANCES, f"id = {instance}", f"version = 0, deadline = NULL, started_at = {PAST}")


def only_the_endpoint_is_disabled() -> int:
    id = pick(SUBSCRIPTIONS, "verified = 1")
    execute(
        "INSERT INTO endpoint_health (endpoint_id, callback_url, failing_since, last_error_code, disabled_at) "
        f"SELECT endpoint_id, callback_url, {PAST}, 'http_410', {PAST} FROM {SUBSCRIPTIONS} WHERE id = {id}"
    )
    return id


def silent_process() -> str:
    Process.objects.create(name="gone", kind="worker", host="h", pid=1, heartbeat_at="2001-01-01T00:00:00Z")
    return "gone"


def only_a_worker() -> str:
    for kind in ("worker", "orchestrator", "router", "workflows"):
        Process.objects.create(name=kind, kind=kind, host="h", pid=1, heartbeat_at=clock.now())
    return "cleaner"


PENDING, RETRY, IN_PROGRESS = "status = 'Pending'", "status = 'PendingRetry'", "status = 'InProgress'"
COMPLETED, DEAD = "status = 'Completed'", "status = 'DeadLettered'"
LEASED, ANY = "status = 'Leased'", "1 = 1"


def to_another_endpoint() -> int:
    saga = update(SAGAS, "generation = 0", f"endpoint_id = {NOWHERE}")
    execute(f"UPDATE endpoints SET created_at = {PAST}")
    return saga


def crossing() -> int:
    """A delivery to the subscription of a customer that is not the event's."""
    other = copy(SUBSCRIPTIONS, "verified = 1", callback_url="'https://example.com/'", customer_key="'globex'")
    return copy(SAGAS, COMPLETED, subscription_id=str(other))


def inbox_row_of_another_customer() -> int:
    event = int(value(f"SELECT MIN(event_id) FROM {INBOX}"))
    execute(f"UPDATE {INBOX} SET customer_key = 'acme' WHERE event_id = {event}")
    return event


PLANTED: dict[str, tuple[str, Callable[[], int | str]]] = {
    "an event that is not routed": ("inbox", never_routed),
    "an inbox row of no event": ("inbox", inbox_row_of_no_event),
    "an event that was not delivered to all": ("deliveries", not_delivered_to_all),
    "an event that was not delivered although the filter accepts it": ("deliveries", not_delivered_to_filtered),
    "a delivery that the filter forbids": ("filtered", delivered_in_spite_of_a_filter),
    "a subscription disabled without its endpoint": (
        "disabled",
        lambda: update(SUBSCRIPTIONS, "verified = 1", f"disabled_at = {PAST}"),
    ),
    "a disabled endpoint with an enabled subscription": ("disabled", only_the_endpoint_is_disabled),
    "a subscription with another limit than its endpoint": (
        "endpoint-settings",
        lambda: update(SUBSCRIPTIONS, ANY, "rate_limit = 7"),
    ),
    "a delivery to another endpoint": ("saga-endpoints", to_another_endpoint),
    "a subscription without an endpoint": (
        "endpoint-settings",
        lambda: update(SUBSCRIPTIONS, ANY, f"endpoint_id = {NOWHERE}"),
    ),
    "a delivery to another customer": ("customers", crossing),
    "a delivery with another customer": ("customers", lambda: update(SAGAS, COMPLETED, "customer_key = 'acme'")),
    "a dead letter with another customer": (
        "dead-letter-customers",
        lambda: update(LETTERS, ANY, "customer_key = 'acme'"),
    ),
    "an inbox row with another customer": ("inbox-customers", inbox_row_of_another_customer),
    "a subscription of no customer": (
        "subscription-customers",
        lambda: update(SUBSCRIPTIONS, ANY, "customer_key = 'nobody'"),
    ),
    "a subscription disabled without its customer": (
        "subscription-customers",
        lambda: update(SUBSCRIPTIONS, ANY, f"customer_disabled_at = {PAST}"),
    ),
    "an event of no customer": ("event-customers", lambda: update(EVENTS, ANY, "customer_key = 'nobody'")),
    "two sagas of a generation": ("one-saga", lambda: copy(SAGAS, COMPLETED)),
    "a generation left out": ("generations", lambda: update(SAGAS, "generation = 2", "generation = 3")),
    "a generation after a success": ("generations", predecessor_completed),
    "a generation without a requeue record": ("requeued-by", without_requeue_record),
    "Pending after an attempt": ("attempt-bounds", lambda: update(SAGAS, PENDING, "attempt_count = 1")),
    "PendingRetry at the limit": ("attempt-bounds", lambda: update(SAGAS, RETRY, "attempt_count = max_retry_limit")),
    "PendingRetry before an attempt": ("attempt-bounds", lambda: update(SAGAS, RETRY, "attempt_count = 0")),
    "InProgress at the limit": (
        "attempt-bounds",
        lambda: update(SAGAS, IN_PROGRESS, "attempt_count = max_retry_limit"),
    ),
    "Completed before an attempt": ("attempt-bounds", lambda: update(SAGAS, COMPLETED, "attempt_count = 0")),
    "Completed beyond the limit": ("attempt-bounds", lambda: update(SAGAS, COMPLETED, "attempt_count = 9")),
    "DeadLettered below the limit": ("attempt-bounds", lambda: update(SAGAS, DEAD, "max_retry_limit = 9")),
    "an attempt counted that was not made": (
        "attempt-count",
        lambda: update(SAGAS, RETRY, "attempt_count = attempt_count + 1"),
    ),
    "an attempt made that was not counted": (
        "attempt-count",
        lambda: update(SAGAS, "status = 'Completed' AND attempt_count = 2", "attempt_count = 1"),
    ),
    "an accepted attempt that is not finished": ("attempt-count", accepted_attempt_unfinished),
    "an attempt left out": ("attempt-numbers", lambda: copy(JOBS, LEASED, attempt_no="7")),
    "an attempt numbered 0": ("attempt-numbers", lambda: copy(JOBS, LEASED, attempt_no="0")),
    "two jobs of an attempt": ("one-job", lambda: copy(JOBS, "status = 'Failed'")),
    "two active jobs": ("one-active-job", lambda: copy(JOBS, LEASED, attempt_no="attempt_no + 1")),
    "an active job of an ended saga": ("active-jobs", lambda: update(JOBS, of_saga("Completed"), LEASED)),
    "an active job beyond the next attempt": ("active-jobs", lambda: update(JOBS, LEASED, "attempt_no = 2")),
    "InProgress with nothing under way": ("in-progress", in_progress_without_job),
    "InProgress with a settled result": ("in-progress", in_progress_with_settled_job),
    "a result applied long ago and not settled": ("settled", applied_long_ago_and_not_settled),
    "a result that can never be applied": (
        "settled",
        lambda: copy(JOBS, of_saga("Completed"), attempt_no="attempt_no + 1", settled_at="NULL"),
    ),
    "Completed by a failure": ("outcomes", lambda: update(JOBS, of_saga("Completed"), "status = 'Failed'")),
    "DeadLettered after a success": ("outcomes", lambda: update(JOBS, of_saga("DeadLettered"), "status = 'Completed'")),
    "a retry after a success": (
        "outcomes",
        lambda: update(JOBS, of_saga("Completed", "attempt_count = 2") + " AND attempt_no = 1", "status = 'Completed'"),
    ),
    "a lease without a token": ("leased-jobs", lambda: update(JOBS, LEASED, "lease_token = ''")),
    "a lease without a worker": ("leased-jobs", lambda: update(JOBS, LEASED, "worker_id = ''")),
    "a lease without an end": ("leased-jobs", lambda: update(JOBS, LEASED, "lease_until = NULL")),
    "an attempt that is never ready": (
        "pending-jobs",
        lambda: update(JOBS, LEASED, "status = 'Pending', lease_until = NULL"),
    ),
    "a lease long past its time": ("overdue-leases", lambda: update(JOBS, LEASED, f"lease_until = {PAST}")),
    "finished at no time": ("finished-jobs", lambda: update(JOBS, COMPLETED, "finished_at = NULL")),
    "finished without a worker": ("finished-jobs", lambda: update(JOBS, COMPLETED, "worker_id = ''")),
    "finished without a lease": ("finished-jobs", lambda: update(JOBS, COMPLETED, "lease_token = ''")),
    "failed without an error": ("finished-jobs", lambda: update(JOBS, "status = 'Failed'", "error_code = NULL")),
    "succeeded with an error": ("finished-jobs", lambda: update(JOBS, COMPLETED, "error_code = 'timeout'")),
    "leased and finished": ("finished-jobs", lambda: update(JOBS, LEASED, f"finished_at = {PAST}")),
    "leased and settled": ("finished-jobs", lambda: update(JOBS, LEASED, f"settled_at = {PAST}")),
    "leased and in error": ("finished-jobs", lambda: update(JOBS, LEASED, "error_code = 'timeout'")),
    "DeadLettered without a dead letter": ("dead-lettered", lambda: _saga_of_letter(delete_letter=True)),
    "a dead letter of a success": ("dead-letters", lambda: letter_of("status = 'Completed'")),
    "a dead letter of a retry": ("dead-letters", lambda: letter_of("status = 'PendingRetry'")),
    "a dead letter whose saga did not follow": ("dead-letters", letter_written_long_ago_and_saga_in_progress),
    "two dead letters of a saga": ("one-dead-letter", lambda: copy(LETTERS, ANY)),
    "a dead letter of another event": ("dead-letter-facts", lambda: update(LETTERS, ANY, "event_id = event_id + 1")),
    "a dead letter of another subscription": (
        "dead-letter-facts",
        lambda: update(LETTERS, ANY, "subscription_id = subscription_id + 1"),
    ),
    "a dead letter with another error": (
        "dead-letter-facts",
        lambda: update(LETTERS, ANY, "final_error_code = 'HTTP_500'"),
    ),
    "a dead saga with another error": ("dead-letter-facts", lambda: letter_of("final_error_code = 'timeout'")),
    "a dead saga without an error": ("dead-letter-facts", lambda: letter_of("final_error_code = NULL")),
    "a last attempt with another error": ("dead-letter-facts", error_of_last_attempt_differs),
    "a dead letter with another payload": (
        "dead-letter-payloads",
        lambda: update(LETTERS, ANY, """payload_snapshot = '{"n": 2}'"""),
    ),
    "a dead letter with a number written otherwise": ("dead-letter-payloads", number_written_otherwise),
    "a requeue cut short": ("requeues", requeue_cut_short),
    "a dead letter abandoned by nobody": ("abandoned", abandoned_by_nobody),
    "a saga abandoned by nobody": ("abandoned-by", lambda: update(SAGAS, ABANDONED, "abandoned_by_id = NULL")),
    "a saga abandoned by another kind of request": (
        "abandoned-by",
        lambda: update(SAGAS, ABANDONED, f"abandoned_by_id = {pick(REQUESTS, SEND_AGAIN)}"),
    ),
    "a saga that a request has forgotten": (
        "abandoned-by",
        lambda: update(SAGAS, ABANDONED, "status = 'PendingRetry'"),
    ),
    "a saga newer than the request that abandons it": ("abandoned-by", abandoned_later),
    "a request that is not applied": (
        "requests",
        lambda: update(REQUESTS, "kind = 'send_now'", f"due_at = {PAST}"),
    ),
    "a request that is applied and due": ("requests", lambda: update(REQUESTS, SEND_AGAIN, f"due_at = {FUTURE}")),
    "a request with conditions that cannot be read": (
        "request-conditions",
        lambda: update(REQUESTS, SEND_AGAIN, "saga_id = NULL, conditions = '{\"typo\": 1}'"),
    ),
    "a request that has counted too many": (
        "request-counts",
        lambda: update(REQUESTS, "kind = 'abandon'", "changed = 2"),
    ),
    "a delivery that was not sent again": ("sent-again", not_sent_again),
    "a success sent again by nobody": ("generations", sent_again_by_nobody),
    "a saga of no event": ("saga-references", lambda: update(SAGAS, PENDING, f"event_id = {NOWHERE}")),
    "a saga of no subscription": ("saga-references", lambda: update(SAGAS, PENDING, f"subscription_id = {NOWHERE}")),
    "a job of no saga": ("job-references", lambda: update(JOBS, LEASED, f"saga_id = {NOWHERE}")),
    "a dead letter of no saga": ("dead-letter-references", lambda: update(LETTERS, ANY, f"saga_id = {NOWHERE}")),
    "a dead letter of no event": ("dead-letter-references", lambda: update(LETTERS, ANY, f"event_id = {NOWHERE}")),
    "a dead letter of no subscription": (
        "dead-letter-references",
        lambda: update(LETTERS, ANY, f"subscription_id = {NOWHERE}"),
    ),
    "a requeue of no dead letter": ("requeue-references", lambda: update(REQUEUES, ANY, f"dead_letter_id = {NOWHERE}")),
    "an event of a workflow that is not tracked": ("workflow-inbox", never_tracked),
    "an event of a workflow that a tracker fails at": ("workflow-inbox", never_tracked_though_leased),
    "an event of a workflow from the future that is not tracked": ("workflow-inbox", never_tracked_from_the_future),
    "a workflow's inbox row of no event": ("workflow-inbox", workflow_inbox_row_of_no_event),
    "an end without a decision": ("workflow-ends", lambda: without_fact("COMPLETED", "role = 'ended'")),
    "an end that was not published": ("workflow-ends", lambda: without_fact("FAILED", "detail = 'saga.failed'")),
    "compensation of a completed run": ("workflow-compensation", compensation_of_a_completed_run),
    "an event in the hub's name that is of no workflow": (
        "workflow-publications",
        lambda: copy(EVENTS, "source = 'hub'", uid=NO_UID, external_id="'forged'", created_at=PAST),
    ),
    "an event in the hub's name from the future": (
        "workflow-publications",
        lambda: copy(EVENTS, "source = 'hub'", uid=NO_UID, external_id="'forged'", created_at=FUTURE),
    ),
    "an event of the hub's types from somebody else": (
        "workflow-publications",
        lambda: copy(
            EVENTS, "source <> 'hub'", uid=NO_UID, event_type="'saga.failed'", external_id="'f'", created_at=PAST
        ),
    ),
    "an event in the hub's name about another case": (
        "workflow-publications",
        lambda: update(EVENTS, "source = 'hub'", f"correlation_id = 'other', created_at = {PAST}"),
    ),
    "a time-out that was not processed": (
        "workflow-deadlines",
        lambda: update(INSTANCES, "status = 'IN_PROGRESS'", f"deadline = {PAST}"),
    ),
    "an open workflow without a deadline": (
        "workflow-deadlines",
        lambda: update(INSTANCES, "status = 'COMPENSATING'", "deadline = NULL"),
    ),
    "a workflow that was born and never heard of again": ("workflow-deadlines", born_for_nothing),
    "a fact of no workflow": ("workflow-references", lambda: copy(FACTS, ANY, instance_id=str(NOWHERE))),
    "a fact of no event": ("workflow-references", lambda: copy(FACTS, ANY, event_id=str(NOWHERE))),
    "a due delivery that is not dispatched": (
        "ready-work",
        lambda: update(SAGAS, "status = 'Pending'", f"next_attempt_at = {PAST}"),
    ),
    "an attempt that no worker takes": (
        "ready-work",
        lambda: update(JOBS, "status = 'Leased'", f"status = 'Pending', lease_until = {PAST}"),
    ),
    "a result that is not applied": (
        "ready-work",
        lambda: update(JOBS, of_saga("Completed"), f"settled_at = NULL, finished_at = {PAST}"),
    ),
    "a silent process": ("processes", silent_process),
    "a hub without a cleaner": ("process-kinds", only_a_worker),
}
ELSEWHERE = {"server", "keys", "triggers", "triggers-seen"}  # tests/webhookhub/integrity/test_schema.py


def _saga_of_letter(*, delete_letter: bool) -> int:
    saga = pick(SAGAS, f"{DEAD} AND generation = 1")
    if delete_letter:
        delete(LETTERS, f"saga_id = {saga}")
    return saga


def test_nothing_is_found_before_anything_is_planted(planting: None):
    assert audit(*(check.name for check in ALL if check.name not in ELSEWHERE)) == {}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_violation_is_found_and_named(planting: None, what: str):
    name, plant = PLANTED[what]
    planted = plant()

    found = audit(name)

    assert {name: keys(result) for name, result in found.items()} == {name: [planted]}
    assert str(planted) in str(found[name].first[0])


def test_every_check_has_a_planted_violation():
    assert {check.name for check in ALL} == {name for name, _ in PLANTED.values()} | ELSEWHERE


def test_a_subscription_that_changed_later_is_no_violation(planting: None):
    event = not_delivered_to_all()
    for change in ("updated_at", "verification_at"):
        with transaction.atomic():
            execute(f"UPDATE {SUBSCRIPTIONS} SET {change} = '2001-12-31 23:58:00'")
            assert audit("deliveries") == {}, f"{change} within the grace period before event {event}"
            transaction.set_rollback(True)
    for change in ("active = 0", "verified = 0", "event_type = 'other'"):
        with transaction.atomic():
            execute(f"UPDATE {SUBSCRIPTIONS} SET {change}")
            assert audit("deliveries") == {}
            transaction.set_rollback(True)
    assert keys(audit("deliveries")["deliveries"]) == [event]


def test_an_event_that_the_filter_does_not_accept_needs_no_delivery(planting: None):
    not_delivered_to_all()
    execute(f"UPDATE {SUBSCRIPTIONS} SET label_filter = {ONLY_EU}")
    assert audit("deliveries") == {}


def test_a_delivery_that_the_filter_accepts_or_that_is_older_than_the_filter_is_no_violation(planting: None):
    saga = Saga.objects.get(pk=delivered_in_spite_of_a_filter())
    with transaction.atomic():
        execute(f"UPDATE {SUBSCRIPTIONS} SET updated_at = '2001-12-31 23:58:00'")
        assert audit("filtered") == {}
        transaction.set_rollback(True)
    execute(f"""UPDATE {EVENTS} SET labels = '{{"region": "eu"}}' WHERE id = {saga.event_id}""")
    assert audit("filtered") == {}


def test_work_in_progress_is_reported_only_after_the_grace_period(planting: None):
    """A dead letter whose saga is about to follow, and results whose saga has just applied them."""
    letter = letter_of("status = 'InProgress', attempt_count = attempt_count - 1")
    job = update(JOBS, of_saga("Completed"), "settled_at = NULL")

    assert audit("dead-letters", "settled") == {}
    found = audit("dead-letters", "settled", "inbox", grace=0)
    assert keys(found["dead-letters"]) == [letter]
    assert keys(found["settled"]) == [job]
    assert keys(found["inbox"]) == sorted(RoutingInbox.objects.values_list("event_id", flat=True))


def test_only_the_first_rows_are_named_and_all_are_counted(planting: None):
    execute(f"UPDATE {JOBS} SET lease_token = ''")
    total = Job.objects.filter(status="Leased").count()

    result = audit("leased-jobs", limit=2, batch_size=1)["leased-jobs"]

    assert result.found == total > 2
    assert len(result.first) == 2
    assert result.rows == Job.objects.count()
