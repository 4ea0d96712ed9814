"""A list with nothing in it says what that means, and offers only what its viewer can do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.support import rows

pytestmark = pytest.mark.django_db

SUBSCRIPTIONS = "subscriptions_subscription"
YET = {
    "sagas_saga": "There are no deliveries yet. The hub makes one for each active, verified subscription",
    "events_event": "No event has arrived yet. Producers send them to the API with an API key",
    "jobs_job": "Nothing has been sent yet. Each try to deliver something is listed here",
    SUBSCRIPTIONS: "There are no subscriptions yet. Whoever may add them has to add one",
    "deadletters_deadletter": "There are no dead letters: every delivery has completed or is in progress.",
    "webhookhub_process": "No process is running. Start the whole hub with manage.py run_hub",
}
MATCHES = {
    "sagas_saga": "No delivery matches. A search takes a delivery's number",
    "events_event": "No event matches. A search takes an event's number",
    "jobs_job": "No attempt matches.",
    SUBSCRIPTIONS: "No subscription matches. A search takes a part of the event type",
    "deadletters_deadletter": "No dead letter matches. Clear the filter",
}
NARROWED = [(name, "?q=nothing-like-it") for name in MATCHES] + [
    ("sagas_saga", "?status__exact=Completed"),
    ("deadletters_deadletter", "?error_code=x"),
    ("jobs_job", "?saga=7"),
    (SUBSCRIPTIONS, "?active__exact=0"),
]


def page(client: Client, name: str, query: str = "") -> str:
    answer = client.get(rows.listing(name, query))
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


@pytest.mark.parametrize("name", YET)
def test_an_empty_list_says_what_it_means_and_offers_no_filter_to_reset(viewer: Client, name: str):
    shown = page(viewer, name)

    assert YET[name] in shown
    assert "yielded" not in shown
    assert "Reset filters" not in shown.partition('id="nothing"')[2]
    assert "matches" not in shown
    assert rows.add(name) not in shown


@pytest.mark.parametrize(("name", "query"), NARROWED)
def test_a_list_that_was_narrowed_to_nothing_says_so_and_leads_back(viewer: Client, name: str, query: str):
    shown = page(viewer, name, query)

    assert MATCHES[name] in shown
    assert YET[name] not in shown
    assert 'href="?"' in shown


def test_only_whoever_may_add_is_asked_to(staff: Callable[..., Client]):
    adder = staff("adder", "view_subscription", "add_subscription")

    shown = page(adder, SUBSCRIPTIONS).partition('id="nothing"')[2]

    assert "There are no subscriptions yet. Add one with the address of an endpoint" in shown
    assert rows.add(SUBSCRIPTIONS) in shown


def test_a_list_with_something_in_it_says_nothing_of_the_kind(viewer: Client):
    rows.one_of_each()

    for name in rows.ALL:
        assert 'id="nothing"' not in page(viewer, name), name
