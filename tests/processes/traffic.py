"""Deliveries that succeed, need a second attempt or never succeed, and the check that each ended once."""

from __future__ import annotations

from collections import Counter, defaultdict

from deadletters.models import DeadLetter
from events.intake import NewEvent, Published, publish_many
from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from sagas.transitions import COMPLETED, DEAD_LETTERED, TERMINAL
from tests.factories import SubscriptionFactory
from tests.webhookhub.integrity.support import assert_clean
from tools.demo.endpoint import HttpsEndpoint, Received, Reply

REFUSED_ATTEMPTS = 2


def respond(request: Received) -> Reply:
    if request.path == "/broken":
        return Reply(500)
    if request.path == "/flaky" and int(request.event_uid[-2:], 16) % 3 == 0 and request.attempt == 1:
        return Reply(503)
    return Reply()


def subscribe(endpoint: HttpsEndpoint) -> None:
    endpoint.respond = respond
    SubscriptionFactory(callback_url=endpoint.url("/steady"))
    SubscriptionFactory(callback_url=endpoint.url("/flaky"))
    SubscriptionFactory(
        callback_url=endpoint.url("/broken"), event_type="order.refused", max_retry_limit=REFUSED_ATTEMPTS
    )


def publish(count: int) -> None:
    """`count` events, one in ten of a type that always fails."""
    events = [
        NewEvent("order.refused" if number % 10 == 0 else "order.created", {"number": number})
        for number in range(1, count + 1)
    ]
    assert all(isinstance(result, Published) for result in publish_many(events))


def expected() -> int:
    """The number of deliveries of the published events."""
    by_type = Counter(Event.objects.values_list("event_type", flat=True))
    return 2 * by_type["order.created"] + by_type["order.refused"]


def all_ended() -> bool:
    """Every delivery has ended, and every result is settled."""
    ended = Saga.objects.filter(status__in=TERMINAL).count() == expected()
    return ended and not Job.objects.filter(settled_at__isnull=True).exists()


def check_each_ended_once(endpoint: HttpsEndpoint) -> None:
    sagas = list(Saga.objects.select_related("event", "subscription"))
    assert len({(saga.event_id, saga.subscription_id) for saga in sagas}) == len(sagas) == expected()
    assert {saga.generation for saga in sagas} == {0}

    attempts: dict[int, list[Job]] = defaultdict(list)
    for job in Job.objects.order_by("attempt_no"):
        attempts[job.saga_id].append(job)
    arrivals = Counter((request.event_uid, request.path, request.attempt) for request in endpoint.received)
    bodies = {(request.event_uid, request.body) for request in endpoint.received}
    assert len(bodies) == len({uid for uid, _ in bodies}), "an event was sent with different bytes"

    for saga in sagas:
        jobs = attempts.pop(saga.id)
        path = saga.subscription.callback_url.removeprefix(endpoint.url(""))
        assert saga.status == (DEAD_LETTERED if path == "/broken" else COMPLETED)
        assert [job.attempt_no for job in jobs] == list(range(1, saga.attempt_count + 1))
        assert all(job.settled_at for job in jobs)
        outcomes = [job.status for job in jobs]
        assert outcomes == ["Failed"] * (len(jobs) - 1) + [COMPLETED if saga.status == COMPLETED else "Failed"]
        if saga.status == DEAD_LETTERED:
            assert saga.attempt_count == REFUSED_ATTEMPTS
        for job in jobs:
            seen = arrivals.pop((str(saga.event.uid), path, job.attempt_no), 0)
            assert 1 <= seen <= 1 + job.lease_resets, f"{job} was received {seen} times"
    assert not attempts, "attempts without a delivery"
    assert_clean()
    assert not arrivals, "the endpoint received a request without an attempt"

    dead = sorted(saga.id for saga in sagas if saga.status == DEAD_LETTERED)
    assert sorted(DeadLetter.objects.values_list("saga_id", flat=True)) == dead
