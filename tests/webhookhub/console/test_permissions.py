"""Permissions of the pages; rows of the hub are read-only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.conftest import VIEW
from tests.factories import EventFactory, SagaFactory
from tests.support import rows
from webhookhub.console.format import MAX_CHARACTERS
from webhookhub.db import clock
from webhookhub.models import Process
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("R4-8.1d")
@pytest.mark.parametrize("name", rows.MACHINE_MADE)
def test_rows_of_the_hub_are_read_only_for_everyone(superuser: Client, name: str):
    pk = rows.one_of_each()[name]
    before = everything()

    assert superuser.get(rows.add(name)).status_code == 403
    assert superuser.post(rows.add(name), {"status": "Completed"}).status_code == 403
    assert superuser.post(rows.change(name, pk), {"status": "Completed"}).status_code == 403
    assert superuser.get(rows.delete(name, pk)).status_code == 403
    assert superuser.post(rows.delete(name, pk), {"post": "yes"}).status_code == 403
    assert everything() == before


def everything() -> list[list[Any]]:
    return [list(model._default_manager.values()) for model in (Event, Saga, Job, DeadLetter, Process)]


def test_the_delete_action_is_refused(superuser: Client):
    for name, pk in rows.one_of_each().items():
        action = {"action": "delete_selected", "_selected_action": pk, "post": "yes", "index": "0"}
        superuser.post(rows.listing(name), action)

    counts = [model.objects.count() for model in (Event, Saga, Job, DeadLetter, Process, Subscription)]
    assert counts == [1] * 6


def test_subscriptions_cannot_be_deleted(superuser: Client):
    pk = rows.one_of_each()["subscriptions_subscription"]

    assert superuser.get(rows.delete("subscriptions_subscription", pk)).status_code == 403
    assert superuser.post(rows.delete("subscriptions_subscription", pk), {"post": "yes"}).status_code == 403
    assert b"deletelink" not in superuser.get(rows.change("subscriptions_subscription", pk)).content


@pytest.mark.parametrize("name", rows.ALL)
def test_the_view_permission_of_a_table_opens_that_table_only(staff: Callable[..., Client], name: str):
    pks = rows.one_of_each()
    anna = staff("anna", f"view_{name.split('_')[1]}")

    for other, pk in pks.items():
        expected = 200 if other == name else 403
        assert anna.get(rows.listing(other)).status_code == expected
        assert anna.get(rows.change(other, pk)).status_code == expected


def test_a_viewer_cannot_edit_a_subscription(viewer: Client):
    pk = rows.one_of_each()["subscriptions_subscription"]

    assert viewer.post(rows.change("subscriptions_subscription", pk), {"active": ""}).status_code == 403
    assert viewer.get(rows.add("subscriptions_subscription")).status_code == 403
    assert Subscription.objects.get().active


def test_attempts_of_a_delivery_need_permission_to_view_attempts(staff: Callable[..., Client], viewer: Client):
    pk = rows.one_of_each("http_500")["sagas_saga"]

    assert b"the endpoint responded with 500" in viewer.get(rows.change("sagas_saga", pk)).content
    assert b'id="jobs-group"' in viewer.get(rows.change("sagas_saga", pk)).content
    assert b'id="jobs-group"' not in staff("anna", "view_saga").get(rows.change("sagas_saga", pk)).content


def long_dead_letter() -> DeadLetter:
    """A requeued dead letter with a payload that is too long for a page."""
    payload = json.dumps({"text": "x" * MAX_CHARACTERS})
    saga = SagaFactory.create(event=EventFactory(payload=payload), status="DeadLettered", attempt_count=3)
    long = DeadLetter.objects.create(
        saga=saga,
        event=saga.event,
        subscription=saga.subscription,
        final_error_code="timeout",
        failed_at=clock.now(),
        payload_snapshot=payload,
    )
    requeue([long.pk], by=Operator(), reason="r")
    return long


@pytest.mark.parametrize("also", [(), ("view_event",), ("view_saga",), ("view_subscription",), tuple(VIEW)])
def test_a_dead_letter_links_only_to_pages_the_user_may_view(staff: Callable[..., Client], also: tuple[str, ...]):
    letter = long_dead_letter()
    anna = staff("anna", *{"view_deadletter", *also})

    page = anna.get(rows.change("deadletters_deadletter", letter.pk)).content.decode()

    content = page.partition('id="content-main"')[2]
    links = set(re.findall(r'href="(/admin/(?:events|sagas|subscriptions|jobs)/[^"?]*\d/[^"]*)"', content))
    everything = {
        "view_event": {
            rows.change("events_event", letter.event_id),
            reverse("admin:event_payload", args=[letter.event_id]),
        },
        "view_saga": {
            rows.change("sagas_saga", letter.saga_id),
            rows.change("sagas_saga", rows.successor(letter).pk),
        },
        "view_subscription": {rows.change("subscriptions_subscription", letter.subscription_id)},
    }
    assert links == set().union(*(addresses for permission, addresses in everything.items() if permission in also))
    assert all(anna.get(address).status_code == 200 for address in links)
    for words in (f"delivery {letter.saga_id}", f"delivery {rows.successor(letter).pk}", "more characters"):
        assert words in content


def test_a_login_is_required(client: Client):
    for name, pk in rows.one_of_each().items():
        for address in (rows.listing(name), rows.change(name, pk), rows.add(name), rows.delete(name, pk)):
            response = client.get(address)
            assert response.status_code == 302, address
            assert response["Location"].startswith("/admin/login/")
