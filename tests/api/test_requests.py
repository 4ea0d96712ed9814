"""The API for requests by people: send now, abandon, send again, and their progress."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from api.scopes import DELIVERIES_ABANDON, DELIVERIES_SEND, READ, REQUEUE, SCOPES, SUBSCRIPTIONS_WRITE
from deadletters.models import DeadLetter
from sagas.apply_requests import apply_requests
from sagas.models import DeliveryRequest, Saga
from sagas.transitions import LEGAL
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

from .conftest import Program, iso

pytestmark = pytest.mark.django_db

REASON = {"reason": "the endpoint is back"}
ATTEMPTS = {"Pending": 0, "InProgress": 0, "PendingRetry": 1, "Completed": 1, "DeadLettered": 3}
NOBODY = "/requests/01a1eebd-2816-7d0c-a8db-e423f6acf92a"


def delivery(status: str = "Pending", **values: Any) -> Saga:
    values = {"next_attempt_at": clock.now() + timedelta(hours=1), **values}
    saga: Saga = SagaFactory.create(status=status, attempt_count=ATTEMPTS[status], **values)
    if status == "DeadLettered" and not DeadLetter.objects.filter(saga=saga).exists():
        legal_steps.dead_letter(saga)
    return saga


def applied(program: Program, response: Any) -> Any:
    """Apply all requests; returns the request as the API shows it then."""
    assert response.status_code == 202, response.content
    while apply_requests(100):
        pass
    return program.get(f"/requests/{response.json()['uid']}").json()


def test_send_now(hub_wide: Program):
    saga = delivery()

    response = hub_wide.post(f"/deliveries/{saga.pk}/send-now", REASON)

    accepted = response.json()
    assert (accepted["kind"], accepted["delivery"], accepted["applied_at"]) == ("send_now", saga.pk, None)
    assert (accepted["requested_by"], accepted["reason"]) == ("API key everything", REASON["reason"])
    done = applied(hub_wide, response)
    assert (done["changed"], done["applied_at"] is None, done["new_delivery"]) == (1, False, None)
    saga.refresh_from_db()
    assert saga.next_attempt_at <= clock.now()


def test_abandon(hub_wide: Program):
    saga = delivery()

    done = applied(hub_wide, hub_wide.post(f"/deliveries/{saga.pk}/abandon", REASON))

    assert done["changed"] == 1
    shown = hub_wide.get(f"/deliveries/{saga.pk}").json()
    assert (shown["status"], shown["error_code"]) == ("DeadLettered", "abandoned")
    letter = hub_wide.get(f"/dead-letters/{shown['dead_letter']}").json()
    assert letter["error_code"] == "abandoned"


@pytest.mark.parametrize("status", ["Completed", "DeadLettered"])
def test_send_again(hub_wide: Program, status: str):
    saga = delivery(status)

    done = applied(hub_wide, hub_wide.post(f"/deliveries/{saga.pk}/send-again", REASON))

    new = hub_wide.get(f"/deliveries/{done['new_delivery']}").json()
    assert (new["status"], new["generation"]) == ("Pending", 1)


@pytest.mark.parametrize("kind", ["send-now", "abandon"])
def test_all_deliveries_of_a_subscription(hub_wide: Program, kind: str):
    subscription = SubscriptionFactory.create()
    same_url = SubscriptionFactory.create(event_type="other", callback_url=subscription.callback_url)
    delivery(subscription=subscription)
    delivery("PendingRetry", subscription=subscription)
    delivery(subscription=same_url)
    delivery()
    path = f"/subscriptions/{subscription.pk}/{kind}"

    assert hub_wide.post(path, {"dry_run": True}).json() == {"waiting": 2, "in_progress": 0, "more": False}
    assert hub_wide.post(path, {"dry_run": True, "whole_endpoint": True}).json()["waiting"] == 3
    assert not DeliveryRequest.objects.exists()
    done = applied(hub_wide, hub_wide.post(path, {**REASON, "whole_endpoint": True}))
    assert (done["changed"], done["filter"]) == (3, {"subscription_ids": [subscription.pk, same_url.pk]})


def test_abandon_by_filter(hub_wide: Program):
    chosen, other = delivery(event=EventFactory.create(event_type="order.paid")), delivery()
    body = {"event_type": "order.paid", "status": "Pending", "since": iso(chosen.created_at - timedelta(hours=1))}

    assert hub_wide.post("/deliveries/abandon", {**body, "dry_run": True}).json()["waiting"] == 1
    done = applied(hub_wide, hub_wide.post("/deliveries/abandon", {**body, **REASON}))

    assert done["changed"] == 1
    for saga, status in ((chosen, "DeadLettered"), (other, "Pending")):
        saga.refresh_from_db()
        assert saga.status == status


def test_a_filter_needs_a_condition_and_a_reason(hub_wide: Program):
    assert hub_wide.post("/deliveries/abandon", REASON).status_code == 422
    assert hub_wide.post("/deliveries/abandon", {"event_type": "order.paid"}).status_code == 422
    assert hub_wide.post("/deliveries/abandon", {"status": "Completed", **REASON}).status_code == 422
    assert hub_wide.post("/deliveries/abandon", {"error_code": "x", **REASON}).status_code == 422
    assert not DeliveryRequest.objects.exists()


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *(("send-now", status) for status in ("InProgress", "Completed", "DeadLettered")),
        *(("abandon", status) for status in ("Completed", "DeadLettered")),
        *(("send-again", status) for status in ("Pending", "InProgress", "PendingRetry")),
    ],
)
def test_a_status_that_does_not_allow_it_is_a_conflict(hub_wide: Program, kind: str, status: str):
    assert status in {word for pair in LEGAL for word in pair}
    saga = delivery(status)

    response = hub_wide.post(f"/deliveries/{saga.pk}/{kind}", REASON)

    assert response.status_code == 409
    assert f"delivery {saga.pk} is {status}" in response.json()["detail"]
    assert not DeliveryRequest.objects.exists()


@pytest.mark.parametrize("reason", ["", " ", "x" * 501, "a\u202eb"])
def test_a_bad_reason_is_refused(hub_wide: Program, reason: str):
    response = hub_wide.post(f"/deliveries/{delivery().pk}/abandon", {"reason": reason})

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "reason")


def test_unknown_rows_are_not_found(hub_wide: Program):
    for path in ("/deliveries/1/abandon", "/subscriptions/1/abandon"):
        assert hub_wide.post(path, REASON).status_code == 404
    assert hub_wide.get(NOBODY).status_code == 404


ALLOWED = {"send-now": DELIVERIES_SEND, "send-again": DELIVERIES_SEND, "abandon": DELIVERIES_ABANDON}


@pytest.mark.parametrize("kind", ALLOWED)
def test_each_operation_needs_its_scope(program: Callable[..., Program], kind: str):
    saga = delivery("Completed" if kind == "send-again" else "Pending")
    others = program("others", *(scope for scope in SCOPES if scope != ALLOWED[kind]))
    allowed = program("allowed", ALLOWED[kind], READ)

    paths = [f"/deliveries/{saga.pk}/{kind}"]
    if kind != "send-again":
        paths.append(f"/subscriptions/{saga.subscription_id}/{kind}")
    for path in paths:
        assert others.post(path, REASON).status_code == 403
        assert allowed.post(path, REASON).status_code == 202


def test_a_dead_letter_is_sent_again_only_with_the_scope_to_requeue(program: Callable[..., Program]):
    saga = delivery("DeadLettered")

    response = program("one", DELIVERIES_SEND, READ).post(f"/deliveries/{saga.pk}/send-again", REASON)

    assert (response.status_code, REQUEUE in response.json()["detail"]) == (403, True)
    assert program("two", DELIVERIES_SEND, REQUEUE).post(f"/deliveries/{saga.pk}/send-again", REASON).status_code == 202


def test_a_key_with_a_source_reaches_only_its_deliveries(program: Callable[..., Program], hub_wide: Program):
    shop = program("shop key", DELIVERIES_SEND, DELIVERIES_ABANDON, READ, source="shop")
    own, other = (delivery(event=EventFactory.create(source=source)) for source in ("shop", "till"))

    assert shop.post(f"/deliveries/{other.pk}/abandon", REASON).status_code == 404
    assert shop.post(f"/subscriptions/{own.subscription_id}/abandon", REASON).status_code == 403
    elsewhere = hub_wide.post(f"/deliveries/{other.pk}/send-now", REASON).json()["uid"]
    everything = hub_wide.post("/deliveries/abandon", {**REASON, "event_type": "none"}).json()["uid"]
    assert {shop.get(f"/requests/{uid}").status_code for uid in (elsewhere, everything)} == {404}
    done = applied(shop, shop.post("/deliveries/abandon", {**REASON, "status": "Pending"}))
    assert (done["changed"], done["filter"]) == (1, {"status": "Pending", "source": "shop"})
    other.refresh_from_db()
    assert other.status == "Pending"


def test_an_idempotency_key_makes_a_repetition_the_same_request(hub_wide: Program):
    saga = delivery()
    path = f"/deliveries/{saga.pk}/abandon"
    first = hub_wide.post(path, REASON, Idempotency_Key="k")
    done = applied(hub_wide, first)

    again = hub_wide.post(path, REASON, Idempotency_Key="k")

    assert (again.status_code, again.json()) == (202, done)
    assert hub_wide.post(path, {"reason": "another"}, Idempotency_Key="k").status_code == 409  # it has ended
    assert hub_wide.post(path, REASON, Idempotency_Key=" ").status_code == 422
    assert DeliveryRequest.objects.count() == 1
    assert Entry.objects.filter(action="saga.abandon").count() == 1


def test_the_audit_log_names_the_key(program: Callable[..., Program]):
    saga = delivery()
    program("billing", DELIVERIES_ABANDON, SUBSCRIPTIONS_WRITE).post(f"/deliveries/{saga.pk}/abandon", REASON)

    entry = Entry.objects.get(action="saga.abandon")
    assert (entry.actor, entry.via, entry.object_id) == ("API key billing", "api", saga.pk)
