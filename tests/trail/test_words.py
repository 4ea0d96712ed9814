"""The trail in words: every action, way, kind and detail has one, in the viewer's language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils import translation

from api import keys
from deadletters.bulk import requeue_matching
from deadletters.choice import Choice
from deadletters.requeue import requeue
from events.backfill import backfill
from subscriptions import editing, secrets
from tests.admin import rows
from tests.factories import EventFactory, SubscriptionFactory
from trail import actions, words
from trail.models import Entry
from trail.record import record
from webhookhub.console.terminal import Operator
from webhookhub.db import clock

pytestmark = pytest.mark.django_db


def do_many_things() -> None:
    one, two, three = (rows.dead_letter(text) for text in ("one", "two", "three"))
    requeue([one.pk], by=Operator(), reason="r")
    requeue([one.pk, two.pk], by=Operator(), reason="r")
    everything: Any = {"subscription_id": three.subscription_id, "event_type": "order.created", "source": "three"}
    everything |= {"since": clock.now() - timedelta(hours=1), "until": clock.now() + timedelta(hours=1)}
    requeue_matching(Choice(error_code="three", **everything), by=Operator(), reason="r", limit=5, part=1)
    given: dict[str, Any] = {"event_type": "order.created", "callback_url": "https://127.0.0.1:8443/hook"}
    subscription = editing.create(given)
    editing.change(
        subscription,
        {"description": "d", "max_retry_limit": 2, "base_delay": timedelta(seconds=5), "headers": {"X-A": "b"}},
    )
    secrets.rotate(subscription)
    EventFactory.create(created_at=clock.now() - timedelta(minutes=1))
    backfill(SubscriptionFactory.create().pk, clock.now() - timedelta(hours=1))
    keys.revoke(keys.create("shop", ["read"], by="anna")[0], by="anna")
    user, group = User.objects.create_user("bert"), Group.objects.create(name="night shift")
    user.groups.add(group)
    group.permissions.add(Permission.objects.get(codename="view_event"))
    group.delete()
    user.first_name, user.is_staff = "B", True
    user.save()
    user.delete()


def names(details: Any) -> Iterator[str]:
    if isinstance(details, dict) and details.keys() != {"from", "to"}:
        for name, value in details.items():
            yield name
            yield from names(value)


def test_whatever_is_told_has_words():
    do_many_things()

    entries = list(Entry.objects.all())
    assert {entry.action for entry in entries} <= set(actions.ACTIONS)
    assert {entry.object_type for entry in entries} <= set(words.KINDS)
    told = {name for entry in entries for name in names(json.loads(entry.details))}
    assert len(told) > 25
    assert told <= set(words.NAMES)
    assert {action.partition(".")[0] for action in actions.ACTIONS} == set(words.KINDS)
    assert set(words.VIA) == set(actions.VIAS)


def test_details_read_as_sentences_do():
    told = {
        "choice": {"error_code": "timeout"},
        "requeued": 2,
        "dead_letters": [4, 5],
        "is_staff": {"from": False, "to": True},
        "email": {"from": None, "to": "a@example.com"},
        "unheard_of": "x",
    }

    assert list(words.facts(told)) == [
        ("filter", "error code: timeout"),
        ("requeued", "2"),
        ("dead letters", "4, 5"),
        ("may use the console", "no → yes"),
        ("e-mail address", "– → a@example.com"),
        ("unheard_of", "x"),
    ]


def test_an_entry_is_shown_in_the_viewers_language_and_what_strangers_wrote_as_text():
    client = Client(headers={"accept-language": "zh-TW,zh;q=0.9"})
    client.force_login(User.objects.create_superuser("root"))
    record(actions.TEST, SubscriptionFactory.create(), by="anna", details={"description": "<script>\u202e"})
    entry = Entry.objects.get(action=actions.TEST)

    try:
        page = client.get(rows.change("trail_entry", entry.pk)).content.decode()
        listing = client.get(rows.listing("trail_entry")).content.decode()
    finally:
        translation.deactivate()  # a request leaves its language to the thread

    for shown in (page, listing):
        assert "傳送了測試事件" in shown
        assert "sent a test event" not in shown
    assert "<dt>說明</dt><dd>&lt;script&gt;\\u202e</dd>" in page
