"""Every action leaves one entry: who, by which way, what, to which object, and why; and never a secret."""

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
from deadletters import run
from deadletters.bulk_requeue import requeue_matching
from deadletters.filters import Choice
from deadletters.models import Requeue
from deadletters.requeue import CUT_SHORT_AFTER, InvalidRequeue, requeue
from events.backfill import NotRoutable, backfill
from events.models import Event
from sagas.models import Saga
from subscriptions import secrets, services
from subscriptions.models import Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import rows
from tools.demo.receiver import Receiver
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


def told(action: str) -> tuple[Entry, dict[str, Any]]:
    entry = Entry.objects.get(action=action)
    return entry, json.loads(entry.details)


def test_a_requeue_tells_who_what_and_why(anna: Client):
    letter = rows.dead_letter()

    anna.post(reverse("admin:deadletters_deadletter_requeue"), {"ids": letter.pk, "reason": "mended"})

    entry, _ = told(actions.REQUEUE)
    assert (entry.actor, entry.via, entry.object_type, entry.object_id) == ("anna", "console", "deadletter", letter.pk)
    assert entry.reason == "mended"
    assert abs(entry.at - clock.now()) < timedelta(minutes=1)


def test_a_requeue_of_several_is_one_entry_that_names_them():
    ids = [rows.dead_letter(text).pk for text in ("one", "two")]

    requeue(ids, by=Operator(), reason="r")

    entry, details = told(actions.REQUEUE_MANY)
    assert (entry.via, entry.actor) == ("command", Operator().get_username())
    assert details == {"requeued": 2, "dead_letters": ids}


def test_of_several_of_which_some_were_requeued_before_it_tells_what_was_done():
    ids = [rows.dead_letter(text).pk for text in ("one", "two", "three")]
    requeue(ids[1:2], by=Operator(), reason="first")

    requeue(ids, by=Operator(), reason="r")

    assert told(actions.REQUEUE_MANY)[1] == {"requeued": 2, "requeued_before": 1, "dead_letters": [ids[0], ids[2]]}


def test_a_requeue_that_finds_everything_done_before_tells_nothing(anna: Client):
    ids = [rows.dead_letter(text).pk for text in ("one", "two")]
    requeue(ids, by=Operator(), reason="r")

    for again in (ids, ids[:1]):
        requeue(again, by=Operator(), reason="r")
        given = {"ids": ",".join(map(str, again)), "reason": "mended"}
        anna.post(reverse("admin:deadletters_deadletter_requeue"), given)
    requeue_matching(Choice(), by=Operator(), reason="r", limit=10)

    assert Entry.objects.filter(object_type="deadletter").count() == 1


def test_whoever_completes_a_requeue_that_was_cut_short_is_told_to_have_done_that():
    letter = rows.dead_letter()
    long_ago = clock.now() - CUT_SHORT_AFTER - timedelta(seconds=1)
    given = {"requested_by": "bert", "requested_at": long_ago, "reason": "r", "request_token": "t"}
    Requeue.objects.create(dead_letter=letter, **given)

    [done] = requeue([letter.pk], by=Operator(), reason="again")

    assert (done.created, done.completed, done.requested_by) == (False, True, "bert")
    entry, details = told(actions.REQUEUE)
    assert (entry.actor, entry.reason, details) == (Operator().get_username(), "again", {"completed": 1})
    [again] = requeue([letter.pk], by=Operator(), reason="once more")
    assert not again.is_delivered_now
    assert Entry.objects.filter(object_type="deadletter").count() == 1


def test_a_requeue_by_filter_is_one_entry_that_says_the_filter():
    letters = [rows.dead_letter(text) for text in ("one", "two")]

    requeue_matching(Choice(error_code="one"), by=Operator(), reason="r", limit=10)

    entry, details = told(actions.REQUEUE_MATCHING)
    assert entry.object_name == "error one"
    assert details == {
        "choice": {"error_code": "one"},
        "limit": 10,
        "requeued": 1,
        "dead_letters": [letters[0].pk],
    }
    assert Entry.objects.count() == 1


def requeue_all(client: Client, **query: Any) -> list[str]:
    """Through the pages of the console, each of which is sent twice; the pages."""
    page = client.get(reverse("admin:deadletters_deadletter_requeue_matching"), query).content.decode()
    pages: list[str] = []
    given = {"reason": "mended"}
    while sealed := re.search(r'name="run" value="([^"]+)"', page):
        for _ in range(2):
            answer = client.post(reverse("admin:deadletters_deadletter_requeue_matching"), {"run": sealed[1], **given})
            page = answer.content.decode()
        pages.append(page)
    return pages


def test_all_that_match_in_the_console_are_one_entry_however_often_the_page_is_sent(anna: Client):
    ids = [rows.dead_letter(text).pk for text in ("one", "two", "three", "four")]

    requeue_all(anna, event_type="order.created", limit=3)

    entry, details = told(actions.REQUEUE_MATCHING)
    assert (entry.actor, entry.via, entry.object_name, entry.reason) == (
        "anna",
        "console",
        "event type order.created",
        "mended",
    )
    assert details == {
        "choice": {"event_type": "order.created"},
        "limit": 3,
        "chosen": 3,
        "requeued": 3,
        "dead_letters": ids[:3],
    }


def test_so_many_that_it_takes_several_portions_say_which_part_of_which_they_are(
    anna: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "PORTION", 2)
    for number in range(5):
        rows.dead_letter(str(number))

    requeue_all(anna, limit=4)

    entries = list(Entry.objects.filter(action=actions.REQUEUE_MATCHING).order_by("id"))
    assert [entry.object_name for entry in entries] == [f"all dead letters (part {part} of 2)" for part in (1, 2)]
    for entry in entries:
        details = json.loads(entry.details)
        assert (details["limit"], details["chosen"], details["requeued"]) == (4, 4, 2)


def test_what_is_refused_is_not_told():
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


def test_a_backfill_that_finds_nothing_to_do_is_not_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("events.management.commands.backfill.MAX_EVENTS", 1)
    subscription = SubscriptionFactory.create()
    since = "2026-01-31T00:00:00Z"
    for minutes in (3, 2, 1):
        EventFactory.create(created_at=clock.now() - timedelta(minutes=minutes))
    SagaFactory.create(event=Event.objects.earliest("created_at"), subscription=subscription)
    call_command("backfill", subscription.pk, since=since, until="2026-02-01T00:00:00Z")
    assert not Entry.objects.filter(action=actions.BACKFILL).exists()

    # The first portion has nothing to do, the second and the third have.
    call_command("backfill", subscription.pk, since=since)
    assert Saga.objects.count() == 3
    call_command("backfill", subscription.pk, since=since)

    assert Entry.objects.filter(action=actions.BACKFILL).count() == 1


def test_a_program_is_named_by_its_key(client: Client):
    subscription = SubscriptionFactory.create(callback_url=URL)
    text = keys.create("shop", SCOPES, by="tests")[1]
    address = f"/api/v1/subscriptions/{subscription.pk}"

    answer = client.patch(
        address, {"active": False}, content_type="application/json", headers={"Authorization": f"Bearer {text}"}
    )

    assert answer.status_code == 200
    entry, details = told(actions.PAUSE)
    assert (entry.actor, entry.via, entry.object_id) == ("API key shop", "api", subscription.pk)
    assert details == {"active": {"from": True, "to": False}}


def test_a_key_that_is_made_and_revoked_is_told_without_its_secret():
    key, text = keys.create("shop", ["read"], by="anna")
    keys.revoke(key, by="bert")
    keys.revoke(key, by="carl")

    assert [(entry.action, entry.actor) for entry in Entry.objects.order_by("id")] == [
        (actions.CREATE_KEY, "anna"),
        (actions.REVOKE_KEY, "bert"),
    ]
    secret = text.removeprefix(f"{keys.PREFIX}_{key.key_id}_")
    assert secret not in "".join(Entry.objects.values_list("details", flat=True))


def test_an_edit_tells_what_was_and_what_is_but_no_secret():
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

    told = list(Entry.objects.order_by("id"))
    wanted = [actions.SUBSCRIBE, actions.EDIT, actions.PAUSE, actions.RESUME]
    assert [entry.action for entry in told] == wanted
    assert told[1].reason == "moved"
    assert json.loads(told[1].details).keys() == {"callback_url", "custom_headers"}
    for entry in told:
        assert "hidden" not in entry.details + entry.object_name
        assert entry.object_name == "order.created → https://127.0.0.1:8443/hook?…"


def test_an_edit_in_the_console_is_told_once(anna: Client):
    subscription = SubscriptionFactory.create(callback_url=URL)
    form = {"event_type": "order.created", "callback_url": URL, "active": "on", "description": "new", "base_delay": ""}

    form |= rows.seen(anna, subscription.pk)
    anna.post(rows.change("subscriptions_subscription", subscription.pk), form)

    entry, details = told(actions.EDIT)
    assert (entry.actor, details) == ("anna", {"description": {"from": "", "to": "new"}})
    assert not Entry.objects.filter(action=actions.SUBSCRIBE).exists()


def test_a_new_subscription_and_the_sight_of_its_secret_are_told(anna: Client):
    form = {"event_type": "order.created", "callback_url": URL, "active": "on", "signing_scheme": "v1"}

    assert "whsec_" in anna.post(rows.add("subscriptions_subscription"), form).content.decode()

    assert told(actions.SUBSCRIBE)[0].actor == told(actions.REVEAL)[0].actor == "anna"
    assert "whsec_" not in "".join(Entry.objects.values_list("details", flat=True))


def test_verifying_testing_and_rotating_are_told_with_what_came_of_it(anna: Client, receiver: Receiver):
    subscription = SubscriptionFactory.create(callback_url=receiver.url(), verified=False)
    for verb in ("verify", "test", "rotate"):
        anna.post(reverse(f"admin:subscriptions_subscription_{verb}", args=[subscription.pk]), {"reason": verb})

    assert told(actions.VERIFY)[1] == {"verified": True, "answer": "the endpoint sent the challenge back"}
    assert told(actions.TEST)[0].object_id == subscription.pk
    assert told(actions.ROTATE)[1] == {"scheme": "v1", "forced": False}
    whys = [told(action)[0].reason for action in (actions.VERIFY, actions.TEST, actions.ROTATE)]
    assert whys == ["verify", "test", "rotate"]
    assert {entry.actor for entry in Entry.objects.filter(object_type="subscription")} == {"anna"}


def test_a_test_event_that_could_not_be_made_is_not_told_as_sent(anna: Client, receiver: Receiver):
    subscription = SubscriptionFactory.create(callback_url=receiver.url())
    Subscription.objects.update(secret="not to be opened")

    anna.post(reverse("admin:subscriptions_subscription_test", args=[subscription.pk]))

    assert not receiver.received
    assert not Entry.objects.filter(action=actions.TEST).exists()


def test_commands_are_told_as_the_operators():
    subscription = SubscriptionFactory.create()
    call_command("rotate_secret", subscription.pk)
    call_command("rotate_secrets")
    EventFactory.create(event_type=subscription.event_type, created_at=clock.now() - timedelta(minutes=1))
    call_command("backfill", subscription.pk, since="2026-01-31T00:00:00Z")

    for action in (actions.ROTATE, actions.REENCRYPT, actions.BACKFILL):
        entry, _ = told(action)
        assert (entry.actor, entry.via) == (Operator().get_username(), "command")
    assert told(actions.BACKFILL)[0].object_id == subscription.pk
