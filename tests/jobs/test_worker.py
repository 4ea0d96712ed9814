"""One turn of a worker: take, send, report."""

from __future__ import annotations

import io
import json
import select
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import OperationalError

from jobs import worker as worker_module
from jobs.lease import LeasedJob, lease
from jobs.models import Job
from jobs.report import Report, report
from jobs.worker import POLL_SECONDS, QUIET_SECONDS, Worker
from subscriptions.models import Subscription
from tests.factories import JobFactory
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub import crypto
from webhookhub.db import clock
from webhookhub.egress.engine import LONG_GAP_SECONDS, Engine
from webhookhub.egress.messages import Request

pytestmark = pytest.mark.django_db


def turn_until(worker: Worker, condition: Callable[[], bool], seconds: float = 60) -> None:
    """Bounded by time, not by turns: on a busy machine, many turns pass before a response arrives."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        worker.turn(100)
        if condition():
            return
    raise AssertionError("the condition does not hold")


def finished() -> bool:
    return not Job.objects.filter(status__in=["Pending", "Leased"]).exists()


def jobs_at(endpoint: HttpsEndpoint, count: int, **fields: object) -> list[Job]:
    return [JobFactory.create(saga__subscription__callback_url=endpoint.url(f"/{n}"), **fields) for n in range(count)]


def held_back(endpoint: HttpsEndpoint) -> threading.Event:
    """The endpoint sends no response before the event is set."""
    answer_now = threading.Event()

    def wait() -> None:
        answer_now.wait(30)

    endpoint.respond = lambda request: Reply(before=wait)
    return answer_now


@pytest.mark.requirement("R2-2.1f", "R2-2.2e", "R2-2.3d")
def test_a_success_is_reported_with_its_response(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(201, b"thank\0you \xff")
    [job] = jobs_at(endpoint, 1)

    worker = Worker("worker-7")
    turn_until(worker, finished)
    worker.close()

    job.refresh_from_db()
    assert (job.status, job.response_status, job.error_code, job.worker_id) == ("Completed", 201, None, "worker-7")
    assert job.response_snippet == "thank\ufffdyou \ufffd"
    assert job.finished_at is not None
    assert job.duration_ms is not None
    assert job.settled_at is None


@pytest.mark.requirement("R2-2.1g", "R2-2.2f", "R2-2.3e")
def test_a_failure_is_reported_with_its_code(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(503, b"", (("Retry-After", "60"),))
    [job] = jobs_at(endpoint, 1)

    worker = Worker("w")
    turn_until(worker, finished)
    worker.close()

    job.refresh_from_db()
    assert (job.status, job.response_status, job.error_code) == ("Failed", 503, "http_503")
    assert job.finished_at is not None
    assert job.retry_after is not None
    assert timedelta(seconds=59) < job.retry_after - job.finished_at <= timedelta(seconds=60)


def test_a_worker_leases_no_more_jobs_than_it_has_free_slots(endpoint: HttpsEndpoint):
    answer_now = held_back(endpoint)
    jobs_at(endpoint, 5)

    worker = Worker("w", concurrency=2)
    try:
        turn_until(worker, lambda: len(endpoint.received) == 2)
        for _ in range(3):
            worker.turn(100)
        assert worker.open_jobs == 2
        assert Job.objects.filter(status="Leased").count() == 2
        assert Job.objects.filter(status="Pending").count() == 3
        answer_now.set()
        turn_until(worker, finished)
    finally:
        answer_now.set()
        worker.close()
    assert Job.objects.filter(status="Completed").count() == 5
    assert len(endpoint.received) == 5


def test_a_batch_smaller_than_the_free_slots_is_respected(endpoint: HttpsEndpoint):
    answer_now = held_back(endpoint)
    jobs_at(endpoint, 5)

    worker = Worker("w", concurrency=50)
    try:
        worker.turn(3)
        assert Job.objects.filter(status="Leased").count() == 3
    finally:
        answer_now.set()
        worker.close()


def test_a_job_reset_too_often_fails_without_being_sent(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(max_lease_resets=2)
    [too_often] = jobs_at(endpoint, 1, lease_resets=3)
    just_not = JobFactory.create(saga__subscription__callback_url=endpoint.url("/sent"), lease_resets=2)

    worker = Worker("w")
    turn_until(worker, finished)
    worker.close()

    too_often.refresh_from_db()
    just_not.refresh_from_db()
    assert (too_often.status, too_often.error_code, too_often.response_status) == ("Failed", "lease_expired", None)
    assert just_not.status == "Completed"
    assert [request.path for request in endpoint.received] == ["/sent"]


@pytest.mark.requirement("R4-6.1b")
def test_results_survive_a_report_that_fails(endpoint: HttpsEndpoint, monkeypatch):
    jobs_at(endpoint, 3)
    failures = iter([OperationalError(2006, "Server has gone away"), OperationalError(2013, "Lost connection")])

    def failing(worker_id: str, reports: list[Report]) -> int:
        for error in failures:
            raise error
        return report(worker_id, reports)

    monkeypatch.setattr(worker_module, "report", failing)
    worker = Worker("w")
    lost = 0
    for _ in range(600):
        try:
            worker.turn(100)
        except OperationalError:
            lost += 1
        if finished():
            break
    worker.close()

    assert lost == 2
    assert worker.open_jobs == 0
    assert Job.objects.filter(status="Completed").count() == 3
    assert len(endpoint.received) == 3


def test_a_result_whose_lease_was_lost_is_dropped(endpoint: HttpsEndpoint):
    [stored] = jobs_at(endpoint, 1)
    [job] = lease("first", 1)
    Job.objects.update(status="Pending", lease_until=clock.now())
    assert report("first", [Report(job, None, 200)]) == 0

    [again] = lease("second", 1)
    assert report("first", [Report(job, None, 200)]) == 0
    assert report("second", [Report(again, "http_500", 500)]) == 1
    assert report("first", [Report(job, None, 200)]) == 0

    stored.refresh_from_db()
    assert (stored.status, stored.error_code, stored.worker_id) == ("Failed", "http_500", "second")


@pytest.mark.requirement("R1-6.4b")
def test_a_result_reported_twice_is_accepted_once(endpoint: HttpsEndpoint):
    jobs_at(endpoint, 1)
    [job] = lease("w", 1)

    assert report("w", [Report(job, None, 200)]) == 1
    first = Job.objects.get()
    assert report("w", [Report(job, None, 200)]) == 1

    assert Job.objects.get().finished_at == first.finished_at


@pytest.mark.requirement("R2-2.1d", "R2-2.3b")
def test_a_lease_is_timed_by_the_database_and_carries_the_workers_name(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(lease=timedelta(seconds=77))
    jobs_at(endpoint, 2)
    before = clock.now()

    leased = lease("worker-3", 10)

    after = clock.now()
    assert len(leased) == 2
    for job in Job.objects.all():
        assert (job.status, job.worker_id, job.lease_token) == ("Leased", "worker-3", leased[0].lease_token)
        assert job.lease_until is not None
        assert before + timedelta(seconds=77) <= job.lease_until <= after + timedelta(seconds=77)


@pytest.mark.requirement("R2-2.2b")
def test_the_longest_waiting_jobs_are_leased_first(endpoint: HttpsEndpoint):
    jobs = jobs_at(endpoint, 4)

    assert [job.id for job in lease("w", 2)] == [job.id for job in jobs[:2]]
    assert [job.id for job in lease("w", 9)] == [job.id for job in jobs[2:]]
    assert lease("w", 9) == []


def test_jobs_beyond_the_limit_of_a_host_are_released_and_neither_counted_nor_logged(
    endpoint: HttpsEndpoint, hub_settings, monkeypatch, log_stream: io.StringIO
):
    monkeypatch.setattr("jobs.worker.MAX_QUEUED_SECONDS", 0.0)
    monkeypatch.setattr("webhookhub.egress.hosts.MIN_DEFER_SECONDS", 0.02)
    monkeypatch.setattr("webhookhub.egress.hosts.MAX_DEFER_SECONDS", 0.05)
    hub_settings(requests_per_host=1)
    answer_now = held_back(endpoint)
    jobs_at(endpoint, 3)

    worker = Worker("w", concurrency=10)
    try:
        worker.turn(100)
        given_back = list(Job.objects.filter(status="Pending").values_list("lease_resets", flat=True))
        assert given_back == [0, 0]
        assert log_stream.getvalue().count('"job_leased"') == 1
        answer_now.set()
        turn_until(worker, finished)
    finally:
        answer_now.set()
        worker.close()
    assert Job.objects.filter(status="Completed").count() == len(endpoint.received) == 3
    assert log_stream.getvalue().count('"job_leased"') == 3


def test_a_draining_worker_leases_nothing_and_finishes_its_jobs(endpoint: HttpsEndpoint):
    answer_now = held_back(endpoint)
    jobs_at(endpoint, 1)
    worker = Worker("w")
    try:
        turn_until(worker, lambda: len(endpoint.received) == 1)
        late = JobFactory.create(saga__subscription__callback_url=endpoint.url("/late"))
        answer_now.set()
        for _ in range(600):
            worker.drain(100)
            if not worker.open_jobs:
                break
    finally:
        answer_now.set()
        worker.close()

    assert worker.open_jobs == 0
    late.refresh_from_db()
    assert late.status == "Pending"
    assert Job.objects.filter(status="Completed").count() == 1


def test_draining_waits_for_the_response_without_busy_polling(endpoint: HttpsEndpoint):
    answer_now = held_back(endpoint)
    jobs_at(endpoint, 1)
    worker = Worker("w")
    try:
        turn_until(worker, lambda: len(endpoint.received) == 1)
        turns, until = 0, time.monotonic() + 10 * POLL_SECONDS
        while time.monotonic() < until:
            worker.drain(100)
            turns += 1
    finally:
        answer_now.set()
        worker.close()

    assert turns < 50


def test_an_endpoint_that_hangs_wakes_the_worker_seldom(endpoint: HttpsEndpoint):
    answer_now = held_back(endpoint)
    jobs_at(endpoint, 1)
    worker = Worker("w")
    try:
        turn_until(worker, lambda: len(endpoint.received) == 1)
        worker.collect(0.0)
        assert worker.idle_for() == QUIET_SECONDS < LONG_GAP_SECONDS
        readable, _ = worker.files()
        answer_now.set()
        assert select.select(readable, [], [], 10)[0], "the response ends the wait"
    finally:
        answer_now.set()
        worker.close()


def test_results_are_reported_together_but_do_not_block_slots(endpoint: HttpsEndpoint, monkeypatch):
    monkeypatch.setattr(worker_module, "REPORT_DELAY_SECONDS", 60)
    jobs_at(endpoint, 1)
    worker = Worker("w", concurrency=4)

    turn_until(worker, lambda: len(endpoint.received) == 1 and worker.files() == ([], []))
    assert worker.open_jobs == 1
    assert not Job.objects.filter(status="Completed").exists()

    for path in ("/a", "/b", "/c"):
        JobFactory.create(saga__subscription__callback_url=endpoint.url(path))
    turn_until(worker, lambda: Job.objects.filter(status="Completed").count() >= 2)
    worker.close()


def test_an_idle_turn_returns_0():
    worker = Worker("w")

    assert worker.turn(100) == 0

    worker.close()


def test_one_slow_endpoint_does_not_delay_the_others(endpoint: HttpsEndpoint, certificate_files, monkeypatch):
    monkeypatch.setattr("jobs.worker.MAX_QUEUED_SECONDS", 0.2)
    answer_now = threading.Event()

    def take_time() -> None:
        answer_now.wait(30)

    with HttpsEndpoint(certificate_files[1], lambda request: Reply(before=take_time)) as slow:
        jobs_at(slow, 40)
        jobs_at(endpoint, 5)
        worker = Worker("w", concurrency=20)
        try:
            turn_until(worker, lambda: len(endpoint.received) == 5)
            assert not answer_now.is_set()
        finally:
            answer_now.set()
            worker.close()


@pytest.mark.parametrize("change", [{"active": False}, {"callback_url": "https://127.0.0.1:8443/never-verified"}])
def test_a_job_created_before_its_subscription_was_disabled_or_changed_waits(endpoint: HttpsEndpoint, change):
    [job] = jobs_at(endpoint, 1)
    Subscription.objects.update(**change)

    worker = Worker("w")
    try:
        worker.turn(10)
    finally:
        worker.close()

    job.refresh_from_db()
    assert (job.status, job.lease_resets) == ("Pending", 0)
    assert job.lease_until is not None
    assert job.lease_until > clock.now() + timedelta(seconds=20)
    assert endpoint.received == []


def test_a_turn_without_work_does_not_wait():
    [job] = [JobFactory.create(lease_resets=100)]

    worker = Worker("w")
    try:
        turn_until(worker, finished)
    finally:
        worker.close()

    job.refresh_from_db()
    assert (job.error_code, job.duration_ms) == ("lease_expired", 0)


def test_secrets_in_a_response_are_not_stored(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(500, json.dumps(request.headers).encode())
    [job] = jobs_at(endpoint, 1)
    Subscription.objects.update(custom_headers=crypto.encrypt("Authorization: Bearer canary-42"))

    worker = Worker("w")
    try:
        turn_until(worker, finished)
    finally:
        worker.close()

    job.refresh_from_db()
    assert endpoint.received[0].headers["authorization"] == "Bearer canary-42"
    assert "authorization" in job.response_snippet
    assert "canary" not in job.response_snippet


def test_a_request_that_waited_too_long_is_not_sent_while_the_database_is_lost(
    endpoint: HttpsEndpoint, hub_settings, monkeypatch
):
    """It would be sent with the timestamp of when it was taken."""
    hub_settings(requests_per_host=1)
    answer_now = held_back(endpoint)
    jobs_at(endpoint, 3)
    worker = Worker("w", concurrency=10)
    try:
        turn_until(worker, lambda: len(endpoint.received) == 1)
        monkeypatch.setattr("jobs.worker.MAX_QUEUED_SECONDS", 0.0)
        answer_now.set()
        while worker._engine.in_flight:
            worker.collect(0.05)  # as the loop does while the database is lost
        assert len(endpoint.received) == 1
        worker.turn(100)
    finally:
        answer_now.set()
        worker.close()
    assert Job.objects.filter(status="Pending", lease_resets=0).count() == 2


def test_an_endpoint_that_stops_responding_delays_others_only_briefly(
    endpoint: HttpsEndpoint, certificate_files, hub_settings, monkeypatch
):
    """However many jobs it has: they take up the worker's slots once, and after that go straight back."""
    concurrency = 20
    submitted: list[str] = []
    submit = Engine.submit

    def counted(engine: Engine[LeasedJob], job: LeasedJob, request: Request) -> None:
        submitted.append(request.url)
        submit(engine, job, request)

    monkeypatch.setattr(Engine, "submit", counted)
    hub_settings(requests_per_host=5)
    monkeypatch.setattr("jobs.worker.MAX_QUEUED_SECONDS", 0.2)
    answer_now = threading.Event()
    answer_now.set()

    def take_time() -> None:
        answer_now.wait(30)

    with HttpsEndpoint(certificate_files[1], lambda request: Reply(before=take_time)) as stopping:
        worker = Worker("w", concurrency=concurrency)
        try:
            jobs_at(stopping, 5)
            turn_until(worker, finished)
            answer_now.clear()
            [subscription, *_] = Subscription.objects.all()
            submitted.clear()
            for _ in range(3 * concurrency):
                JobFactory.create(saga__subscription=subscription)
            jobs_at(endpoint, 1)
            turn_until(worker, lambda: len(endpoint.received) == 1)
            assert submitted.count(subscription.callback_url) <= concurrency
        finally:
            answer_now.set()
            worker.close()
