"""The steps of the pipeline, each with rows to work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.intake import NewEvent, publish_many
from events.models import Event
from events.routing import Router
from jobs.cleaner import clean
from jobs.create import create_jobs
from jobs.lease import lease_hinted, release
from jobs.models import Job
from jobs.report import report
from jobs.states import FINISHED
from sagas import settle as settling
from sagas.apply_requests import apply_requests
from sagas.dispatch import admit, dispatch, dispatch_hinted
from sagas.flow import Flow
from sagas.models import ABANDON, SEND_AGAIN, SEND_NOW, Saga
from sagas.requests import RequestFilter, request_deliveries, request_matching
from subscriptions.models import Subscription

from . import world
from .world import BATCH, WORKER

Work = Callable[[], object]


@dataclass(frozen=True)
class Step:
    """`prepare` creates the rows for one event type and returns the step."""

    name: str
    prepare: Callable[[str], Work]
    # Needed before the step can be repeated: the leases of a killed worker must expire.
    recover: Work = lambda: None
    ignoring: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


def to_publish(event_type: str) -> Work:
    world.subscribe("ok", "dead", event_type=event_type)
    world.publish_some("a", event_type=event_type)
    new = [NewEvent(event_type, {"n": name}, external_id=f"{event_type}:{name}") for name in "abc"]
    return lambda: publish_many(new)


def to_route(event_type: str) -> Work:
    world.subscribe("ok", "retry", "dead", event_type=event_type)
    world.publish_some("a", "b", event_type=event_type)
    publish_many([NewEvent(f"{event_type}.unmatched", {}, external_id=f"{event_type}:x")])
    return world.route


def to_dispatch(event_type: str) -> Work:
    """First attempts and retries, to enabled and disabled subscriptions, and one disabled after its job was created."""
    to_route(event_type)()
    dispatch(BATCH)
    world.deliver()
    world.settle()
    world.subscribe("ok-off", "retry-off", "ok-begun", event_type=event_type)
    world.publish_some("c", "d", event_type=event_type)
    world.route()
    off = Subscription.objects.filter(event_type=event_type, callback_url__regex="off|begun")
    off.update(active=False)
    with_job = Saga.objects.filter(subscription__in=off.filter(callback_url__contains="begun"))
    create_jobs(list(with_job.values_list("id", flat=True)), "Pending", 0)
    world.let_time_pass()
    return lambda: dispatch(BATCH)


def to_admit(event_type: str) -> Work:
    """Parked first attempts and retries of subscriptions that are switched on again, one of them with a rate limit."""
    world.subscribe("ok", "retry", event_type=event_type)
    # No more than the smallest window, so that none stays in the park.
    world.publish_some("a", event_type=event_type)
    world.route()
    dispatch(BATCH)
    world.deliver()
    world.settle()
    world.publish_some("b", event_type=event_type)
    world.route()
    world.let_time_pass()
    subscriptions = Subscription.objects.filter(event_type=event_type)
    subscriptions.update(active=False)
    dispatch(BATCH)
    subscriptions.update(active=True)
    subscriptions.filter(callback_url__contains="retry").update(rate_limit=10_000)

    def work() -> None:
        admit(BATCH, Flow())
        dispatch(BATCH)

    return work


def dispatched(event_type: str, *names: str) -> None:
    world.subscribe(*names, event_type=event_type)
    world.publish_some("a", "b", event_type=event_type)
    world.route()
    dispatch(BATCH)


def to_lease(event_type: str) -> Work:
    dispatched(event_type, "ok", "retry", "dead")
    return lambda: world.take()


def reset_leases() -> None:
    world.expire_leases()
    clean(BATCH)


def to_report(event_type: str) -> Work:
    dispatched(event_type, "ok", "retry", "dead")
    reports = world.reports(world.take())
    return lambda: report(WORKER, reports)


def to_release(event_type: str) -> Work:
    dispatched(event_type, "ok", "retry", "dead")
    jobs = world.take()
    return lambda: release(WORKER, [(job, timedelta(hours=1)) for job in jobs])


def to_settle(*names: str) -> Callable[[str], Work]:
    def prepare(event_type: str) -> Work:
        dispatched(event_type, *names)
        world.deliver()
        return world.settle

    return prepare


def to_settle_beside_another(event_type: str) -> Work:
    """Another orchestrator has settled one result of each status since this one has read them."""
    dispatched(event_type, "ok", "retry", "dead")
    world.deliver()
    read = [job for status in FINISHED for job in settling._unsettled(status, 0, BATCH)]
    settling.Settler().settle(1)
    return lambda: settling._settle(read)


def to_route_by_hint(*names: str) -> Callable[[str], Work]:
    """The events leave the inbox later than their sagas are created."""

    def prepare(event_type: str) -> Work:
        world.subscribe(*names, event_type=event_type)
        world.publish_some(*names, event_type=event_type)
        ids = list(Event.objects.filter(event_type=event_type).values_list("id", flat=True))

        def work() -> None:
            router = Router()
            router.route_hinted(ids, BATCH)
            router.remove_routed(BATCH)

        return work

    return prepare


def to_route_beside_another(event_type: str) -> Work:
    """Another router has removed one of the events that this one has routed."""
    world.subscribe("ok", "dead", event_type=event_type)
    world.publish_some("a", "b", event_type=event_type)
    router = Router()
    router.route_hinted(list(Event.objects.filter(event_type=event_type).values_list("id", flat=True)), BATCH)
    Router().route(1)
    return lambda: router.remove_routed(BATCH)


def to_dispatch_by_hint(*names: str) -> Callable[[str], Work]:
    def prepare(event_type: str) -> Work:
        world.subscribe(*names, event_type=event_type)
        world.publish_some("a", event_type=event_type)
        world.route()
        ids = list(Saga.objects.filter(event__event_type=event_type).values_list("id", flat=True))
        return lambda: dispatch_hinted(ids) or dispatch(BATCH)

    return prepare


def to_lease_by_hint(event_type: str) -> Work:
    dispatched(event_type, "ok", "retry", "dead")
    ids = list(Job.objects.filter(saga__event__event_type=event_type).values_list("id", flat=True))
    return lambda: lease_hinted(WORKER, ids)


def to_settle_by_hint(*names: str) -> Callable[[str], Work]:
    def prepare(event_type: str) -> Work:
        world.subscribe(*names, event_type=event_type)
        world.publish_some("a", event_type=event_type)
        world.route()
        dispatch(BATCH)
        world.deliver()
        ids = list(Job.objects.filter(saga__event__event_type=event_type).values_list("id", flat=True))

        def work() -> None:
            settler = settling.Settler()
            settler.hinted.add(ids)
            settler.settle_hinted(BATCH)

        return work

    return prepare


def to_clean(event_type: str) -> Work:
    dispatched(event_type, "ok", "retry", "dead")
    world.take()
    world.expire_leases()
    return lambda: clean(BATCH)


def to_requeue(event_type: str) -> Work:
    dispatched(event_type, "ok", "dead1", "dead2")
    world.run_to_end()
    letters = list(DeadLetter.objects.filter(event__event_type=event_type).values_list("id", flat=True))
    assert len(letters) == 4
    return lambda: requeue(letters, by=world.Staff(), reason="again")


def open_deliveries(event_type: str) -> None:
    """One that waits for its retry, two in progress, and two that wait for their first attempt."""
    world.subscribe("ok", "retry", event_type=event_type)
    for name in "abc":
        world.publish_some(name, event_type=event_type)
        world.route()
        if name != "c":
            dispatch(BATCH)
        if name == "a":
            world.deliver()
            world.settle()


def to_request(event_type: str) -> Work:
    """Of a subscription that is off: nothing else happens to its deliveries."""
    open_deliveries(event_type)
    Subscription.objects.filter(event_type=event_type).update(active=False)
    ids = list(Saga.objects.filter(event__event_type=event_type, status="Pending").values_list("id", flat=True))
    return lambda: request_deliveries(ABANDON, ids, by=world.Staff(), reason="obsolete", token=event_type)


def to_apply(kind: str) -> Callable[[str], Work]:
    """By a filter: one batch, which leaves the deliveries in progress for later."""

    def prepare(event_type: str) -> Work:
        open_deliveries(event_type)
        request_matching(kind, RequestFilter(event_type=event_type), by=world.Staff(), reason="why")
        return lambda: apply_requests(BATCH)

    return prepare


def to_abandon_one(event_type: str) -> Work:
    to_request(event_type)()
    return world.apply_all


def to_send_again(event_type: str) -> Work:
    """A Completed delivery and a dead letter."""
    dispatched(event_type, "ok", "dead")
    world.run_to_end()
    ids = list(Saga.objects.filter(event__event_type=event_type).values_list("id", flat=True))
    request_deliveries(SEND_AGAIN, ids, by=world.Staff(), reason="lost")
    return world.apply_all


# Another pass may have been made, if the repetition comes more than a second later.
PASSES = frozenset({"batches"})

STEPS = [
    Step("publish", to_publish),
    Step("route", to_route),
    Step("dispatch", to_dispatch),
    Step("admit", to_admit),
    Step("lease", to_lease, recover=reset_leases, ignoring=frozenset({"lease_resets"})),
    Step("report", to_report),
    Step("release", to_release),
    Step("settle Completed", to_settle("ok")),
    Step("settle PendingRetry", to_settle("retry")),
    Step("settle DeadLettered", to_settle("dead")),
    Step("settle all three", to_settle("ok", "retry", "dead")),
    Step("settle beside another", to_settle_beside_another),
    Step("route by hints", to_route_by_hint("ok", "dead")),
    Step("route by a hint", to_route_by_hint("ok")),
    Step("route beside another", to_route_beside_another),
    Step("dispatch by hints", to_dispatch_by_hint("ok", "retry", "dead")),
    Step("dispatch by a hint", to_dispatch_by_hint("ok")),
    Step("lease by hints", to_lease_by_hint, recover=reset_leases, ignoring=frozenset({"lease_resets"})),
    Step("settle by hints", to_settle_by_hint("ok", "retry", "dead")),
    Step("settle by a hint", to_settle_by_hint("ok")),
    Step("clean", to_clean),
    Step("requeue", to_requeue),
    Step("request", to_request),
    Step("send now", to_apply(SEND_NOW)),
    Step("abandon", to_apply(ABANDON), ignoring=PASSES),
    Step("abandon one by one", to_abandon_one),
    Step("send again", to_send_again),
]
