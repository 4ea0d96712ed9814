"""The hub's steps with simulated responses: the path of a callback URL decides the response."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from events.intake import publish
from events.models import RoutingInbox
from events.routing import Router
from jobs.cleaner import clean
from jobs.lease import LeasedJob, lease
from jobs.models import Job
from jobs.report import Report, report
from sagas.dispatch import dispatch
from sagas.models import Saga
from sagas.settle import Settler
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from webhookhub.db import clock

TYPE = "order.created"
BATCH = 500
WORKER = "worker"


class Staff:
    """A user who may requeue."""

    def __init__(self, name: str = "ada") -> None:
        self.name = name

    def get_username(self) -> str:
        return self.name

    def has_perm(self, perm: str) -> bool:
        return True


def url(name: str, event_type: str = TYPE) -> str:
    return f"https://127.0.0.1:8443/{event_type}/{name}"


def subscribe(*names: str, event_type: str = TYPE, max_retry_limit: int = 2) -> None:
    """`ok…` responds with 204; all others fail, `dead…` at their only attempt."""
    for name in names:
        SubscriptionFactory(
            event_type=event_type,
            callback_url=url(name, event_type),
            max_retry_limit=1 if name.startswith("dead") else max_retry_limit,
        )


def publish_some(*external_ids: str, event_type: str = TYPE) -> None:
    for external_id in external_ids:
        publish(event_type, {"n": external_id}, external_id=f"{event_type}:{external_id}")


def route() -> int:
    return Router().route(BATCH)


def settle() -> int:
    return Settler().settle(BATCH)


def take(worker_id: str = WORKER) -> list[LeasedJob]:
    return lease(worker_id, BATCH)


def reports(jobs: Sequence[LeasedJob]) -> list[Report]:
    urls = dict(
        Job.objects.filter(id__in=[job.id for job in jobs]).values_list("id", "saga__subscription__callback_url")
    )
    return [_report(job, urls[job.id].rpartition("/")[2]) for job in jobs]


def _report(job: LeasedJob, name: str) -> Report:
    if name.startswith("ok"):
        return Report(job, None, response_status=204, duration_ms=1)
    return Report(job, "http_500", response_status=500, duration_ms=1)


def deliver(worker_id: str = WORKER) -> int:
    """Lease and report all ready jobs."""
    return report(worker_id, reports(take(worker_id)))


def let_time_pass() -> None:
    """Make retries, parked sagas and released jobs due, and let leases expire."""
    Job.objects.filter(status="Pending").update(lease_until=clock.now() - timedelta(seconds=1))
    # Later than the attempt before.
    Saga.objects.filter(status__in=("Pending", "PendingRetry")).update(next_attempt_at=clock.now())
    expire_leases()


def expire_leases() -> None:
    Job.objects.filter(status="Leased").update(lease_until=clock.now() - timedelta(seconds=1))


def one_turn() -> None:
    """One turn of every loop."""
    clean(BATCH)
    route()
    dispatch(BATCH)
    deliver()
    settle()


def run_to_end(turns: int = 20) -> None:
    Subscription.objects.filter(active=False).update(active=True)
    for _ in range(turns):
        if not work_left():
            return
        let_time_pass()
        one_turn()
    raise AssertionError("some deliveries did not end")


def work_left() -> bool:
    return (
        RoutingInbox.objects.exists()
        or Saga.objects.exclude(status__in=("Completed", "DeadLettered")).exists()
        or Job.objects.filter(settled_at__isnull=True).exists()
    )
