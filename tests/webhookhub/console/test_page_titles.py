"""The breadcrumbs of a page."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.factories import SubscriptionFactory
from tests.support import rows

pytestmark = pytest.mark.django_db


def breadcrumbs(client: Client, address: str) -> list[str]:
    page = client.get(address).content.decode()
    line = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert line is not None
    return [" ".join(part.split()) for part in re.findall(r'class="hub-crumb"[^>]*>(.*?)</', line[1], re.DOTALL)]


def test_breadcrumbs_name_each_level_once(viewer: Client):
    pks = rows.one_of_each()

    assert breadcrumbs(viewer, rows.listing("sagas_saga")) == ["Deliveries"]
    assert breadcrumbs(viewer, rows.change("sagas_saga", pks["sagas_saga"])) == [
        "Deliveries",
        f"delivery {pks['sagas_saga']}",
    ]
    assert breadcrumbs(viewer, "/admin/") == ["Overview"]


def test_the_case_of_an_event_type_is_kept(superuser: Client):
    subscription = SubscriptionFactory.create(event_type="order.created")

    parts = breadcrumbs(superuser, rows.change("subscriptions_subscription", subscription.pk))

    assert parts == ["Subscriptions", f"order.created → {subscription.callback_url}"]


def test_the_help_text_of_the_search_is_below_the_box(viewer: Client):
    page = viewer.get(rows.listing("sagas_saga")).content.decode()

    assert re.search(r'<p class="hub-hint">A delivery&#x27;s number', page)
    assert 'placeholder="Type to search"' in page
