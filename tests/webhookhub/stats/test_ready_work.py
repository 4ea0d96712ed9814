"""The age of the oldest ready work of each kind, while it goes from the event to its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction

from events.models import Event, RoutingInbox
from jobs.models import Job
from jobs.report import report
from sagas import queues
from sagas.dispatch import admit, dispatch
from sagas.flow import Flow
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.conformance import world
from tests.conformance.rivals import elsewhere
from tests.workflows.support import tell, tracked
from webhookhub.conf import KINDS
from webhookhub.db import clock
from webhookhub.stats import ready_work
from webhookhub.stats.ready_work import ATTEMPTS, DELIVERIES, EVENTS, LEASES, PARKED, RESULTS, WORKFLOW_EVENTS
from workflows.models import TrackedType, WorkflowInbox

from .test_probes import beat, get
from .test_prometheus import ORDER

LATER = timedelta(seconds=100)


def ready(after: timedelta = LATER) -> set[str]:
    """The kinds of work that are stuck if nothing happens for this time."""
    return set(ready_work.stuck(clock.now() + after, after - timedelta(seconds=30)))


@pytest.mark.django_db
def test_each_kind_of_work_is_ready_until_it_is_taken():
    world.subscribe("ok")
    world.publish_some("a")
    assert ready() == {EVENTS}
    world.route()
    assert ready() == {DELIVERIES}
    dispatch(world.BATCH)
    assert ready() == {ATTEMPTS}
    jobs = world.take()
    assert ready(timedelta(seconds=31)) == set()
    world.expire_leases()
    assert ready() == {LEASES}
    report(world.WORKER, world.reports(jobs))
    assert ready() == {RESULTS}
    world.settle()
    assert ready() == set()


@pytest.mark.django_db
def test_the_age_counts_from_the_time_at_which_the_work_was_ready():
    world.subscribe("ok", "retry")
    world.publish_some("a", "b")
    world.route()
    now = clock.now()
    first, *_ = Saga.objects.order_by("id")
    Saga.objects.update(next_attempt_at=now - timedelta(seconds=5))
    Saga.objects.filter(id=first.id).update(next_attempt_at=now - timedelta(seconds=90))

    work = ready_work.oldest(now)[DELIVERIES]

    assert work is not None
    assert (work.table, work.pk) == ("webhook_delivery_sagas", first.id)
    assert ready_work.age(work, now) == timedelta(seconds=90)


@pytest.mark.django_db
def test_work_of_the_future_is_not_ready():
    world.subscribe("ok")
    world.publish_some("a")
    world.route()
    Saga.objects.update(next_attempt_at=clock.now() + timedelta(hours=1))

    assert ready() == set()


@pytest.mark.django_db
@pytest.mark.parametrize("change", [{"active": False}, {"verified": False}])
def test_deliveries_to_paused_or_unverified_subscriptions_are_not_stuck(change: dict[str, bool]):
    world.subscribe("ok", "retry")
    world.publish_some("a")
    world.route()
    paused, other = Saga.objects.order_by("id")
    Saga.objects.filter(id=paused.id).update(next_attempt_at=clock.now() - timedelta(hours=1))
    Subscription.objects.filter(id=paused.subscription_id).update(**change)
    now = clock.now() + LATER

    work = ready_work.oldest(now)[DELIVERIES]
    assert work is not None
    assert work.pk == other.id

    Subscription.objects.update(**change)
    assert ready_work.oldest(now)[DELIVERIES] is None


@pytest.mark.django_db
def test_parked_deliveries_of_an_endpoint_without_attempts_are_stuck(hub_settings: Callable[..., None]):
    hub_settings(probe_interval=timedelta(seconds=20))
    world.subscribe("ok", "retry")
    world.publish_some("a", "b")
    world.route()
    first = Saga.objects.order_by("id").values_list("id", flat=True)[0]
    Subscription.objects.update(active=False)
    dispatch(world.BATCH)
    assert ready() == set()

    Subscription.objects.update(active=True)
    now = clock.now() + LATER
    work = ready_work.oldest(now)[PARKED]
    assert work is not None
    assert (work.table, work.pk) == ("webhook_delivery_sagas", first)
    assert timedelta(seconds=75) < ready_work.age(work, now) < timedelta(seconds=85)
    assert ready() == {PARKED}

    assert admit(world.BATCH, Flow()) == 4
    assert ready_work.oldest(now)[PARKED] is None


@pytest.mark.django_db
def test_parked_deliveries_of_a_busy_endpoint_are_not_stuck(
    hub_settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    hub_settings(probe_interval=timedelta(0))
    monkeypatch.setattr(queues, "MAX_QUEUED", 0)  # everything beyond the window is parked
    world.subscribe("ok")
    world.publish_some("a", "b", "c")
    world.route()
    dispatch(world.BATCH, flow=Flow())
    assert ready() == {ATTEMPTS}
    world.deliver()
    world.settle()
    now = clock.now()
    assert set(ready_work.stuck(now, timedelta(0))) == set()  # attempts have just ended
    assert set(ready_work.stuck(now + timedelta(minutes=5), timedelta(minutes=2))) == {PARKED}


@pytest.mark.django_db
def test_an_event_from_before_its_type_was_tracked_is_ready_since_then():
    tracked()
    tell(ORDER, ("order", "done"), "k-1")
    assert WORKFLOW_EVENTS in ready()
    since = clock.now() + timedelta(seconds=50)
    TrackedType.objects.update(tracked_since=since)

    work = ready_work.oldest(since)[WORKFLOW_EVENTS]
    assert work is not None
    assert (work.pk, work.since) == (WorkflowInbox.objects.get().event_id, since)


@pytest.mark.mysql_family
def test_work_whose_row_is_locked_is_found(committed: None):
    """The loops skip it, as if a process had vanished in the middle of its transaction."""
    world.publish_some("a")
    with transaction.atomic():
        list(RoutingInbox.objects.select_for_update())
        assert elsewhere(ready) == {EVENTS}


def test_a_hub_with_stuck_work_is_not_ready(committed: None, hub_settings: Callable[..., None]):
    for kind in KINDS:
        beat(kind)
    world.subscribe("ok")
    world.publish_some("a")
    assert get("/readyz").status_code == 200

    hub_settings(stuck_after=timedelta(0))
    response = get("/readyz")
    assert response.status_code == 503
    [missing] = response.json()["missing"]
    assert missing.startswith("events are not processed: the oldest has been ready for ")

    world.route()
    assert get("/readyz").json()["missing"][0].startswith("deliveries are not processed: ")
    dispatch(world.BATCH)
    assert get("/readyz").json()["missing"][0].startswith("attempts are not processed: ")
    assert (Event.objects.count(), Job.objects.count()) == (1, 1)
