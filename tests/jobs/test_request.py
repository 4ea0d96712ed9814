"""What is sent for a job, and what is read from the answer's Retry-After."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from events.intake import publish
from jobs import request
from jobs.lease import lease
from jobs.models import Job
from jobs.request import retry_after
from sagas.models import Saga
from tests.factories import JobFactory, SubscriptionFactory
from tests.support.drive import until, until_terminal
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.db import clock

NOW = datetime(2024, 2, 29, 12, 0, 0, tzinfo=UTC)


@pytest.mark.requirement("R2-2.3c")
@pytest.mark.parametrize(
    ("microseconds", "written"), [(123456, "12:30:15.123456Z"), (120, "12:30:15.000120Z"), (0, "12:30:15Z")]
)
@pytest.mark.django_db
def test_the_body_is_type_timestamp_and_the_stored_payload(microseconds: int, written: str):
    created = datetime(2024, 2, 29, 12, 30, 15, microseconds, tzinfo=UTC)
    made = JobFactory.create(
        saga__event__event_type="a.b-c_d", saga__event__created_at=created, saga__event__payload='{"k": 1.0}'
    )

    [job] = lease("w", 1)

    assert request.body(job) == (
        f'{{"type":"a.b-c_d","timestamp":"2024-02-29T{written}","data":{job.payload}}}'.encode()
    )
    assert job.event_uid == str(made.saga.event.uid)
    assert job.payload == '{"k": 1.0}'


@pytest.mark.requirement("R3-1.3b")
@pytest.mark.django_db
def test_a_job_leased_again_sends_the_same_bytes():
    JobFactory.create(saga__event__payload='{"zebra": "é😀", "a": [1, 1.5, {"y": null, "x": true}]}')

    bodies = set()
    for _ in range(3):
        [job] = lease("w", 1)
        bodies.add(request.body(job))
        Job.objects.update(status="Pending", lease_until=clock.now())

    assert len(bodies) == 1
    assert json.loads(bodies.pop())["data"] == {"zebra": "é😀", "a": [1, 1.5, {"y": None, "x": True}]}


@pytest.mark.requirement("R2-2.2a")
@pytest.mark.django_db
def test_every_attempt_carries_the_same_id_and_bytes_and_its_own_number(endpoint: HttpsEndpoint):
    endpoint.respond = lambda received: Reply(500 if received.attempt < 3 else 200)
    SubscriptionFactory.create(callback_url=endpoint.url("/hook?a=b"), base_delay=timedelta(milliseconds=1))
    payload = {"zebra": 1, "a": "é\u2028</script>", "n": [0.1, 2**63, -1e-7]}

    published = publish("order.created", payload)
    until_terminal()

    assert [received.attempt for received in endpoint.received] == [1, 2, 3]
    assert {received.path for received in endpoint.received} == {"/hook?a=b"}
    assert {received.headers["webhook-id"] for received in endpoint.received} == {str(published.uid)}
    [body] = {received.body for received in endpoint.received}
    document = json.loads(body)
    assert document["type"] == "order.created"
    assert document["data"] == payload
    first = endpoint.received[0].headers
    assert first["content-type"] == "application/json"
    assert first["user-agent"].startswith("WebhookHub/")
    assert abs(int(first["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 60
    assert int(first["content-length"]) == len(body)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("120", 120),
        ("1000000000", 10**9),
        ("1000000001", 10**9),
        ("9" * 90, 10**9),
        ("Thu, 29 Feb 2024 12:02:00 GMT", 120),
        ("Thu, 29 Feb 2024 13:02:00 +0100", 120),
        ("29 Feb 2024 12:02:00", 120),
        ("Thursday, 29-Feb-24 12:02:00 GMT", 120),
        ("Thu Feb 29 12:02:00 2024", 120),
        ("Thu, 29 Feb 2024 11:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 10**9),
        ("Fri, 31 Dec 9999 23:59:59 -1200", 10**9),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("²", None),
        ("١٢", None),
        ("soon", None),
        ("Thu, 30 Feb 2024 12:00:00 GMT", None),
        ("Thu, 29 Feb 99999999 12:00:00 GMT", None),
        ("Thu, 29 Feb 2024 12:00:00 +9999", None),
        ("Thu, 29 Feb 2024 12:00:00 +99999999999999999999", None),
        ("\x00\xff\xfe", None),
        ("," * 100, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_or_nothing(header: str | None, seconds: int | None):
    assert retry_after(header, NOW) == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.django_db
@pytest.mark.parametrize("header", ["Fri, 31 Dec 9999 23:59:59 -1200", "nonsense"])
def test_no_retry_after_can_stop_a_worker(endpoint: HttpsEndpoint, header: str, hub_settings):
    hub_settings(retry_after_cap=timedelta(0))
    endpoint.respond = lambda received: Reply(503 if received.attempt == 1 else 200, b"", (("Retry-After", header),))
    SubscriptionFactory.create(callback_url=endpoint.url(), base_delay=timedelta(milliseconds=1))

    publish("order.created", {})
    until_terminal()

    assert Saga.objects.get().status == "Completed"
    assert len(endpoint.received) == 2


@pytest.mark.requirement("R1-5.3a", "R1-8.1c")
@pytest.mark.django_db
def test_a_retry_after_postpones_the_next_attempt_up_to_its_cap(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(retry_after_cap=timedelta(minutes=10))
    asked = {"/short": "300", "/long": "9999", "/other": "300"}
    endpoint.respond = lambda received: Reply(
        500 if received.path == "/other" else 429, b"", (("Retry-After", asked[received.path]),)
    )
    for path in asked:
        SubscriptionFactory.create(callback_url=endpoint.url(path), base_delay=timedelta(minutes=1))
    publish("order.created", {})
    until(lambda: Saga.objects.filter(status="PendingRetry").count() == 3)

    delays = {}
    for saga in Saga.objects.select_related("subscription"):
        path = saga.subscription.callback_url.rpartition("/")[2]
        finished_at = Job.objects.get(saga=saga).finished_at
        assert finished_at is not None
        delays[path] = (saga.next_attempt_at - finished_at).total_seconds()
    assert delays == {"short": pytest.approx(300, abs=0.01), "long": 600, "other": pytest.approx(60, rel=0.1)}
