"""The table of legal transitions, and what the product really does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.intake import publish
from events.routing import Router
from jobs import states as job_states
from jobs.lease import lease
from jobs.models import Job
from sagas import transitions
from sagas.apply_requests import apply_requests
from sagas.dispatch import dispatch
from sagas.models import ABANDON, Saga
from sagas.requests import request_deliveries
from sagas.transitions import LEGAL, STATUSES, TERMINAL, WAITING
from subscriptions.models import Subscription
from tests.factories import JobFactory, SubscriptionFactory
from tests.support.drive import until, until_terminal
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.every_engine

SPECIFIED = {
    ("Pending", "InProgress"),
    ("InProgress", "Completed"),
    ("InProgress", "PendingRetry"),
    ("PendingRetry", "InProgress"),
    # InProgress → PendingRetry → DeadLettered of the specification, taken in one write.
    ("InProgress", "DeadLettered"),
}
# By a person, who abandons a delivery that waits.
ABANDONED = {("Pending", "DeadLettered"), ("PendingRetry", "DeadLettered")}


@pytest.mark.requirement("R1-2.1d", "R1-3a", "R1-3g")
def test_the_table_is_the_specification():
    assert set(LEGAL) == SPECIFIED | ABANDONED
    assert STATUSES == ("Pending", "InProgress", "PendingRetry", "Completed", "DeadLettered")


@pytest.mark.requirement("R1-3g")
@pytest.mark.requirement("R3-6g")
def test_nothing_leaves_a_terminal_status_and_every_other_leads_to_one():
    assert not [pair for pair in LEGAL if pair[0] in TERMINAL]
    assert not [pair for pair in job_states.LEGAL if pair[0] in job_states.FINISHED]
    for status in set(STATUSES) - set(TERMINAL):
        assert _reachable(status) >= set(TERMINAL)


def test_the_diagram_shows_every_transition():
    lines = transitions.diagram().splitlines()

    assert lines[0] == "stateDiagram-v2"
    for (before, after), why in LEGAL.items():
        assert f"    {before} --> {after}: {why}" in lines


@pytest.fixture
def changes(committed: None) -> Iterator[Callable[[str], set[tuple[str, str]]]]:
    """Every change of status that the database sees, recorded by a trigger of the test's own."""
    tables = {"sagas": Saga._meta.db_table, "jobs": Job._meta.db_table}
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE seen_changes (kind varchar(10), old_word varchar(20), new_word varchar(20))")
        for kind, table in tables.items():
            cursor.execute(
                f"CREATE TRIGGER trg_seen_{kind} AFTER UPDATE ON {table} FOR EACH ROW "
                f"BEGIN INSERT INTO seen_changes VALUES ('{kind}', OLD.status, NEW.status); END"
            )
    yield _seen
    with connection.cursor() as cursor:
        for kind in tables:
            cursor.execute(f"DROP TRIGGER trg_seen_{kind}")
        cursor.execute("DROP TABLE seen_changes")


@pytest.mark.requirement("R1-3b", "R1-3c", "R1-3d", "R1-3e", "R1-3f", "R1-3g")
def test_the_pipeline_makes_every_legal_transition_and_no_other(changes, endpoint: HttpsEndpoint, hub_settings):
    hub_settings(postpone=timedelta(0))
    endpoint.respond = _by_path
    for path in ("/good", "/late", "/never"):
        SubscriptionFactory.create(
            callback_url=endpoint.url(path), max_retry_limit=2, base_delay=timedelta(milliseconds=1)
        )
    publish("order.created", {"n": 1})
    publish("nobody.wants", {"n": 2})
    until_terminal()
    requeue(list(DeadLetter.objects.values_list("id", flat=True)), by=_operator(), reason="endpoint repaired")
    until_terminal()
    _let_a_lease_expire()
    _switch_off_and_on(endpoint)
    _abandon(endpoint)

    assert changes("sagas") == set(LEGAL)
    assert changes("jobs") == set(job_states.LEGAL)
    assert {saga.status for saga in Saga.objects.all()} == set(TERMINAL)


def _by_path(request: Received) -> Reply:
    return Reply({"/good": 200, "/late": 200 if request.attempt == 2 else 503}.get(request.path, 500))


def _let_a_lease_expire() -> None:
    job = JobFactory.create(saga__subscription__event_type="other.type")
    lease("a worker that dies", 10)
    Job.objects.filter(id=job.id).update(lease_until=clock.now() - timedelta(seconds=1))
    until_terminal()


def _switch_off_and_on(endpoint: HttpsEndpoint) -> None:
    subscription = SubscriptionFactory.create(callback_url=endpoint.url("/good"), event_type="switched")
    publish("switched", {})
    Router().route(10)
    Subscription.objects.filter(id=subscription.id).update(active=False)
    dispatch(10)
    Subscription.objects.filter(id=subscription.id).update(active=True)
    until_terminal()


def _abandon(endpoint: HttpsEndpoint) -> None:
    """One delivery before its first attempt, one between two attempts."""
    SubscriptionFactory.create(
        callback_url=endpoint.url("/never"), event_type="given.up", max_retry_limit=2, base_delay=timedelta(hours=1)
    )
    publish("given.up", {"n": 1})
    until(lambda: Saga.objects.filter(status="PendingRetry").exists())
    publish("given.up", {"n": 2})
    Router().route(10)
    ids = list(Saga.objects.filter(status__in=WAITING).values_list("id", flat=True))
    assert len(request_deliveries(ABANDON, ids, by=Operator(), reason="obsolete")) == 2
    while apply_requests(10):
        pass


def _operator() -> User:
    user = User.objects.create_user("operator")
    user.user_permissions.add(Permission.objects.get(codename="requeue_deadletter"))
    return User.objects.get(pk=user.pk)


def _seen(kind: str) -> set[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT old_word, new_word FROM seen_changes WHERE kind = %s", [kind])
        return {(old, new) for old, new in cursor.fetchall() if old != new}


def _reachable(status: str) -> set[str]:
    found = {status}
    while new := {after for before, after in LEGAL if before in found} - found:
        found |= new
    return found
