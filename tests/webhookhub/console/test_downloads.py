"""Downloads of payloads and request bodies."""

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
from webhookhub.console.format import MAX_CHARACTERS

pytestmark = pytest.mark.django_db

LONG = {"text": "x" * MAX_CHARACTERS, "hostile": "<script>alert(1)</script>\u202e\x1b"}


@pytest.fixture
def long(db: None) -> Any:
    return SagaFactory.create(event=EventFactory(payload=json.dumps(LONG, ensure_ascii=False)))


def test_a_long_payload_can_be_downloaded_as_plain_text(viewer: Client, long: Any):
    response = viewer.get(reverse("admin:event_payload", args=[long.event_id]))

    text = response.content.decode()
    assert json.loads(text) == LONG
    assert "\\u202e" in text
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response["Content-Security-Policy"]


def test_the_downloaded_body_is_the_sent_body(viewer: Client, long: Any):
    response = viewer.get(reverse("admin:event_body", args=[long.event_id]))

    assert response.content.decode() == request_preview.body(long.event)
    assert response["Content-Disposition"] == 'attachment; filename="body.json"'


def test_a_cut_payload_links_to_the_download(viewer: Client, long: Any):
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
def test_downloads_need_permission_to_view_events(staff: Callable[..., Client], client: Client, long: Any, name: str):
    address = reverse(f"admin:{name}", args=[long.event_id])

    assert staff("eve", "view_saga").get(address).status_code == 403
    assert client.get(address).status_code == 302
    assert staff("anna", "view_event").get(reverse(f"admin:{name}", args=[4711_000])).status_code == 404
