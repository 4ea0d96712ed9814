"""The log of whole deliveries has the specified fields at every stage, and nothing private."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.intake import publish
from events.routing import Router
from jobs.cleaner import clean
from jobs.lease import lease, release
from jobs.models import Job
from jobs.report import Report, report
from sagas.dispatch import admit, dispatch
from sagas.flow import Flow
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.support.drive import until_terminal
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from webhookhub.db import clock

pytestmark = pytest.mark.django_db

OF_EVENTS = {"event_published", "event_duplicate", "event_unmatched"}
OF_SAGAS = {"event_routed", "saga_requeued"}
OF_ATTEMPTS = {"saga_dispatched", "saga_completed", "saga_retry_scheduled"}
OF_JOBS = {"job_leased", "job_reported", "job_released", "job_lease_reset", "lease_lost", "saga_dead_lettered"}

EVERY_STAGE = {"correlation_id", "delivery_status"}
REQUIRED = {
    **dict.fromkeys(OF_EVENTS, EVERY_STAGE),
    **{name: EVERY_STAGE | {"saga_id"} for name in OF_SAGAS},
    **{name: EVERY_STAGE | {"saga_id", "job_id"} for name in OF_ATTEMPTS},
    **{name: EVERY_STAGE | {"saga_id", "job_id", "worker_id", "lease_expiration"} for name in OF_JOBS},
}
STATUSES = {
    "event_published": {"Published"},
    "event_duplicate": {"Published"},
    "event_unmatched": {"Unmatched"},
    "event_routed": {"Pending"},
    "saga_dispatched": {"InProgress"},
    "saga_retry_scheduled": {"PendingRetry"},
    "saga_completed": {"Completed"},
    "saga_dead_lettered": {"DeadLettered"},
    "saga_requeued": {"Pending"},
    "job_leased": {"Leased"},
    "job_reported": {"Completed", "Failed"},
    "job_released": {"Pending"},
    "job_lease_reset": {"Pending"},
    "lease_lost": {"Completed"},
}
PRIVATE = ["PrivateKey", "PrivateValue", "PrivateQuery", "PrivateAnswer", "PrivateHeader"]


@pytest.fixture
def lines_by_fact(
    log_stream: io.StringIO, endpoint: HttpsEndpoint, hub_settings, caplog: pytest.LogCaptureFixture
) -> Callable[[], dict[str, list[dict[str, object]]]]:
    """The log of deliveries that succeed, fail, are dead-lettered, requeued, reset, parked and released."""
    caplog.set_level("DEBUG", logger="webhookhub")  # for released ones
    endpoint.respond = _by_path
    for path in ("/good", "/late", "/never"):
        url = endpoint.url(f"{path}?key=PrivateQuery")
        SubscriptionFactory.create(callback_url=url, max_retry_limit=2, base_delay=timedelta(milliseconds=1))

    for _ in range(2):
        _publish("order.created")
    _publish("nobody.wants")
    until_terminal("worker-1")
    superuser = User.objects.create_superuser("root")
    requeue(list(DeadLetter.objects.values_list("id", flat=True)), by=superuser, reason="repaired")
    until_terminal("worker-1")

    _publish("parked")
    subscription = SubscriptionFactory.create(callback_url=endpoint.url("/good"), event_type="parked")
    Router().route(10)
    Subscription.objects.filter(id=subscription.id).update(active=False)
    dispatch(10)
    Subscription.objects.filter(id=subscription.id).update(active=True)
    admit(10, Flow())
    release("worker-2", [(job, timedelta(0)) for job in lease("worker-2", 1)])
    [job] = lease("worker-3", 1)
    Job.objects.filter(id=job.id).update(lease_until=clock.now() - timedelta(seconds=1))
    clean(10)
    report("worker-3", [Report(job, None, 200)])
    until_terminal("worker-4")

    def by_name() -> dict[str, list[dict[str, object]]]:
        found = defaultdict(list)
        for line in log_stream.getvalue().splitlines():
            document = json.loads(line)
            found[document["event"]].append(document)
        return dict(found)

    return by_name


@pytest.mark.requirement("R2-5.3a", "R2-5.3b", "R2-5.3d")
@pytest.mark.requirement("R4-9.1a", "R4-9.1b", "R4-9.1c", "R4-9.1d")
def test_every_stage_logs_the_specifications_fields(lines_by_fact):
    by_name = lines_by_fact()

    assert set(REQUIRED) == set(STATUSES) == set(by_name)
    for name, required in REQUIRED.items():
        for line in by_name[name]:
            missing = {field for field in required if line.get(field) in (None, "")}
            assert not missing, f"{name} lacks {missing}: {line}"
            if name in OF_JOBS:
                assert "error_code" in line
        assert {line["delivery_status"] for line in by_name[name]} == STATUSES[name]


@pytest.mark.requirement("R2-5.3c", "R2-5.3e")
def test_failures_are_logged_with_their_code_and_worker(lines_by_fact):
    by_name = lines_by_fact()

    for name in ("saga_retry_scheduled", "saga_dead_lettered"):
        assert {line["error_code"] for line in by_name[name]} <= {"http_500", "http_503"}
    assert {line["worker_id"] for line in by_name["saga_dead_lettered"]} == {"worker-1"}
    assert {line["worker_id"] for line in by_name["job_lease_reset"]} == {"worker-3"}
    assert {line["worker_id"] for line in by_name["lease_lost"]} == {"worker-3"}
    codes = {(line["delivery_status"], line["error_code"]) for line in by_name["job_reported"]}
    assert codes == {("Completed", None), ("Failed", "http_500"), ("Failed", "http_503")}


@pytest.mark.requirement("R4-9.1a")
def test_a_delivery_can_be_followed_by_its_correlation_id(lines_by_fact):
    by_name = lines_by_fact()

    for saga in Saga.objects.select_related("event"):
        lines = [line for group in by_name.values() for line in group if line.get("saga_id") == saga.id]
        assert {line["correlation_id"] for line in lines} == {saga.event.correlation_id}
        names = {str(line["event"]) for line in lines}
        assert names >= {"saga_dispatched", "job_leased", "job_reported"}
        assert len(names & {"saga_completed", "saga_dead_lettered"}) == 1
        assert len(names & {"event_routed", "saga_requeued"}) == 1


@pytest.mark.usefixtures("lines_by_fact")
def test_payloads_responses_and_query_strings_are_not_logged(log_stream: io.StringIO, endpoint: HttpsEndpoint):
    assert any(b"PrivateValue" in request.body for request in endpoint.received)
    assert any("PrivateQuery" in request.path for request in endpoint.received)
    assert Job.objects.filter(response_snippet__contains="PrivateAnswer").exists()

    for word in PRIVATE:
        assert word not in log_stream.getvalue()


def _publish(event_type: str) -> None:
    publish(event_type, {"PrivateKey": ["PrivateValue"]}, external_id=event_type, correlation_id=f"c-{event_type}")


def _by_path(request: Received) -> Reply:
    path = request.path.partition("?")[0]
    status = {"/good": 200, "/late": 200 if request.attempt == 2 else 503}.get(path, 500)
    return Reply(status, b"PrivateAnswer", (("X-Answer", "PrivateHeader"),))
