"""Every action writes one entry, without secrets."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from api import keys
from api.scopes import SCOPES
from deadletters import views
from deadletters.bulk_requeue import requeue_matching
from deadletters.filters import DeadLetterFilter
from deadletters.requeue import InvalidRequeue, requeue
from events.backfill import NotRoutable, backfill
from events.models import Event
from sagas.models import Saga
from subscriptions import secrets, services
from subscriptions.models import Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import rows
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.auditlog import actions
from webhookhub.auditlog.context import because
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db

URL = "https://127.0.0.1:8443/hook?token=hidden-1"


@pytest.fixture
def anna() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("anna"))
    return client


def recorded(action: str) -> tuple[Entry, dict[str, Any]]:
    entry = Entry.objects.get(action=action)
    return entry, json.loads(entry.details)


def test_a_requeue_records_actor_object_and_reason(anna: Client):
    letter = rows.dead_letter()

    anna.post(reverse("admin:deadletters_deadletter_requeue"), {"ids": letter.pk, "reason": "fixed"})

    entry, _ = recorded(actions.REQUEUE)
    assert (entry.actor, entry.via, entry.object_type, entry.object_id) == ("anna", "console", "deadletter", letter.pk)
    assert entry.reason == "fixed"
    assert abs(entry.at - clock.now()) < timedelta(minutes=1)


def test_a_requeue_of_several_is_one_entry():
    ids = [rows.dead_letter(text).pk for text in ("one", "two")]

    requeue(ids, by=Operator(), reason="r")

    entry, details = recorded(actions.REQUEUE_MANY)
    assert (entry.via, entry.actor) == ("command", Operator().get_username())
    assert details == {"requeued": 2, "dead_letters": ids}


def test_a_requeue_counts_dead_letters_requeued_before():
    ids = [rows.dead_letter(text).pk for text in ("one", "two", "three")]
    requeue(ids[1:2], by=Operator(), reason="first")

    requeue(ids, by=Operator(), reason="r")

    assert recorded(actions.REQUEUE_MANY)[1] == {"requeued": 2, "requeued_before": 1, "dead_letters": [ids[0], ids[2]]}


def test_a_repeated_requeue_writes_no_entry(anna: Client):
    ids = [rows.dead_letter(text).pk for text in ("one", "two")]
    requeue(ids, by=Operator(), reason="r")

    for again in (ids, ids[:1]):
        requeue(again, by=Operator(), reason="r")
        form = {"ids": ",".join(map(str, again)), "reason": "fixed"}
        anna.post(reverse("admin:deadletters_deadletter_requeue"), form)
    requeue_matching(DeadLetterFilter(), by=Operator(), reason="r", limit=10)

    assert Entry.objects.filter(object_type="deadletter").count() == 1


def test_a_requeue_by_filter_records_the_filter():
    letters = [rows.dead_letter(text) for text in ("one", "two")]

    requeue_matching(DeadLetterFilter(error_code="one"), by=Operator(), reason="r", limit=10)

    entry, details = recorded(actions.REQUEUE_MATCHING)
    assert entry.object_name == ""
    assert details == {
        "filter": {"error_code": "one"},
        "limit": 10,
        "requeued": 1,
        "dead_letters": [letters[0].pk],
    }
    assert Entry.objects.count() == 1


def requeue_all(client: Client, **query: Any) -> list[str]:
    """Send each page of the console twice and return the pages."""
    page = client.get(reverse("admin:deadletters_deadletter_requeue_matching"), query).content.decode()
    pages: list[str] = []
    while signed := re.search(r'name="run" value="([^"]+)"', page):
        for _ in range(2):
            response = client.post(
                reverse("admin:deadletters_deadletter_requeue_matching"), {"run": signed[1], "reason": "fixed"}
            )
            page = response.content.decode()
        pages.append(page)
    return pages


def test_a_requeue_page_sent_twice_is_one_entry(anna: Client):
    ids = [rows.dead_letter(text).pk for text in ("one", "two", "three", "four")]

    requeue_all(anna, event_type="order.created", limit=3)

    entry, details = recorded(actions.REQUEUE_MATCHING)
    assert (entry.actor, entry.via, entry.reason) == ("anna", "console", "fixed")
    assert details == {
        "filter": {"event_type": "order.created"},
        "limit": 3,
        "requeued": 3,
        "dead_letters": ids[:3],
    }


def test_each_portion_of_a_requeue_records_its_part(anna: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "PORTION", 2)
    for number in range(5):
        rows.dead_letter(str(number))

    requeue_all(anna, limit=4)

    entries = list(Entry.objects.filter(action=actions.REQUEUE_MATCHING).order_by("id"))
    for part, entry in enumerate(entries, 1):
        details = json.loads(entry.details)
        assert (details["part"], details["parts"]) == (part, 2)
        assert (details["limit"], details["requeued"]) == (2, 2)


def test_a_refused_action_writes_no_entry():
    with pytest.raises(InvalidRequeue):
        requeue([1], by=Operator(), reason="r")
    subscription = SubscriptionFactory.create(active=False)
    with pytest.raises(NotRoutable):
        backfill(subscription.pk, clock.now())
    other = SubscriptionFactory.create()
    stale = Subscription.objects.get(pk=other.pk)
    secrets.rotate(other)
    with pytest.raises(secrets.RotationConflict):
        secrets.rotate(stale)

    assert [entry.action for entry in Entry.objects.all()] == [actions.ROTATE]


def test_a_backfill_without_missing_deliveries_writes_no_entry(hub_settings: Any):
    hub_settings(batch_size=1)
    subscription = SubscriptionFactory.create()
    since = "2026-01-31T00:00:00Z"
    for minutes in (3, 2, 1):
        EventFactory.create(created_at=clock.now() - timedelta(minutes=minutes))
    SagaFactory.create(event=Event.objects.earliest("created_at"), subscription=subscription)
    call_command("backfill", subscription.pk, since=since, until="2026-02-01T00:00:00Z")
    assert not Entry.objects.filter(action=actions.BACKFILL).exists()

    # The first batch has nothing to do.
    call_command("backfill", subscription.pk, since=since)
    assert Saga.objects.count() == 3
    call_command("backfill", subscription.pk, since=since)

    assert Entry.objects.filter(action=actions.BACKFILL).count() == 1


def test_the_actor_of_an_api_request_is_its_key(client: Client):
    subscription = SubscriptionFactory.create(callback_url=URL)
    text = keys.create("shop", SCOPES, by="tests")[1]
    address = f"/api/v1/subscriptions/{subscription.pk}"

    response = client.patch(
        address, {"active": False}, content_type="application/json", headers={"Authorization": f"Bearer {text}"}
    )

    assert response.status_code == 200
    entry, details = recorded(actions.PAUSE)
    assert (entry.actor, entry.via, entry.object_id) == ("API key shop", "api", subscription.pk)
    assert details == {"active": {"from": True, "to": False}}


def test_creating_and_revoking_a_key_is_recorded_without_its_secret():
    key, text = keys.create("shop", ["read"], by="anna")
    keys.revoke(key, by="bert")
    keys.revoke(key, by="carl")

    assert [(entry.action, entry.actor) for entry in Entry.objects.order_by("id")] == [
        (actions.CREATE_KEY, "anna"),
        (actions.REVOKE_KEY, "bert"),
    ]
    secret = text.removeprefix(f"{keys.PREFIX}_{key.key_id}_")
    assert secret not in "".join(Entry.objects.values_list("details", flat=True))


def test_an_edit_records_old_and_new_values_without_secrets():
    subscription = services.create(
        {"event_type": "order.created", "callback_url": URL, "headers": {"X-Key": "hidden-2"}}
    )
    with because("moved"):
        services.change(
            subscription, {"callback_url": URL.replace("hidden-1", "hidden-3"), "headers": {"X-Key": "hidden-4"}}
        )
    services.change(subscription, {"active": False})
    services.change(subscription, {"active": True})
    services.change(subscription, {"active": True})

    recorded = list(Entry.objects.order_by("id"))
    expected = [actions.SUBSCRIBE, actions.EDIT, actions.PAUSE, actions.RESUME]
    assert [entry.action for entry in recorded] == expected
    assert recorded[1].reason == "moved"
    assert json.loads(recorded[1].details).keys() == {"callback_url", "custom_headers"}
    for entry in recorded:
        assert "hidden" not in entry.details + entry.object_name
        assert entry.object_name == "order.created → https://127.0.0.1:8443/hook?…"


def test_an_edit_in_the_console_is_one_entry(anna: Client):
    subscription = SubscriptionFactory.create(callback_url=URL)
    form = {"event_type": "order.created", "callback_url": URL, "active": "on", "description": "new", "base_delay": ""}

    form |= rows.seen(anna, subscription.pk)
    anna.post(rows.change("subscriptions_subscription", subscription.pk), form)

    entry, details = recorded(actions.EDIT)
    assert (entry.actor, details) == ("anna", {"description": {"from": "", "to": "new"}})
    assert not Entry.objects.filter(action=actions.SUBSCRIBE).exists()


def test_creating_a_subscription_and_viewing_its_secret_is_recorded(anna: Client):
    form = {"event_type": "order.created", "callback_url": URL, "active": "on", "signing_scheme": "v1"}

    assert "whsec_" in anna.post(rows.add("subscriptions_subscription"), form).content.decode()

    assert recorded(actions.SUBSCRIBE)[0].actor == recorded(actions.REVEAL)[0].actor == "anna"
    assert "whsec_" not in "".join(Entry.objects.values_list("details", flat=True))


def test_verify_test_and_rotate_record_their_results(anna: Client, endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), verified=False)
    for verb in ("verify", "test", "rotate"):
        anna.post(reverse(f"admin:subscriptions_subscription_{verb}", args=[subscription.pk]), {"reason": verb})

    assert recorded(actions.VERIFY)[1] == {"verified": True, "result": "challenge_returned"}
    assert recorded(actions.TEST)[0].object_id == subscription.pk
    assert recorded(actions.ROTATE)[1] == {"scheme": "v1", "forced": False}
    reasons = [recorded(action)[0].reason for action in (actions.VERIFY, actions.TEST, actions.ROTATE)]
    assert reasons == ["verify", "test", "rotate"]
    assert {entry.actor for entry in Entry.objects.filter(object_type="subscription")} == {"anna"}


def test_a_test_event_that_cannot_be_signed_writes_no_entry(anna: Client, endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    Subscription.objects.update(secret="not decryptable")

    anna.post(reverse("admin:subscriptions_subscription_test", args=[subscription.pk]))

    assert not endpoint.received
    assert not Entry.objects.filter(action=actions.TEST).exists()


def test_the_actor_of_a_command_is_the_operator():
    subscription = SubscriptionFactory.create()
    call_command("rotate_secret", subscription.pk)
    call_command("reencrypt_secrets")
    EventFactory.create(event_type=subscription.event_type, created_at=clock.now() - timedelta(minutes=1))
    call_command("backfill", subscription.pk, since="2026-01-31T00:00:00Z")

    for action in (actions.ROTATE, actions.REENCRYPT, actions.BACKFILL):
        entry, _ = recorded(action)
        assert (entry.actor, entry.via) == (Operator().get_username(), "command")
    assert recorded(actions.BACKFILL)[0].object_id == subscription.pk
