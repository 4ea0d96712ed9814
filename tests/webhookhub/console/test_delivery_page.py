"""The pages of deliveries, events and attempts."""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deadletters import requeue
from deadletters.models import DeadLetter, Requeue
from events.intake import publish
from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from subscriptions import services
from subscriptions.models import Subscription
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from tests.support import drive, legal_steps, rows
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub import crypto
from webhookhub.console import delivery_history, format, request_preview
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db

MAX_QUERIES = 15
HOSTILE = {
    "html": "</pre></td><img src=x onerror=alert(1)><b>bold</b>",
    "script": "<script>alert(1)</script>",
    "alpine": '<div x-data x-init="alert(1)" hx-get="/admin/logout/" hx-trigger="load">',
    "template": "{{ 7|add:7 }}{% load i18n %}",
    "ansi": "\x1b[31mred\x1b[0m\x9b2J\x07",
    "right to left": "\u202eabc\u2066",
}


def page_of(client: Client, name: str, pk: int) -> str:
    response = client.get(rows.change(name, pk))
    assert response.status_code == 200
    return response.content.decode()


def delivery_page(client: Client, pk: int) -> str:
    """The page of a delivery with collapsed white space."""
    return " ".join(html.unescape(page_of(client, "sagas_saga", pk)).split())


def failed(saga: Any, number: int, code: str = "http_503", hours_ago: float = 0, **more: Any) -> Job:
    at = clock.now() - timedelta(hours=hours_ago)
    job: Any = JobFactory(saga=saga, attempt_no=number, status="Failed", error_code=code, finished_at=at, **more)
    return job  # type: ignore[no-any-return]


def test_a_failing_delivery_shows_its_failures_and_the_next_attempt(viewer: Client):
    saga: Any = SagaFactory(
        status="PendingRetry", attempt_count=4, max_retry_limit=10, final_error_code="http_503",
        next_attempt_at=clock.now() + timedelta(hours=1),
    )  # fmt: skip
    failed(saga, 1, "timeout", 7)
    for number, hours in ((2, 6), (3, 4), (4, 2)):
        failed(saga, number, "http_503", hours, response_status=503, duration_ms=120, worker_id="worker-7")

    page = delivery_page(viewer, saga.pk)

    assert "The endpoint responded with 503, 3 times in a row over 4 h. Next attempt at <time" in page
    assert f"{saga.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC" in page
    assert "Attempt 1 failed: the endpoint did not respond in time" in page
    assert "Status 503 · http_503 · took 120 ms · worker worker-7" in page
    assert page.index("received from tests") < page.index("Routed") < page.index("Attempt 1 failed")
    assert page.index("Attempt 3 failed") < page.index("Attempt 4 failed") < page.index("Next attempt</strong>")


def test_a_delivery_that_failed_once_shows_the_error_and_the_next_attempt(viewer: Client):
    saga: Any = SagaFactory(status="PendingRetry", attempt_count=2, max_retry_limit=10, final_error_code="http_503")
    failed(saga, 1, "timeout", 7)
    failed(saga, 2, "http_503", 3)

    assert "The endpoint responded with 503. Next attempt at <time" in delivery_page(viewer, saga.pk)


def test_without_permission_to_see_attempts_the_headline_has_the_error_only(staff: Callable[..., Client]):
    saga: Any = SagaFactory(
        status="PendingRetry", attempt_count=1, final_error_code="http_503", created_at=clock.now() - timedelta(hours=5)
    )
    failed(saga, 1, "http_503", 3)

    page = delivery_page(staff("anna", "view_saga"), saga.pk)

    assert "The endpoint responded with 503. Next attempt at <time" in page


def test_a_new_delivery_waits_for_the_first_attempt(viewer: Client):
    saga: Any = SagaFactory(subscription=SubscriptionFactory(active=False))

    page = delivery_page(viewer, saga.pk)

    assert "Waiting for the first attempt." in page
    assert "The subscription is switched off: its deliveries wait until it is switched on again." in page


def test_a_held_back_delivery_shows_no_time_of_the_next_attempt(viewer: Client):
    saga: Any = SagaFactory(
        subscription=SubscriptionFactory(active=False), status="PendingRetry", attempt_count=1,
        final_error_code="http_503", next_attempt_at=clock.now() + timedelta(hours=1),
    )  # fmt: skip
    failed(saga, 1, "http_503", 3)

    page = delivery_page(viewer, saga.pk)

    assert "The endpoint responded with 503." in page
    assert "The subscription is switched off: its deliveries wait until it is switched on again." in page
    assert "Next attempt at" not in page
    assert f"{saga.next_attempt_at:%Y-%m-%d %H:%M:%S}" not in page


def test_redirects_are_explained(viewer: Client):
    saga: Any = SagaFactory(status="DeadLettered", attempt_count=3, final_error_code="redirect")
    for number in (1, 2, 3):
        failed(saga, number, "redirect", 3 - number)

    headline = (
        "The endpoint responded with a redirect (redirects are not followed), "
        "3 times in a row over 2 h. The hub gave up"
    )
    assert headline in delivery_page(viewer, saga.pk)


def test_an_attempt_in_progress_shows_its_worker_and_lease_resets(viewer: Client):
    saga: Any = SagaFactory(status="InProgress", attempt_count=2)
    JobFactory(saga=saga, attempt_no=3, status="Leased", worker_id="worker-3", lease_resets=2)

    page = delivery_page(viewer, saga.pk)

    assert "Attempt 3 is in progress." in page
    assert "Attempt 3 is being sent" in page
    assert "worker worker-3 · lease expired: 2" in page


@pytest.mark.parametrize(
    ("attempts", "code", "headline"),
    [(1, None, "Delivered at the first attempt."), (3, "timeout", "Delivered at attempt 3. Before that, the endpoint")],
)
def test_a_delivered_delivery_shows_the_attempt(viewer: Client, attempts: int, code: str | None, headline: str):
    saga: Any = SagaFactory(status="Completed", attempt_count=attempts, final_error_code=code)

    assert headline in delivery_page(viewer, saga.pk)


def test_a_requeue_is_shown_on_both_deliveries(viewer: Client):
    letter = rows.dead_letter("http_503")
    [done] = requeue.requeue([letter.pk], by=Operator(), reason="fixed & tested")

    dead, requeued_page = delivery_page(viewer, letter.saga_id), delivery_page(viewer, done.saga_id)

    link = f'<a href="{rows.change("sagas_saga", done.saga_id)}">delivery {done.saga_id}</a>'
    assert f"The hub gave up after 3 attempts. It was requeued as {link} (waiting)." in dead
    assert "to try again" not in dead
    assert "Became a dead letter" in dead
    assert f"as delivery {done.saga_id}" in dead
    for page in (dead, requeued_page):
        assert "Reason: fixed & tested" in page
    assert rows.change("sagas_saga", done.saga_id) in dead
    assert rows.change("sagas_saga", letter.saga_id) in requeued_page
    assert rows.change("deadletters_deadletter", letter.pk) in dead


def requeued(times: int) -> list[DeadLetter]:
    """The dead letters of one event that was requeued this many times and dead-lettered each time."""
    event, subscription = EventFactory.create(), SubscriptionFactory.create()
    letters: list[DeadLetter] = []
    for generation in range(times + 1):
        if letters:
            who = f"person {generation - 1}"
            Requeue.objects.create(
                dead_letter=letters[-1], requested_by=who, requested_at=clock.now(), reason="again", request_token="t",
                max_retry_limit=3, base_delay=timedelta(seconds=1),
            )  # fmt: skip
            saga = Saga.objects.get(event=event, generation=generation)
        else:
            saga = SagaFactory.create(event=event, subscription=subscription)
        legal_steps.update(saga, final_error_code="http_503")
        legal_steps.advance(saga, "DeadLettered", 1)
        letter = DeadLetter.objects.get(saga=saga)
        letters.append(letter)
    return letters


def test_each_of_many_requeued_deliveries_shows_its_own_requeue(superuser: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delivery_history, "NEIGHBOURS", 1)
    last = 6
    letters = requeued(last)
    sagas = [letter.saga_id for letter in letters]

    for generation in (0, 1, 3, last - 1, last):
        page = delivery_page(superuser, sagas[generation])
        timeline = page.partition("Timeline")[2]
        before, letter = generation - 1, rows.change("deadletters_deadletter", letters[generation].pk)
        if generation:
            assert f'<a href="{rows.change("sagas_saga", sagas[before])}">Requeued by person {before}<' in page
        assert ("Routed to the subscription" in timeline) is (generation == 0)
        assert f'<a href="{letter}">Became a dead letter<' in timeline
        if generation < last:
            after = sagas[generation + 1]
            assert f"It was requeued as {format.link(rows.change('sagas_saga', after), f'delivery {after}')}" in page
            assert f"Requeued by person {generation} as delivery {after}<" in timeline
        else:
            assert "Requeue the delivery to try again" in page
            assert f"/admin/deadletters/deadletter/requeue/?ids={letters[last].pk}" in page


def test_the_nearest_generations_are_named_and_the_others_listed(superuser: Client):
    sagas = [letter.saga_id for letter in requeued(24)]

    for generation in (0, 12, 24):
        with CaptureQueriesContext(connection) as queries:
            page = delivery_page(superuser, sagas[generation])
        named = page.partition("Other deliveries of this event")[2].partition("</dd>")[0]
        for other in range(25):
            near = other != generation and abs(other - generation) <= delivery_history.NEIGHBOURS
            assert (f"(generation {other}," in named) is near
        assert rows.listing("sagas_saga", f"?event={Saga.objects.get(pk=sagas[0]).event_id}") in named
        assert len(queries) <= MAX_QUERIES


def test_a_dead_letter_asks_to_requeue(viewer: Client):
    letter = rows.dead_letter("http_503")

    headline = "The hub gave up after 3 attempts. Requeue the delivery to try again."
    assert headline in delivery_page(viewer, letter.saga_id)


def test_the_requeue_button_needs_permission_and_disappears_after_the_requeue(viewer: Client, superuser: Client):
    letter = rows.dead_letter("http_503")
    address = f"/admin/deadletters/deadletter/requeue/?ids={letter.pk}"

    assert address not in delivery_page(viewer, letter.saga_id)
    assert address in delivery_page(superuser, letter.saga_id)
    requeue.requeue([letter.pk], by=Operator(), reason="fixed")
    assert address not in delivery_page(superuser, letter.saga_id)


def test_the_request_preview_equals_the_sent_request(endpoint: HttpsEndpoint, superuser: Client):
    endpoint.respond = lambda request: Reply(500, b"no")
    subscription: Any = SubscriptionFactory(callback_url=endpoint.url("/hook"), max_retry_limit=1)
    Subscription.objects.filter(pk=subscription.pk).update(custom_headers=crypto.encrypt("X-Api-Key: hunter2 secret"))
    publish("order.created", {"order": 7, "name": 'Zoë\'s "🦊" $HOME `id`'}, correlation_id="c-1")
    drive.until_terminal()
    saga = Saga.objects.get()
    [received] = endpoint.received

    sent = request_preview.preview(saga.event, saga.subscription, saga.attempt_count)
    arguments = shlex.split(sent.curl.replace("\\\n", " "))

    assert sent.body.encode() == received.body
    assert arguments[-1].encode() == received.body
    assert arguments[3] == endpoint.url("/hook")
    for header in sent.headers:
        name, value = header.split(": ", 1)
        assert received.headers[name.lower()] == ("hunter2 secret" if value == request_preview.HIDDEN else value)
    page = page_of(superuser, "sagas_saga", saga.pk)
    assert "X-Api-Key: •••" in page
    assert "hunter2" not in page
    assert "webhook-signature" not in page
    assert crypto.decrypt(Subscription.objects.get().secret) not in page


def test_a_changed_subscription_is_noted_at_the_request(
    endpoint: HttpsEndpoint, staff: Callable[..., Client], superuser: Client
):
    subscription: Any = SubscriptionFactory(callback_url=endpoint.url("/old"))
    publish("order.created", {"order": 7})
    drive.until_terminal()
    saga = Saga.objects.get()
    before = delivery_page(superuser, saga.pk)
    services.change(subscription, {"callback_url": endpoint.url("/new")})

    after = delivery_page(superuser, saga.pk)

    history = f"/admin/subscriptions/subscription/{subscription.pk}/history/"
    assert "<h2>Request</h2>" in before
    assert "was changed at" not in before
    assert "traceparent headers" in before
    assert "Request as it would be sent now" in after
    assert "The subscription was changed at <time" in after
    assert history in after.partition('id="changed-since"')[2].partition("</p>")[0]
    curious = staff("curious", "view_saga", "view_event", "view_subscription")
    note = delivery_page(curious, saga.pk).partition('id="changed-since"')[2].partition("</p>")[0]
    assert "was changed at" in note
    assert history not in note


def test_a_long_body_is_not_put_on_a_command_line():
    event: Any = EventFactory.build(payload=json.dumps({"a": "x" * 1_000_000}), created_at=clock.now())
    subscription: Any = SubscriptionFactory.build()

    sent = request_preview.preview(event, subscription, 0)

    assert not sent.is_short
    assert len(sent.curl) < 2000
    assert "@body.json" in sent.curl


@pytest.mark.parametrize("name", ["sagas_saga", "events_event", "jobs_job"])
def test_hostile_payloads_and_responses_are_escaped(superuser: Client, name: str):
    text = "\n".join(HOSTILE.values())
    event: Any = EventFactory(payload=json.dumps({text: [text]}), external_id="e", correlation_id=HOSTILE["html"])
    saga: Any = SagaFactory(event=event, status="PendingRetry", attempt_count=1, final_error_code="http_500")
    job = failed(saga, 1, "http_500", response_snippet=text)
    pk = {"sagas_saga": saga.pk, "events_event": event.pk, "jobs_job": job.pk}[name]

    page = page_of(superuser, name, pk)

    for forbidden in ("<script>alert", "<img src=x", "<b>bold", "<div x-data x-init", "\x1b", "\x9b", "\x07", "\u202e"):
        assert forbidden not in page
    blocks = page.split('<pre class="hub-text"')[1:]
    assert blocks
    for block in blocks:
        head, _, rest = block.partition(">")
        assert "x-ignore" in head
        shown = rest.partition("</pre>")[0]
        assert "<" not in shown
        assert not [c for c in shown if not c.isprintable() and c not in "\n\t"]


def test_a_response_that_is_not_utf8_is_shown(endpoint: HttpsEndpoint, superuser: Client):
    endpoint.respond = lambda request: Reply(500, b"\xff\xfe\x00\x1b[31m<b>no</b>")
    SubscriptionFactory(callback_url=endpoint.url("/hook"), max_retry_limit=1)
    publish("order.created", {"order": 7})
    drive.until_terminal()

    page = page_of(superuser, "sagas_saga", Saga.objects.get().pk)

    assert "\ufffd[31m&lt;b&gt;no&lt;/b&gt;" in page


def test_a_delivery_with_many_attempts_shows_the_last_ones(viewer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delivery_history, "MAX_ATTEMPTS", 3)
    saga: Any = SagaFactory(status="PendingRetry", attempt_count=5, max_retry_limit=9, final_error_code="timeout")
    for number in range(1, 6):
        failed(saga, number, "timeout")

    page = delivery_page(viewer, saga.pk)

    assert "2 earlier attempts" in page
    assert "Attempt 2 failed" not in page
    assert "Attempt 3 failed" in page


@pytest.mark.parametrize(
    ("status", "headline"),
    [
        ("PendingRetry", "The endpoint responded with 503, 5+ times in a row over 4 h. Next attempt at"),
        ("DeadLettered", "The endpoint responded with 503, 5+ times in a row over 4 h. The hub gave up"),
    ],
)
def test_failures_beyond_the_loaded_attempts_are_counted_as_a_minimum(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, status: str, headline: str
):
    monkeypatch.setattr(delivery_history, "MAX_ATTEMPTS", 5)
    saga = SagaFactory.create(status=status, attempt_count=6, max_retry_limit=10, final_error_code="http_503")
    for number in range(1, 7):
        failed(saga, number, "http_503", 7 - number)

    assert headline in delivery_page(viewer, saga.pk)


@pytest.mark.parametrize("first", [1, 2])
def test_failures_within_the_loaded_attempts_are_counted_exactly(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, first: int
):
    """The series starts with the first attempt, or after another error."""
    monkeypatch.setattr(delivery_history, "MAX_ATTEMPTS", 5)
    saga = SagaFactory.create(status="PendingRetry", attempt_count=5, max_retry_limit=9, final_error_code="http_503")
    failed(saga, 1, "http_503" if first == 1 else "timeout", 5)
    for number in range(2, 6):
        failed(saga, number, "http_503", 6 - number)

    headline = f"The endpoint responded with 503, {6 - first} times in a row over {5 - first} h. Next attempt at"
    assert headline in delivery_page(viewer, saga.pk)


def test_the_pages_need_few_queries(viewer: Client):
    letter = rows.dead_letter("http_503")
    requeue.requeue([letter.pk], by=Operator(), reason="fixed")
    saga = Saga.objects.get(generation=1)
    for number in range(1, 9):
        failed(saga, number)
    job = Job.objects.filter(saga=saga)[0]

    for name, pk in (("sagas_saga", saga.pk), ("events_event", saga.event_id), ("jobs_job", job.pk)):
        with CaptureQueriesContext(connection) as queries:
            page_of(viewer, name, pk)
        assert len(queries) <= MAX_QUERIES, name


def test_payload_and_request_need_permission_to_view_events(staff: Callable[..., Client]):
    saga: Any = SagaFactory(event=EventFactory(payload='{"card": "visible"}'))

    assert "visible" not in page_of(staff("anna", "view_saga"), "sagas_saga", saga.pk)
    assert "visible" in page_of(staff("eve", "view_saga", "view_event"), "sagas_saga", saga.pk)


def test_an_event_without_deliveries_explains_why(viewer: Client):
    event: Any = EventFactory()

    page = page_of(viewer, "events_event", event.pk)

    assert "no active and verified subscription had this event type" in page
    assert Event.objects.count() == 1
