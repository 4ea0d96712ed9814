"""Values in the query of a callback URL may be secrets: they are masked without permission to see secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from events.intake import publish
from jobs.models import Job
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import SagaFactory, SubscriptionFactory
from tests.support import drive, rows
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.console import request_preview
from webhookhub.db import clock
from webhookhub.egress.urls import masked
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult

pytestmark = pytest.mark.django_db

TOKEN = "s3cr3t-t0ken"
URL = f"https://127.0.0.1:1025/hook?token={TOKEN}&v=2"
HIDDEN = "https://127.0.0.1:1025/hook?token=***&amp;v=***"
NAME = "subscriptions_subscription"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/x", "https://a.example/x"),
        ("https://a.example/x?token=abc", "https://a.example/x?token=***"),
        ("https://a.example/x?token=abc&v=2", "https://a.example/x?token=***&v=***"),
        ("https://a.example/x?abc", "https://a.example/x?***"),
        ("https://a.example/x?a=b=c&&d", "https://a.example/x?a=***&&***"),
        ("https://a.example/x?a=/b?c=d@e", "https://a.example/x?a=***"),
        ("https://u:p@a.example:8443/x@y", "https://***@a.example:8443/x@y"),
        ("https://a.example?t=1", "https://a.example?t=***"),
        ("https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/"),
        ("no address", "no address"),
        ("", ""),
    ],
)
def test_urls_are_shown_masked(url: str, shown: str):
    assert masked(url) == shown


@pytest.fixture
def letter(db: None) -> Any:
    """A dead letter of a subscription with URL as its callback URL, which is in the stats of the overview too."""
    dead = rows.dead_letter("http_503")
    Subscription.objects.filter(pk=dead.subscription_id).update(callback_url=URL)
    at = clock.now()
    attempts.add([AttemptResult(dead.subscription_id, "dead_lettered", "http_503", at, at, 30)])
    return dead


def pages_of(letter: Any) -> list[str]:
    """All pages that show the callback URL."""
    job = Job.objects.get(saga=letter.saga_id)
    return [
        reverse("admin:index"),
        reverse("admin:overview"),
        reverse("admin:search") + "?q=http_503",
        reverse("admin:search") + "?q=127.0.0.1",
        reverse("admin:search") + f"?q={letter.saga_id}",
        *(rows.listing(name) for name in ("sagas_saga", "deadletters_deadletter", NAME)),
        rows.change("sagas_saga", letter.saga_id),
        rows.change("jobs_job", job.pk),
        rows.change("events_event", letter.event_id),
        rows.change("deadletters_deadletter", letter.pk),
        rows.change(NAME, letter.subscription_id),
        reverse("admin:deadletters_deadletter_requeue") + f"?ids={letter.pk}",
    ]


def test_support_sees_no_query_values(member: Callable[[str], Client], letter: Any):
    client = member("support")

    for address in pages_of(letter):
        response = client.get(address)
        assert response.status_code == 200, address
        assert TOKEN not in response.content.decode(), address
        assert HIDDEN in response.content.decode(), address


def test_operations_sees_query_values_only_in_the_form(member: Callable[[str], Client], letter: Any):
    client = member("operations")
    matching = reverse("admin:deadletters_deadletter_requeue_matching")
    replace = reverse("admin:subscriptions_subscription_rotate", args=[letter.subscription_id])
    form = rows.change(NAME, letter.subscription_id)

    for address in [*pages_of(letter), matching, replace]:
        page = client.get(address).content.decode()
        assert (TOKEN in page) is (address == form), address


def test_the_page_of_a_new_secret_masks_the_url(member: Callable[[str], Client], letter: Any):
    replace = reverse("admin:subscriptions_subscription_rotate", args=[letter.subscription_id])

    page = member("operations").post(replace, {"reason": "it leaked"}).content.decode()

    assert "whsec_" in page
    assert TOKEN not in page
    assert HIDDEN in page


def test_the_curl_command_asks_to_replace_masked_values(member: Callable[[str], Client], letter: Any):
    advice = "Replace each *** with the value"
    saga = Saga.objects.select_related("event", "subscription").get(pk=letter.saga_id)
    plain: Any = SagaFactory()
    client = member("support")

    assert f"curl -X POST '{masked(URL)}'" in request_preview.preview(saga.event, saga.subscription, 1).curl
    assert advice in client.get(rows.change("sagas_saga", saga.pk)).content.decode()
    assert advice not in client.get(rows.change("sagas_saga", plain.pk)).content.decode()


def test_a_search_does_not_find_masked_values(member: Callable[[str], Client], letter: Any):
    client = member("support")

    def found(term: str) -> int:
        return int(client.get(rows.listing(NAME), {"q": term}).context["cl"].result_count)

    assert found("1025/hook") == 1
    assert [found(term) for term in (TOKEN, TOKEN[:3], "token=s", "v=2")] == [0, 0, 0, 0]


def test_saving_without_permission_for_secrets_keeps_masked_values(staff: Callable[..., Client], letter: Any):
    client = staff("editor", "view_subscription", "change_subscription")
    address = rows.change(NAME, letter.subscription_id)
    form = {"event_type": "order.created", "callback_url": masked(URL), "active": "on", "description": "edited"}

    def post(**more: str) -> str:
        return client.post(address, form | rows.seen(client, letter.subscription_id) | more).content.decode()

    def stored() -> tuple[str, str]:
        row = Subscription.objects.get(pk=letter.subscription_id)
        return str(row.description), str(row.callback_url)

    assert TOKEN not in client.get(address).content.decode()
    post()
    assert stored() == ("edited", URL)
    assert "*** stands for values that you may not see" in post(callback_url=masked(URL).replace("hook", "other"))
    post(callback_url="https://127.0.0.1:1025/new?key=other")
    assert stored() == ("edited", "https://127.0.0.1:1025/new?key=other")


def test_a_response_that_repeats_the_url_is_masked(viewer: Client, endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(
        callback_url=endpoint.url(f"/hook?token={TOKEN}%2B1&v=2"), max_retry_limit=1
    )
    endpoint.respond = lambda request: Reply(404, f"Cannot POST {request.path}, not even {TOKEN}+1".encode())
    publish("order.created", {})

    drive.until_terminal()

    saga = Saga.objects.get(subscription=subscription)
    page = viewer.get(rows.change("sagas_saga", saga.pk)).content.decode()
    assert "Cannot POST /hook?token=•••&amp;v=2, not even •••" in page
    assert TOKEN not in page
