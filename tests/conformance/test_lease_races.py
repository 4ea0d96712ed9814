"""A job has one leaseholder at a time, and only the leaseholder writes its result."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.cleaner import clean
from jobs.lease import LeasedJob, lease, release
from jobs.models import Job
from jobs.report import Report, report
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from webhookhub.db import clock

from .rivals import Rival, after, elsewhere, rows_are_locked_one_by_one, together, unquoted
from .world import expire_leases

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]


def make_jobs(count: int) -> list[int]:
    subscription = SubscriptionFactory()
    for _ in range(count):
        JobFactory(saga=SagaFactory(event=EventFactory(), subscription=subscription, status="InProgress"))
    return list(Job.objects.order_by("id").values_list("id", flat=True))


def take_one(worker_id: str) -> LeasedJob:
    [job] = lease(worker_id, 10)
    return job


def give_up() -> int:
    expire_leases()
    return clean(10)


@pytest.mark.requirement("R2-2.2c")
@pytest.mark.requirement("R4-4.2a")
def test_two_workers_never_lease_one_job():
    make_jobs(6)
    with (
        Rival(lambda: lease("first", 3), after="SELECT webhook_delivery_jobs") as first,
        Rival(after(first, lambda: lease("second", 6))) as second,
    ):
        if rows_are_locked_one_by_one():
            # It neither waits for the first nor takes what the first is about to take.
            assert len(second.result()) == 3
        ids = [job.id for job in [*first.result(), *second.result()]]
    assert len(ids) == len(set(ids)) == 6


def test_a_lease_is_safe_on_an_engine_that_drops_row_locks(monkeypatch: pytest.MonkeyPatch):
    jobs = make_jobs(4)
    first = lease("first", 2)
    monkeypatch.setattr("jobs.lease._ready", lambda **values: [(id,) for id in jobs])

    second = lease("second", 4)

    assert [job.id for job in second] == [id for id in jobs if id not in {job.id for job in first}]
    assert Counter(Job.objects.values_list("worker_id", flat=True)) == {"first": 2, "second": 2}


@pytest.mark.requirement("R2-2.3b", "R2-5.2a")
@pytest.mark.requirement("R4-1.2b", "R4-4.2a")
def test_many_workers_lease_many_jobs_exactly_once_each():
    jobs = make_jobs(120)

    def take_all(worker_id: str) -> list[int]:
        taken: list[int] = []
        while batch := lease(worker_id, 7):
            taken += [job.id for job in batch]
        return taken

    taken = together(*(lambda worker_id=f"worker-{n}": take_all(worker_id) for n in range(6)))

    assert Counter(id for ids in taken for id in ids) == Counter(jobs)
    for n, ids in enumerate(taken):
        assert set(Job.objects.filter(worker_id=f"worker-{n}", status="Leased").values_list("id", flat=True)) == set(
            ids
        )


@pytest.mark.requirement("R2-2.2d")
def test_a_worker_whose_lease_was_reset_cannot_write_its_result():
    make_jobs(1)
    job = take_one("slow")
    assert elsewhere(give_up) == 1

    assert report("slow", [Report(job, None, 204)]) == 0

    assert Job.objects.values_list("status", "response_status", "lease_resets").get() == ("Pending", None, 1)


@pytest.mark.requirement("R2-2.2d")
def test_a_worker_whose_job_another_has_leased_cannot_write_its_result():
    make_jobs(1)
    slow = take_one("slow")
    elsewhere(give_up)
    quick = elsewhere(lambda: take_one("quick"))

    assert report("slow", [Report(slow, None, 204)]) == 0
    assert Job.objects.values_list("status", "worker_id").get() == ("Leased", "quick")

    assert elsewhere(lambda: report("quick", [Report(quick, "http_500", 500)])) == 1
    assert report("slow", [Report(slow, None, 204)]) == 0
    assert Job.objects.values_list("status", "worker_id", "response_status").get() == ("Failed", "quick", 500)


@pytest.mark.requirement("R2-2.2d")
def test_a_worker_that_has_leased_its_job_again_cannot_write_the_result_of_its_first_lease():
    make_jobs(1)
    first = take_one("same")
    give_up()
    second = take_one("same")

    assert report("same", [Report(first, "timeout", None)]) == 0
    assert Job.objects.values_list("status").get() == ("Leased",)
    assert report("same", [Report(second, None, 204)]) == 1


def test_a_result_among_others_that_were_lost_is_still_written():
    make_jobs(3)
    jobs = lease("slow", 10)
    Job.objects.filter(id=jobs[0].id).update(lease_token="another's")

    assert report("slow", [Report(job, None, 204) for job in jobs]) == 2

    assert Counter(Job.objects.values_list("status", flat=True)) == {"Completed": 2, "Leased": 1}


@pytest.mark.requirement("R1-6.4b")
def test_the_same_result_reported_at_once_on_two_connections_is_accepted_and_written_once():
    make_jobs(1)
    job = take_one("worker")

    assert together(*[lambda: report("worker", [Report(job, None, 204)])] * 4) == [1, 1, 1, 1]

    assert Job.objects.values_list("status", "response_status").get() == ("Completed", 204)


@pytest.mark.requirement("R2-2.4c")
def test_a_late_result_that_comes_before_the_reset_is_kept():
    make_jobs(1)
    job = take_one("slow")
    expire_leases()
    with Rival(lambda: clean(10), after="SELECT webhook_delivery_jobs") as cleaner:
        cleaner.reached()  # it has seen the expired lease
        assert report("slow", [Report(job, None, 204)]) == 1
        cleaner.result()

    assert Job.objects.values_list("status", "lease_resets").get() == ("Completed", 0)


@pytest.mark.requirement("R2-2.4c")
def test_a_slow_cleaner_does_not_reset_the_lease_of_the_next_worker():
    make_jobs(1)
    take_one("gone")
    expire_leases()
    with Rival(lambda: clean(10), after="SELECT webhook_delivery_jobs") as cleaner:
        cleaner.reached()
        clean(10)
        job = take_one("next")
        cleaner.result()

    assert Job.objects.values_list("status", "worker_id", "lease_resets").get() == ("Leased", "next", 1)
    assert report("next", [Report(job, None, 204)]) == 1


@pytest.mark.requirement("R2-2.4d")
@pytest.mark.requirement("R4-1.2b")
def test_several_cleaners_reset_a_lease_once():
    make_jobs(20)
    lease("gone", 20)
    expire_leases()

    together(*[lambda: clean(20)] * 4)

    assert Counter(Job.objects.values_list("status", "lease_resets")) == {("Pending", 1): 20}


@pytest.fixture
def resets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the jobs whose reset is logged."""
    logged: list[int] = []
    monkeypatch.setattr("jobs.cleaner.log", lambda message, **fields: logged.append(fields["job_id"]))
    return logged


def test_several_cleaners_log_a_reset_once(resets: list[int]):
    make_jobs(20)
    lease("gone", 20)
    expire_leases()

    together(*[lambda: clean(20)] * 4)

    assert sorted(resets) == sorted(Job.objects.values_list("id", flat=True))


def test_a_cleaner_logs_only_what_it_has_reset(resets: list[int]):
    make_jobs(3)
    reported, cleaned, left = lease("gone", 3)
    expire_leases()
    with Rival(lambda: clean(10), after="SELECT webhook_delivery_jobs") as cleaner:
        cleaner.reached()
        report("gone", [Report(reported, None, 204)])
        Job.objects.filter(id=left.id).update(lease_until=clock.now() + timedelta(hours=1))
        clean(10)
        assert resets == [cleaned.id]
        Job.objects.filter(id=left.id).update(lease_until=clock.now() - timedelta(hours=1))
        cleaner.result()

    assert resets == [cleaned.id, left.id]


def test_a_cleaner_without_rivals_reads_the_jobs_once():
    make_jobs(3)
    lease("gone", 3)
    expire_leases()

    with CaptureQueriesContext(connection) as statements:
        clean(10)

    read = [sql for one in statements if (sql := unquoted(one["sql"])).startswith("SELECT webhook_delivery_jobs")]
    assert len(read) == 1


@pytest.mark.requirement("R2-2.2d")
def test_a_worker_whose_job_another_has_leased_cannot_release_it():
    make_jobs(1)
    slow = take_one("slow")
    elsewhere(give_up)
    quick = elsewhere(lambda: take_one("quick"))

    release("slow", [(slow, timedelta(hours=1))])

    assert Job.objects.values_list("status", "worker_id").get() == ("Leased", "quick")
    assert report("quick", [Report(quick, None, 204)]) == 1


def test_a_reported_job_cannot_be_released():
    make_jobs(1)
    job = take_one("worker")
    report("worker", [Report(job, None, 204)])
    before = Job.objects.values().get()

    release("worker", [(job, timedelta(hours=1))])

    assert Job.objects.values().get() == before


def test_a_released_job_waits_for_its_delay_and_is_then_leased_by_any_worker():
    make_jobs(1)
    job = take_one("first")
    release("first", [(job, timedelta(hours=1))])
    assert lease("second", 10) == []

    Job.objects.update(lease_until=clock.now())

    assert take_one("second").lease_resets == 0
    assert report("first", [Report(job, None, 204)]) == 0
