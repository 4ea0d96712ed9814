"""What is too long for a page can be had whole, by those who may see it, and as nothing but text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import EventFactory, SagaFactory
from tests.support import rows
from webhookhub.console import request_preview
from webhookhub.console.format import MOST_CHARACTERS

pytestmark = pytest.mark.django_db

LONG = {"text": "x" * MOST_CHARACTERS, "hostile": "<script>alert(1)</script>\u202e\x1b"}


@pytest.fixture
def long(db: None) -> Any:
    return SagaFactory.create(event=EventFactory(payload=json.dumps(LONG, ensure_ascii=False)))


def test_all_of_a_long_payload_can_be_had_as_inert_text(viewer: Client, long: Any):
    answer = viewer.get(reverse("admin:event_payload", args=[long.event_id]))

    text = answer.content.decode()
    assert json.loads(text) == LONG
    assert "\\u202e" in text
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]


def test_the_body_is_what_is_sent(viewer: Client, long: Any):
    answer = viewer.get(reverse("admin:event_body", args=[long.event_id]))

    assert answer.content.decode() == request_preview.body(long.event)
    assert answer["Content-Disposition"] == 'attachment; filename="body.json"'


def test_the_pages_lead_to_the_whole_where_they_show_a_part(viewer: Client, long: Any):
    short: Any = SagaFactory.create()
    for name, pk in (("sagas_saga", long.pk), ("events_event", long.event_id)):
        page = viewer.get(rows.change(name, pk)).content.decode()
        assert f'data-whole="{reverse("admin:event_payload", args=[long.event_id])}"' in page
        assert "Only the beginning is shown." in page
        assert "more characters" in page
    assert (
        reverse("admin:event_body", args=[long.event_id])
        in viewer.get(rows.change("sagas_saga", long.pk)).content.decode()
    )
    for name, pk in (("sagas_saga", short.pk), ("events_event", short.event_id)):
        assert "data-whole" not in viewer.get(rows.change(name, pk)).content.decode()


@pytest.mark.parametrize("name", ["event_payload", "event_body"])
def test_only_those_who_may_see_events_get_it(staff: Callable[..., Client], client: Client, long: Any, name: str):
    address = reverse(f"admin:{name}", args=[long.event_id])

    assert staff("eve", "view_saga").get(address).status_code == 403
    assert client.get(address).status_code == 302
    assert staff("anna", "view_event").get(reverse(f"admin:{name}", args=[4711_000])).status_code == 404
