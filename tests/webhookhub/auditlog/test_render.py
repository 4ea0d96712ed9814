"""Entries as text in the viewer's language."""

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
from deadletters.bulk_requeue import Part, requeue_matching
from deadletters.filters import DeadLetterFilter
from deadletters.requeue import requeue
from events.backfill import backfill
from subscriptions import secrets, services
from tests.factories import EventFactory, SubscriptionFactory
from tests.support import rows
from webhookhub.auditlog import actions, permissions, render
from webhookhub.auditlog.models import Entry
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db


def record_many_actions() -> None:
    one, two, three = (rows.dead_letter(text) for text in ("one", "two", "three"))
    requeue([one.pk], by=Operator(), reason="r")
    requeue([one.pk, two.pk], by=Operator(), reason="r")
    everything: Any = {"subscription_id": three.subscription_id, "event_type": "order.created", "source": "three"}
    everything |= {"since": clock.now() - timedelta(hours=1), "until": clock.now() + timedelta(hours=1)}
    requeue_matching(
        DeadLetterFilter(error_code="three", **everything), by=Operator(), reason="r", limit=5, part=Part(1, 2)
    )
    values: dict[str, Any] = {"event_type": "order.created", "callback_url": "https://127.0.0.1:8443/hook"}
    subscription = services.create(values)
    services.change(
        subscription,
        {"description": "d", "max_retry_limit": 2, "base_delay": timedelta(seconds=5), "headers": {"X-A": "b"}},
    )
    services.change(subscription, {"max_retry_limit": None, "base_delay": None, "retry_delays": (5, 300)})
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


def test_everything_recorded_has_a_label():
    record_many_actions()

    entries = list(Entry.objects.all())
    assert {entry.action for entry in entries} <= set(actions.ACTIONS)
    assert {entry.object_type for entry in entries} <= set(render.OBJECT_TYPES)
    recorded = {name for entry in entries for name in names(json.loads(entry.details))}
    assert len(recorded) > 25
    assert recorded <= set(render.LABELS)
    assert {action.partition(".")[0] for action in actions.ACTIONS} == set(render.OBJECT_TYPES)


def test_details_are_labelled():
    details = {
        "filter": {"error_code": "timeout"},
        "requeued": 2,
        "dead_letters": [4, 5],
        "is_staff": {"from": False, "to": True},
        "email": {"from": None, "to": "a@example.com"},
        "unknown": "x",
    }

    assert list(render.labelled(details)) == [
        ("filter", "error code: timeout"),
        ("requeued", "2"),
        ("dead letters", "4, 5"),
        ("may use the console", "no → yes"),
        ("e-mail address", "– → a@example.com"),
        ("unknown", "x"),
    ]


@pytest.mark.parametrize(
    ("object_type", "id", "details", "english", "chinese"),
    [
        ("deadletter", 5, {}, "dead letter 5", "死信 5"),
        ("deadletter", None, {"requeued": 12}, "12 dead letters", "12 筆死信"),
        ("deadletter", None, {"requeued": 9, "requeued_before": 3}, "12 dead letters", "12 筆死信"),
        (
            "deadletter",
            None,
            {"filter": {}, "part": 2, "parts": 3},
            "all dead letters (part 2 of 3)",
            "所有死信 (第 2 部分，共 3 部分)",
        ),
        ("deadletter", None, {"filter": {}, "part": 2}, "all dead letters (part 2)", "所有死信 (第 2 部分)"),
        (
            "deadletter",
            None,
            {"filter": {"error_code": "http_503", "since": "2026-03-01T12:00:00+00:00"}},
            "error code: http_503, since: 2026-03-01 12:00:00+00:00",
            "錯誤代碼: http_503, 起: 2026-03-01 12:00:00+00:00",
        ),
        ("subscription", 7, {}, "subscription 7", "訂閱 7"),
        ("subscription", None, {}, "all subscriptions", "所有訂閱"),
    ],
)
def test_an_object_without_a_name_is_described(
    object_type: str, id: int | None, details: dict[str, Any], english: str, chinese: str
):
    with timezone.override("UTC"):
        with translation.override("zh-hant"):
            assert render.object_text(object_type, id, "", details) == chinese
        with translation.override("en"):
            assert render.object_text(object_type, id, "", details) == english
            assert render.object_text(object_type, id, "a name", details) == "a name"


def test_details_are_shown_in_the_viewers_language_and_time_zone():
    details = {
        "custom_headers": {"from": False, "to": True},
        "permissions_added": ["deadletters.view_deadletter"],
        "groups_added": ["night shift"],
        "since": "2026-03-01T12:00:00+00:00",
        "description": "subscription",
    }

    with translation.override("zh-hant"), timezone.override(ZoneInfo("Asia/Taipei")):
        texts = [text for _, text in render.labelled(details)]

    assert texts == [
        "否 → 是",
        "死信 | 死信 | 可以檢視死信",
        "night shift",
        "2026-03-01 20:00:00+08:00",
        "subscription",
    ]


def test_every_permission_is_described():
    rows = Permission.objects.select_related("content_type")
    keys = [f"{row.content_type.app_label}.{row.codename}" for row in rows]
    assert len(keys) > 80
    with translation.override("en"):
        assert [permissions.describe(key) for key in keys] == [str(row) for row in rows]
    with translation.override("zh-hant"):
        texts = [permissions.describe(key) for key in keys]
    assert [text for text in texts if re.search("[A-Za-z]", text.replace("API", ""))] == []
    assert permissions.describe("gone.view_thing") == "gone.view_thing"


def test_an_entry_is_translated_and_escaped():
    client = Client(headers={"accept-language": "zh-TW,zh;q=0.9"})
    client.force_login(User.objects.create_superuser("root"))
    record(actions.TEST, SubscriptionFactory.create(), by="anna", details={"description": "<script>\u202e"})
    entry = Entry.objects.get(action=actions.TEST)

    try:
        page = client.get(rows.change("auditlog_entry", entry.pk)).content.decode()
        listing = client.get(rows.listing("auditlog_entry")).content.decode()
    finally:
        translation.deactivate()  # the request has set the thread's language

    for shown in (page, listing):
        assert "傳送測試事件" in shown
        assert "sent a test event" not in shown
    assert "<dt>說明</dt><dd>&lt;script&gt;\\u202e</dd>" in page
