"""The search of the lists: whole identifiers, by an index."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from deadletters.models import DeadLetter
from events import lookup
from events.models import Event
from jobs.models import Job
from tests.factories import EventFactory
from tests.support import rows
from webhookhub.db import vendors

pytestmark = pytest.mark.django_db

GARBAGE = [
    "\0",
    "a\0b",
    "'; DROP TABLE events; --",
    "9" * 19,
    "9" * 30,
    "9" * 5000,
    "-1",
    "１２",
    "²",
    "🦊",
    "%",
    "x" * 5000,
    "{}",
    "urn:uuid:",
    "00000000-0000-0000-0000-00000000000g",
    "\ud7ff\uffff",
    '"open',
]


def search_for(client: Client, name: str, term: str) -> list[int]:
    response = client.get(rows.listing(name), {"q": term})
    assert response.status_code == 200
    return sorted(row.pk for row in response.context["cl"].result_list)


@pytest.mark.parametrize("name", [name for name in rows.ALL if name != "webhookhub_process"])
def test_garbage_finds_nothing(viewer: Client, name: str):
    """Some of GARBAGE; the search over all apps and the lookup that the lists share get all of it."""
    rows.one_of_each()

    for term in ("'; DROP TABLE events; --", "9" * 30, "x" * 5000, "🦊", '"open'):
        assert search_for(viewer, name, term) == [], term
    assert "Null characters are not allowed." in viewer.get(rows.listing(name), {"q": "a\0b"}).content.decode()


def test_garbage_is_no_event_identifier():
    rows.one_of_each()

    for term in GARBAGE:
        if "\0" not in term:  # the search box refuses it
            assert lookup.find(term) == set(), term


@pytest.mark.parametrize("name", ["events_event", "sagas_saga", "jobs_job", "deadletters_deadletter"])
def test_rows_are_found_by_each_identifier_of_their_event(viewer: Client, name: str):
    rows.one_of_each("other")
    wanted = rows.one_of_each("wanted")
    event: Any = Event.objects.get(pk=wanted["events_event"])

    for term in (str(event.uid), event.uid.hex, event.external_id, event.correlation_id, f"  {event.uid} "):
        assert search_for(viewer, name, term) == [wanted[name]]
    assert search_for(viewer, name, "WANTED") == []
    assert search_for(viewer, name, "wante") == []


def test_a_number_finds_the_row_and_the_rows_of_that_delivery(viewer: Client):
    rows.dead_letter("one")
    letter = rows.dead_letter("two")
    job = Job.objects.get(saga=letter.saga_id)

    assert search_for(viewer, "sagas_saga", str(letter.saga_id)) == [letter.saga_id]
    assert search_for(viewer, "events_event", str(letter.event_id)) == [letter.event_id]
    assert job.pk in search_for(viewer, "jobs_job", str(letter.saga_id))
    assert letter.pk in search_for(viewer, "deadletters_deadletter", str(letter.saga_id))
    assert letter.pk in search_for(viewer, "deadletters_deadletter", str(letter.pk))
    assert DeadLetter.objects.count() == 2


def test_the_same_external_id_of_two_producers_finds_both(viewer: Client):
    one: Any = EventFactory(source="shop", external_id="7-a")
    two: Any = EventFactory(source="till", external_id="7-a")
    EventFactory(source="till", external_id="7-b")

    assert search_for(viewer, "events_event", "7-a") == [one.pk, two.pk]


def test_an_external_id_is_searched_in_a_bounded_number_of_sources(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
):
    monkeypatch.setattr(lookup, "MAX_SOURCES", 3)
    for number in range(6):
        EventFactory(source=f"source-{number}", external_id="same")

    with django_assert_max_num_queries(3):
        assert len(lookup.find("same")) == 3


def test_each_lookup_of_an_event_uses_its_index(committed: None):
    for number in range(300):
        EventFactory(source=f"source-{number % 3}", external_id=f"e-{number}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE TABLE events" if vendors.is_server(connection) else "ANALYZE events")
        cursor.fetchall()

    event: Any = Event.objects.order_by("id").first()
    rows_of = Event.objects.order_by("-id").values_list("id", flat=True)
    assert "idx_event_correlation" in rows_of.filter(correlation_id=event.correlation_id)[:1000].explain()
    sources = ["source-0", "source-1", "source-2"]
    external = rows_of.filter(source__in=sources, external_id="e-1")[:1000]
    step = Event.objects.filter(source__gt="source-0").order_by("source").values_list("source")[:1]
    unique_key = "uniq_event_source_external" if vendors.is_server(connection) else "(source=? AND external_id=?)"
    assert unique_key in external.explain()
    assert unique_key.replace("=? AND external_id=?", ">?") in step.explain()
