"""A healthy database with rows in every state that a running hub knows."""

from __future__ import annotations

from collections.abc import Sequence

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from jobs.cleaner import clean
from jobs.lease import LeasedJob
from jobs.models import Job
from jobs.report import Report, report
from sagas.apply_requests import apply_requests
from sagas.dispatch import dispatch
from sagas.models import ABANDON, SEND_AGAIN, SEND_NOW, Saga
from sagas.requests import request_delivery
from tests.conformance import world
from tests.workflows.lives import DEFINITIONS
from tests.workflows.support import catch_up, tell, tracked
from workflows import state
from workflows.models import Instance
from workflows.scenarios import happy
from workflows.state import DONE, FAILURE, UNDO_FAILED, UNDONE

ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")


def populate() -> None:
    world.subscribe("ok", "late", "fail", "dead", max_retry_limit=3)
    world.publish_some("a", "b")
    world.route()
    _lose_leases()
    _run_to_end()
    _requeue_all()
    _run_to_end()
    _requeue_all()  # waits for its first attempt
    world.publish_some("c")
    world.route()
    dispatch(world.BATCH)
    jobs = _by_name(world.take())
    report(world.WORKER, [_failure(jobs["fail"])])
    world.settle()  # the failed one waits for its retry
    report(world.WORKER, [_failure(jobs["late"])])  # reported, not settled; the others are being sent
    world.publish_some("d")
    world.route()  # waits for its first attempt
    _request()
    world.publish_some("e")  # still to be routed
    _run_workflows()
    assert set(Saga.objects.values_list("status", flat=True)) == set(Saga._meta.get_field("status").words)
    assert Job.objects.filter(lease_resets=1).exists()
    assert Saga.objects.filter(generation=2).exists()


def _request() -> None:
    """One delivery abandoned, one sent again, and one still to be sent now."""
    waiting = Saga.objects.filter(status="Pending").order_by("-id")[0]
    completed = Saga.objects.filter(status="Completed").order_by("-id")[0]
    request_delivery(ABANDON, waiting.pk, by=world.Staff(), reason="obsolete")
    request_delivery(SEND_AGAIN, completed.pk, by=world.Staff(), reason="lost")
    while apply_requests(world.BATCH):
        pass
    retry = Saga.objects.filter(status="PendingRetry").order_by("-id")[0]
    request_delivery(SEND_NOW, retry.pk, by=world.Staff(), reason="it is back")
    assert Saga.objects.filter(final_error_code="abandoned").exists()


def _run_workflows() -> None:
    """One that is complete, one that is being compensated, one that was, one that failed, one under way."""
    tracked()
    for said in happy(ORDER):
        tell(ORDER, said, "complete")
    for key in ("compensating", "compensated"):
        for said in [("order", DONE), ("inventory", FAILURE)]:
            tell(ORDER, said, key)
    tell(ORDER, ("order", UNDONE), "compensated")
    for said in [("order", DONE), ("inventory", DONE), ("payment", FAILURE), ("inventory", UNDO_FAILED)]:
        tell(ORDER, said, "failed")
    tell(ORDER, ("order", DONE), "open")
    catch_up()
    tell(ORDER, ("order", DONE), "waiting")  # still to be tracked
    assert set(Instance.objects.values_list("status", flat=True)) == set(state.STATUSES)


def _lose_leases() -> None:
    dispatch(world.BATCH)
    world.take()
    world.expire_leases()
    clean(world.BATCH)


def _run_to_end() -> None:
    while Saga.objects.exclude(status__in=("Completed", "DeadLettered")).exists():
        world.let_time_pass()
        dispatch(world.BATCH)
        report(world.WORKER, [_answer(name, job) for name, job in _named(world.take())])
        world.settle()


def _answer(name: str, job: LeasedJob) -> Report:
    if name == "ok" or (name == "late" and job.attempt_no == 2):
        return Report(job, None, response_status=204, duration_ms=1)
    return _failure(job)


def _failure(job: LeasedJob) -> Report:
    return Report(job, "http_500", response_status=500, duration_ms=1)


def _requeue_all() -> None:
    requeue(list(DeadLetter.objects.values_list("id", flat=True)), by=world.Staff(), reason="again")


def _named(jobs: Sequence[LeasedJob]) -> list[tuple[str, LeasedJob]]:
    urls = dict(Job.objects.values_list("id", "saga__subscription__callback_url"))
    return [(urls[job.id].rpartition("/")[2], job) for job in jobs]


def _by_name(jobs: Sequence[LeasedJob]) -> dict[str, LeasedJob]:
    """One job of each subscription, of the newest event."""
    return dict(_named(sorted(jobs, key=lambda job: job.saga_id)))
