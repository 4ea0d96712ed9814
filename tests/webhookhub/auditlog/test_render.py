"""The trail in words: every action, way, kind and detail has one, in the viewer's language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils import timezone, translation

from api import keys
from deadletters.bulk_requeue import requeue_matching
from deadletters.filters import DeadLetterFilter
from deadletters.requeue import requeue
from events.backfill import backfill
from subscriptions import secrets, services
from tests.factories import EventFactory, SubscriptionFactory
from tests.support import rows
from webhookhub.auditlog import actions, objects, permissions, render
from webhookhub.auditlog.models import Entry
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db


def do_many_things() -> None:
    one, two, three = (rows.dead_letter(text) for text in ("one", "two", "three"))
    requeue([one.pk], by=Operator(), reason="r")
    requeue([one.pk, two.pk], by=Operator(), reason="r")
    everything: Any = {"subscription_id": three.subscription_id, "event_type": "order.created", "source": "three"}
    everything |= {"since": clock.now() - timedelta(hours=1), "until": clock.now() + timedelta(hours=1)}
    requeue_matching(
        DeadLetterFilter(error_code="three", **everything), by=Operator(), reason="r", limit=5, part="part 1"
    )
    given: dict[str, Any] = {"event_type": "order.created", "callback_url": "https://127.0.0.1:8443/hook"}
    subscription = services.create(given)
    services.change(
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
    assert {entry.object_type for entry in entries} <= set(render.KINDS)
    told = {name for entry in entries for name in names(json.loads(entry.details))}
    assert len(told) > 25
    assert told <= set(render.NAMES)
    assert {action.partition(".")[0] for action in actions.ACTIONS} == set(render.KINDS)
    assert set(render.VIA) == set(actions.VIAS)


def test_details_read_as_sentences_do():
    told = {
        "filter": {"error_code": "timeout"},
        "requeued": 2,
        "dead_letters": [4, 5],
        "is_staff": {"from": False, "to": True},
        "email": {"from": None, "to": "a@example.com"},
        "unheard_of": "x",
    }

    assert list(render.facts(told)) == [
        ("filter", "error code: timeout"),
        ("requeued", "2"),
        ("dead letters", "4, 5"),
        ("may use the console", "no → yes"),
        ("e-mail address", "– → a@example.com"),
        ("unheard_of", "x"),
    ]


@pytest.mark.parametrize(
    ("kind", "id", "name", "chinese"),
    [
        ("deadletter", 5, "dead letter 5", "死信 5"),
        ("deadletter", None, "12 dead letters", "12 筆死信"),
        ("deadletter", None, "all dead letters (part 2 of 3)", "所有死信 (第 2 部分，共 3 部分)"),
        ("deadletter", None, "all dead letters (part 2)", "所有死信 (第 2 部分)"),
        (
            "deadletter",
            None,
            "error http_503, event type order.paid, since 2026-03-01 12:00 (UTC)",
            "錯誤 http_503, 事件類型 order.paid, 起 2026-03-01 12:00 (UTC)",
        ),
        ("subscription", 7, "subscription 7", "訂閱 7"),
        ("subscription", None, "all subscriptions", "所有訂閱"),
        ("subscription", 7, "order.paid → https://a.example/all subscriptions", ""),
        ("apikey", 7, "dead letter 5", ""),
        ("group", 7, "all subscriptions", ""),
    ],
)
def test_what_an_entry_is_about_is_said_in_the_viewers_language(kind: str, id: int | None, name: str, chinese: str):
    with translation.override("zh-hant"):
        assert objects.thing(kind, id, name) == (chinese or name)
    with translation.override("en"):
        assert objects.thing(kind, id, name) == name


def test_details_of_the_hubs_own_are_in_the_viewers_language_and_zone():
    told = {
        "part": "part 1 of 2",
        "answer": "the endpoint answered 204 but did not send the challenge back",
        "custom_headers": {"from": "none", "to": "set"},
        "of": "permission",
        "added": ["Dead letters | dead letter | Can view dead letter", "night shift"],
        "since": "2026-03-01T12:00:00+00:00",
        "description": "set",
    }

    with translation.override("zh-hant"), timezone.override(ZoneInfo("Asia/Taipei")):
        said = [text for _, text in render.facts(told)]

    assert said == [
        "第 1 部分，共 2 部分",
        "端點回應 204，但沒有送回驗證碼",
        "無 → 已設定",
        "權限",
        "死信 | 死信 | 可以檢視死信, night shift",
        "2026-03-01 20:00 (Asia/Taipei)",
        "set",
    ]


def test_every_permission_has_words():
    every = [permissions.told(each) for each in Permission.objects.select_related("content_type")]
    assert len(every) > 80
    with translation.override("en"):
        assert [permissions.in_words(each) for each in every] == every
    with translation.override("zh-hant"):
        said = [permissions.in_words(each) for each in every]
    assert [each for each in said if re.search("[A-Za-z]", each.replace("API", ""))] == []


def test_the_trail_names_permissions_in_one_language_whoever_gives_them():
    group = Group.objects.create(name="night shift")
    with translation.override("zh-hant"):
        group.permissions.add(Permission.objects.get(codename="view_event"))

    entry = Entry.objects.get(action=actions.CHANGE_GROUP_RIGHTS)
    assert json.loads(entry.details)["added"] == ["Events | event | Can view event"]


def test_an_entry_is_shown_in_the_viewers_language_and_what_strangers_wrote_as_text():
    client = Client(headers={"accept-language": "zh-TW,zh;q=0.9"})
    client.force_login(User.objects.create_superuser("root"))
    record(actions.TEST, SubscriptionFactory.create(), by="anna", details={"description": "<script>\u202e"})
    entry = Entry.objects.get(action=actions.TEST)

    try:
        page = client.get(rows.change("auditlog_entry", entry.pk)).content.decode()
        listing = client.get(rows.listing("auditlog_entry")).content.decode()
    finally:
        translation.deactivate()  # a request leaves its language to the thread

    for shown in (page, listing):
        assert "傳送了測試事件" in shown
        assert "sent a test event" not in shown
    assert "<dt>說明</dt><dd>&lt;script&gt;\\u202e</dd>" in page
