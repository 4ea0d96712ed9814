"""Every page opens and escapes stored text."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from tests.factories import EventFactory, JobFactory, SagaFactory
from tests.support import rows
from webhookhub.conf import hub
from webhookhub.console.format import MAX_CHARACTERS, block, json_block
from webhookhub.db import clock

pytestmark = pytest.mark.django_db


def collapsed(client: Client, address: str) -> str:
    """The page with collapsed white space."""
    return " ".join(page_text(client, address).split())


def page_text(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("name", rows.ALL)
def test_hostile_content_is_escaped(viewer: Client, name: str):
    pk = rows.one_of_each(rows.HOSTILE[:90])[name]

    for address in (rows.listing(name), rows.change(name, pk)):
        page = page_text(viewer, address)
        assert "<script>alert" not in page
        assert "</pre></td>‮" not in page
        assert escape("<script>alert(1)</script>'\"&</pre></td>") in page or name == "subscriptions_subscription"


def test_hostile_content_is_escaped_in_the_form_of_a_subscription(superuser: Client):
    pk = rows.one_of_each(rows.HOSTILE[:90])["subscriptions_subscription"]

    for address in (rows.listing("subscriptions_subscription"), rows.change("subscriptions_subscription", pk)):
        page = page_text(superuser, address)
        assert "<script>alert" not in page
        assert escape("<script>alert(1)</script>") in page


def test_a_payload_is_indented_and_direction_marks_are_visible(viewer: Client):
    event: Any = EventFactory(payload='{"order": {"name": "Zo\u00eb \u202e 🦊", "half": 1}}')

    page = page_text(viewer, rows.change("events_event", event.pk))

    assert escape('{\n  "order": {\n    "') in page
    assert "Zoë \\u202e 🦊" in page


def test_a_payload_with_a_lone_surrogate_is_shown():
    json_block('{"a": "\\ud800"}').encode()
    assert "\\ud800" in json_block('{"a": "\\ud800"}')


def test_a_payload_that_is_not_json_is_shown_as_stored():
    assert "&lt;not json" in json_block("<not json")
    assert "[[[[" in json_block("[" * 100_000)


def test_a_long_text_is_cut():
    shown = block("x" * (MAX_CHARACTERS + 7))

    assert len(shown) < MAX_CHARACTERS + 200
    assert "7 more characters" in shown


def test_a_delivery_links_to_its_event_subscription_attempts_and_dead_letter(viewer: Client):
    letter = rows.dead_letter("http_503")

    page = page_text(viewer, rows.change("sagas_saga", letter.saga_id))

    for address in (
        rows.change("events_event", letter.event_id),
        rows.change("subscriptions_subscription", letter.subscription_id),
        rows.change("deadletters_deadletter", letter.pk),
        rows.change("jobs_job", Job.objects.get().pk),
    ):
        assert f'href="{address}' in page
    assert "http_503: the endpoint responded with 503" in page


def test_a_delivery_names_its_other_generations(viewer: Client):
    letter = rows.dead_letter()
    saga: Any = SagaFactory(event=letter.event, subscription=letter.subscription, generation=1)

    assert f"delivery {saga.pk}</a> (generation 1, waiting)" in page_text(
        viewer, rows.change("sagas_saga", letter.saga_id)
    )
    assert f"delivery {letter.saga_id}</a> (generation 0, dead letter)" in page_text(
        viewer, rows.change("sagas_saga", saga.pk)
    )


def test_errors_are_explained(viewer: Client):
    rows.dead_letter("tls_error")

    for name in ("sagas_saga", "jobs_job", "deadletters_deadletter"):
        assert "certificate or TLS version was not accepted" in page_text(viewer, rows.listing(name))


def test_a_process_is_alive_or_silent_by_its_heartbeat(viewer: Client):
    rows.process("fresh")
    assert "alive" in page_text(viewer, rows.listing("webhookhub_process"))
    assert "silent" not in page_text(viewer, rows.listing("webhookhub_process"))

    old = rows.process("old", heartbeat_at=clock.now() - 3 * hub().heartbeat - timedelta(seconds=20))
    for address in (rows.change("webhookhub_process", old.pk), rows.listing("webhookhub_process")):
        assert re.search(r"silent for (3[5-9]|[4-9]\d) s", page_text(viewer, address))


def test_times_are_shown_to_the_second_in_utc(viewer: Client):
    event: Any = EventFactory()

    assert f"{event.created_at:%Y-%m-%d %H:%M:%S} UTC" in page_text(viewer, rows.listing("events_event"))


@pytest.mark.parametrize("name", rows.ALL)
def test_a_row_that_does_not_exist_redirects_to_the_index(superuser: Client, name: str):
    for pk in ("9" * 23, "-1", "abc", "%00", "1" * 5000):
        assert superuser.get(rows.change(name, 1).replace("/1/", f"/{pk}/")).status_code == 302, pk


def test_lists_filter_only_by_indexed_columns(superuser: Client):
    rows.one_of_each()

    for name, query in [
        ("events_event", "?payload__contains=x"),
        ("events_event", "?event_type__contains=x"),
        ("sagas_saga", "?final_error_code=x"),
        ("sagas_saga", "?event__payload__contains=x"),
        ("jobs_job", "?response_snippet__contains=x"),
        ("deadletters_deadletter", "?payload_snapshot__contains=x"),
        ("subscriptions_subscription", "?secret__startswith=x"),
        ("subscriptions_subscription", "?description__contains=x"),
    ]:
        assert superuser.get(rows.listing(name, query)).status_code == 400


def test_an_unknown_status_in_a_filter_is_a_bad_request(viewer: Client):
    SagaFactory()
    JobFactory()

    for value in ("nonsense", "%00", "", "Pending&status__exact=x"):
        assert viewer.get(rows.listing("sagas_saga", f"?status__exact={value}")).status_code == 400, value
    assert viewer.get(rows.listing("jobs_job", "?status__exact=nonsense")).status_code == 400


def test_the_status_filter_narrows_the_list(viewer: Client):
    SagaFactory(status="Pending")
    SagaFactory(status="InProgress")

    page = collapsed(viewer, rows.listing("sagas_saga", "?status__exact=InProgress"))

    assert "1 delivery" in page


def test_an_event_filter_without_a_number_is_a_bad_request(viewer: Client):
    SagaFactory()

    for value in ("x", "%00", "9" * 30, "-1", ""):
        assert viewer.get(rows.listing("sagas_saga", f"?event={value}")).status_code == 400, value


def test_an_event_links_to_its_deliveries(viewer: Client):
    first: Any = SagaFactory()
    SagaFactory()

    page = page_text(viewer, rows.change("events_event", first.event_id))
    address = rows.listing("sagas_saga", f"?event={first.event_id}")
    assert f'href="{address}"' in page
    assert "1 delivery" in collapsed(viewer, address)
    assert Saga.objects.count() == Event.objects.count() == 2
