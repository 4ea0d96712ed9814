"""The texts of empty lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.support import rows

pytestmark = pytest.mark.django_db

SUBSCRIPTIONS = "subscriptions_subscription"
EMPTY = {
    "sagas_saga": "There are no deliveries yet. The hub creates one for each active, verified subscription",
    "events_event": "There are no events yet. Producers send them to the API with an API key",
    "jobs_job": "There are no attempts yet. Each attempt is listed here",
    SUBSCRIPTIONS: "There are no subscriptions yet. Nothing is delivered until an operator adds one",
    "deadletters_deadletter": "There are no dead letters: every delivery has completed or is in progress.",
    "webhookhub_process": "No process is running. Start all of them with manage.py run_hub",
}
NO_MATCH = {
    "sagas_saga": "No deliveries match. Search for a delivery's number",
    "events_event": "No events match. Search for an event's number",
    "jobs_job": "No attempts match.",
    SUBSCRIPTIONS: "No subscriptions match. Search for a part of the event type",
    "deadletters_deadletter": "No dead letter matches. Clear the filter",
}
FILTERED = [(name, "?q=nothing-like-it") for name in NO_MATCH] + [
    ("sagas_saga", "?status__exact=Completed"),
    ("deadletters_deadletter", "?error_code=x"),
    ("jobs_job", "?saga=7"),
    (SUBSCRIPTIONS, "?active__exact=0"),
]


def page(client: Client, name: str, query: str = "") -> str:
    response = client.get(rows.listing(name, query))
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_list_explains_itself(viewer: Client, name: str):
    text = page(viewer, name)

    assert EMPTY[name] in text
    assert "yielded" not in text
    assert "Reset filters" not in text.partition('id="nothing"')[2]
    assert "matches" not in text
    assert rows.add(name) not in text


@pytest.mark.parametrize(("name", "query"), FILTERED)
def test_a_filtered_list_without_rows_links_to_all_rows(viewer: Client, name: str, query: str):
    text = page(viewer, name, query)

    assert NO_MATCH[name] in text
    assert EMPTY[name] not in text
    assert 'href="?"' in text


def test_an_empty_list_offers_to_add_only_with_permission(staff: Callable[..., Client]):
    adder = staff("adder", "view_subscription", "add_subscription")

    text = page(adder, SUBSCRIPTIONS).partition('id="nothing"')[2]

    assert "There are no subscriptions yet. Add one with the URL of an endpoint" in text
    assert rows.add(SUBSCRIPTIONS) in text


def test_a_list_with_rows_has_no_empty_text(viewer: Client):
    rows.one_of_each()

    for name in rows.ALL:
        assert 'id="nothing"' not in page(viewer, name), name
