"""The line at the head of a page: where one is, once, and names as they are written."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.factories import SubscriptionFactory
from tests.support import rows

pytestmark = pytest.mark.django_db


def head(client: Client, address: str) -> list[str]:
    page = client.get(address).content.decode()
    line = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert line is not None
    return [" ".join(part.split()) for part in re.findall(r'class="hub-crumb"[^>]*>(.*?)</', line[1], re.DOTALL)]


def test_a_page_says_once_where_one_is(viewer: Client):
    pks = rows.one_of_each()

    assert head(viewer, rows.listing("sagas_saga")) == ["Deliveries"]
    assert head(viewer, rows.change("sagas_saga", pks["sagas_saga"])) == ["Deliveries", f"delivery {pks['sagas_saga']}"]
    assert head(viewer, "/admin/") == ["Overview"]


def test_an_event_type_is_written_as_it_is(superuser: Client):
    subscription = SubscriptionFactory.create(event_type="order.created")

    parts = head(superuser, rows.change("subscriptions_subscription", subscription.pk))

    assert parts == ["Subscriptions", f"order.created → {subscription.callback_url}"]


def test_what_a_search_takes_stands_beside_the_box_and_not_cut_off_in_it(viewer: Client):
    page = viewer.get(rows.listing("sagas_saga")).content.decode()

    assert re.search(r'<p class="hub-hint">A delivery&#x27;s number', page)
    assert 'placeholder="Type to search"' in page
