"""Deliveries to endpoints that want an OAuth2 token."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.models import Job
from jobs.worker import Worker
from subscriptions import credential_services, oauth2
from subscriptions.credentials import Credentials, InvalidCredentials, OAuth2Client, serialize
from subscriptions.models import Subscription
from subscriptions.sample_delivery import send_test
from subscriptions.verification import verify
from tests.factories import JobFactory, SagaFactory, SubscriptionFactory
from tests.jobs.test_worker import finished, turn_until
from tests.support.token_server import TokenServer
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.db import clock

pytestmark = pytest.mark.django_db
SECRET = "s3cret:of/the client"


@pytest.fixture
def tokens(endpoint: HttpsEndpoint, certificate_files: tuple[Path, Path]) -> Iterator[TokenServer]:
    with TokenServer(certificate_files[1]) as running:
        yield running


@pytest.fixture
def subscription(endpoint: HttpsEndpoint, tokens: TokenServer) -> Subscription:
    created: Subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    credential_services.set_oauth2(created, OAuth2Client(tokens.url("/token"), "hub", SECRET, "hooks", "partner"))
    return created


@pytest.fixture
def worker() -> Iterator[Worker]:
    running = Worker("w")
    yield running
    running.close()


def jobs_of(subscription: Subscription, count: int) -> list[Job]:
    return [JobFactory.create(saga=SagaFactory.create(subscription=subscription)) for _ in range(count)]


def codes() -> list[str | None]:
    return list(Job.objects.order_by("id").values_list("error_code", flat=True))


def sent_tokens(endpoint: HttpsEndpoint) -> list[str]:
    return [request.headers["authorization"] for request in endpoint.received]


def waiting_for(event: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        event.wait(30)

    return wait


def test_concurrent_deliveries_share_one_token(
    subscription: Subscription, worker: Worker, tokens: TokenServer, endpoint: HttpsEndpoint, log_stream: io.StringIO
):
    jobs_of(subscription, 20)
    turn_until(worker, finished)

    assert sent_tokens(endpoint) == ["Bearer token-number-1"] * 20
    [request] = tokens.received
    assert tokens.forms == [{"grant_type": "client_credentials", "scope": "hooks", "audience": "partner"}]
    scheme, encoded = request.headers["authorization"].split()
    assert (scheme, base64.b64decode(encoded).decode()) == ("Basic", "hub:s3cret%3Aof%2Fthe+client")
    assert "token-number" not in log_stream.getvalue()
    assert "s3cret" not in log_stream.getvalue()


def test_the_client_may_identify_itself_in_the_body(subscription: Subscription, worker: Worker, tokens: TokenServer):
    client = OAuth2Client(tokens.url(), "hub", SECRET, authentication="post")
    credential_services.set_oauth2(subscription, client)
    jobs_of(subscription, 1)
    turn_until(worker, finished)

    assert tokens.forms == [{"grant_type": "client_credentials", "client_id": "hub", "client_secret": SECRET}]
    assert "authorization" not in tokens.received[0].headers


def test_a_token_is_replaced_shortly_before_it_expires(
    subscription: Subscription, worker: Worker, tokens: TokenServer, endpoint: HttpsEndpoint
):
    tokens.values = {"expires_in": 1}
    jobs_of(subscription, 1)
    turn_until(worker, finished)
    until = time.monotonic() + 0.95
    while time.monotonic() < until:
        worker.turn(1)
        threading.Event().wait(0.05)
    jobs_of(subscription, 1)
    turn_until(worker, finished)

    assert sent_tokens(endpoint) == ["Bearer token-number-1", "Bearer token-number-2"]


def test_a_401_counts_and_the_next_attempt_gets_one_new_token(
    subscription: Subscription, worker: Worker, tokens: TokenServer, endpoint: HttpsEndpoint
):
    endpoint.respond = lambda request: Reply(401, b"token-number-1 is not valid, s3cret:of/the client")
    [job] = jobs_of(subscription, 1)
    turn_until(worker, finished)
    job.refresh_from_db()
    assert (job.status, job.error_code, job.response_status) == ("Failed", "http_401", 401)
    assert job.response_snippet == "••• is not valid, •••"
    assert len(endpoint.received) == 1

    for _ in range(3):
        jobs_of(subscription, 1)
        turn_until(worker, finished)
    # One attempt is one POST, and a token that is refused as well is not replaced again and again.
    assert sent_tokens(endpoint) == ["Bearer token-number-1"] + ["Bearer token-number-2"] * 3


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(400, b'{"error":"invalid_client"}'), "token_refused"),
        (Reply(401), "token_refused"),
        (Reply(302, b"", (("Location", "https://127.0.0.1/"),)), "token_refused"),
        (Reply(200, b"<html>"), "token_invalid"),
        (Reply(200, b"[]"), "token_invalid"),
        (Reply(200, b'{"access_token":5}'), "token_invalid"),
        (Reply(200, b'{"access_token":"a\\r\\nX-Evil: 1"}'), "token_invalid"),
        (Reply(200, b'{"access_token":"abcdef","token_type":"mac"}'), "token_invalid"),
        (Reply(200, b'{"access_token":"abcdef","expires_in":"soon"}'), "token_invalid"),
        (Reply(200, b'{"access_token":"abcdef","expires_in":-1}'), "token_invalid"),
    ],
)
def test_a_refusal_uses_up_the_attempt_and_is_remembered(
    subscription: Subscription, worker: Worker, tokens: TokenServer, endpoint: HttpsEndpoint, reply: Reply, code: str
):
    tokens.reply = reply
    jobs_of(subscription, 3)
    turn_until(worker, finished)
    jobs_of(subscription, 2)
    turn_until(worker, finished)

    assert codes() == [code] * 5
    assert len(tokens.received) == 1
    assert not endpoint.received


@pytest.mark.parametrize("reply", [Reply(500), Reply(503), Reply(429), Reply(drop=True)])
def test_an_unreachable_token_server_uses_up_no_attempt(
    subscription: Subscription,
    worker: Worker,
    tokens: TokenServer,
    endpoint: HttpsEndpoint,
    reply: Reply,
    monkeypatch: pytest.MonkeyPatch,
):
    tokens.reply = reply
    jobs = jobs_of(subscription, 5)
    turn_until(worker, lambda: bool(tokens.received) and not worker.open_jobs)
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.error_code, job.lease_resets) == ("Pending", None, 0)
        assert job.lease_until is not None
        assert job.lease_until > clock.now()
    # While it waits, no other job asks.
    Job.objects.update(lease_until=clock.now())
    turn_until(worker, lambda: not worker.open_jobs)
    assert len(tokens.received) == 1

    # It counts after an hour.
    monkeypatch.setattr(oauth2, "UNREACHABLE_SECONDS", 0.0)
    source = next(iter(worker._tokens._sources.values()))
    source.retry_at = 0.0
    Job.objects.update(lease_until=clock.now())
    turn_until(worker, finished)
    assert codes() == ["token_unreachable"] * 5
    assert not endpoint.received


def test_jobs_do_not_wait_long_for_a_slow_token_server(
    subscription: Subscription, worker: Worker, tokens: TokenServer, endpoint: HttpsEndpoint
):
    answer = threading.Event()
    tokens.reply = Reply(200, b'{"access_token":"slow-token"}', before=waiting_for(answer))
    other = JobFactory.create(saga__subscription__callback_url=endpoint.url("/other"))
    jobs_of(subscription, 2)
    turn_until(worker, lambda: Job.objects.filter(status="Pending", lease_until__gt=clock.now()).count() == 2)
    other.refresh_from_db()
    assert other.status == "Completed"

    answer.set()
    turn_until(worker, lambda: not worker.open_jobs)
    Job.objects.filter(status="Pending").update(lease_until=clock.now())
    turn_until(worker, finished)
    authorizations = [request.headers.get("authorization") for request in endpoint.received]
    assert authorizations == [None, "Bearer slow-token", "Bearer slow-token"]
    assert len(tokens.received) == 1


def test_the_token_url_is_judged_like_an_endpoint(
    subscription: Subscription, worker: Worker, hub_settings: Callable[..., None], endpoint: HttpsEndpoint
):
    client = OAuth2Client("https://10.0.0.1/token", "hub", SECRET)
    with pytest.raises(InvalidCredentials) as caught:
        credential_services.set_oauth2(subscription, client)
    assert "may not be reached" in caught.value.errors["token_url"]
    # Stored under other rules:
    Subscription.objects.update(credentials=serialize(Credentials(None, client)))
    jobs_of(subscription, 1)
    turn_until(worker, finished)

    assert codes() == ["blocked_address"]
    assert not endpoint.received


def test_verifications_and_test_events_get_a_token(
    subscription: Subscription, tokens: TokenServer, endpoint: HttpsEndpoint
):
    assert verify(subscription).verified
    assert send_test(subscription).response.error_code is None
    assert sent_tokens(endpoint) == ["Bearer token-number-2"]
    tokens.reply = Reply(401)
    assert verify(subscription).result == "token_refused"
    tokens.reply = Reply(500)
    assert send_test(subscription).response.error_code == "token_unreachable"


def test_a_timeout_is_an_unreachable_token_server(
    subscription: Subscription, tokens: TokenServer, hub_settings: Callable[..., None]
):
    hub_settings(request_timeout=timedelta(seconds=0.3), connect_timeout=timedelta(seconds=0.3))
    release = threading.Event()
    tokens.reply = Reply(before=waiting_for(release))
    assert send_test(subscription).response.error_code == "token_unreachable"
    release.set()
