"""The texts of empty lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.support import rows

pytestmark = pytest.mark.django_db

SUBSCRIPTIONS = "subscriptions_subscription"
YET = {
    "sagas_saga": "There are no deliveries yet. The hub creates one for each active, verified subscription",
    "events_event": "There are no events yet. Producers send them to the API with an API key",
    "jobs_job": "There are no attempts yet. Each attempt is listed here",
    SUBSCRIPTIONS: "There are no subscriptions yet. Nothing is delivered until an operator adds one",
    "deadletters_deadletter": "There are no dead letters: every delivery has completed or is in progress.",
    "webhookhub_process": "No process is running. Start all of them with manage.py run_hub",
}
MATCHES = {
    "sagas_saga": "No deliveries match. Search for a delivery's number",
    "events_event": "No events match. Search for an event's number",
    "jobs_job": "No attempts match.",
    SUBSCRIPTIONS: "No subscriptions match. Search for a part of the event type",
    "deadletters_deadletter": "No dead letter matches. Clear the filter",
}
NARROWED = [(name, "?q=nothing-like-it") for name in MATCHES] + [
    ("sagas_saga", "?status__exact=Completed"),
    ("deadletters_deadletter", "?error_code=x"),
    ("jobs_job", "?saga=7"),
    (SUBSCRIPTIONS, "?active__exact=0"),
]


def page(client: Client, name: str, query: str = "") -> str:
    response = client.get(rows.listing(name, query))
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


@pytest.mark.parametrize("name", YET)
def test_an_empty_list_explains_itself(viewer: Client, name: str):
    shown = page(viewer, name)

    assert YET[name] in shown
    assert "yielded" not in shown
    assert "Reset filters" not in shown.partition('id="nothing"')[2]
    assert "matches" not in shown
    assert rows.add(name) not in shown


@pytest.mark.parametrize(("name", "query"), NARROWED)
def test_a_filtered_list_without_rows_links_to_all_rows(viewer: Client, name: str, query: str):
    shown = page(viewer, name, query)

    assert MATCHES[name] in shown
    assert YET[name] not in shown
    assert 'href="?"' in shown


def test_an_empty_list_offers_to_add_only_with_permission(staff: Callable[..., Client]):
    adder = staff("adder", "view_subscription", "add_subscription")

    shown = page(adder, SUBSCRIPTIONS).partition('id="nothing"')[2]

    assert "There are no subscriptions yet. Add one with the URL of an endpoint" in shown
    assert rows.add(SUBSCRIPTIONS) in shown


def test_a_list_with_rows_has_no_such_text(viewer: Client):
    rows.one_of_each()

    for name in rows.ALL:
        assert 'id="nothing"' not in page(viewer, name), name
