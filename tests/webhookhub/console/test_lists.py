"""The cost of a list does not depend on the length of its table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deadletters import admin
from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from subscriptions.models import Subscription
from tests.factories import EventFactory, SagaFactory
from tests.support import rows
from webhookhub.accounts.groups import GROUPS
from webhookhub.console import base
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db

MAX_QUERIES = 10


def test_the_number_of_queries_does_not_grow_with_the_rows(viewer: Client, django_assert_max_num_queries: Any):
    rows.one_of_each()
    of_one: dict[str, int] = {}
    for name in rows.ALL:
        with CaptureQueriesContext(connection) as queries:
            assert viewer.get(rows.listing(name)).status_code == 200
        of_one[name] = len(queries)
    for number in range(5):
        rows.one_of_each(f"row-{number}")

    for name in rows.ALL:
        with django_assert_max_num_queries(min(of_one[name], MAX_QUERIES)):
            assert viewer.get(rows.listing(name)).status_code == 200


def test_the_number_of_queries_of_a_page_is_bounded(viewer: Client, django_assert_max_num_queries: Any):
    ContentType.objects.get_for_model(Subscription)  # read once in the life of a process
    for name, pk in rows.one_of_each().items():
        # A subscription's page shows its endpoint's figures, too.
        with django_assert_max_num_queries(16 if name == "subscriptions_subscription" else 12):
            assert viewer.get(rows.change(name, pk)).status_code == 200


@pytest.mark.parametrize("group", GROUPS)
def test_the_number_of_queries_of_the_pages_of_a_requeue_is_bounded_for_each_group(
    group: str, django_assert_max_num_queries: Any
):
    letter = rows.dead_letter("http_503")
    [done] = requeue([letter.pk], by=Operator(), reason="fixed")
    user = User.objects.create_user(group, is_staff=True)
    user.groups.add(Group.objects.get(name=group))
    client = Client()
    client.force_login(user)

    pages = [("deadletters_deadletter", letter.pk), ("sagas_saga", letter.saga_id), ("sagas_saga", done.saga_id)]
    for name, pk in pages:
        with django_assert_max_num_queries(12):
            page = client.get(rows.change(name, pk)).content.decode()
        assert "fixed" in page


def test_lists_do_not_load_payloads_and_responses(superuser: Client):
    rows.one_of_each()

    for name in rows.MACHINE_MADE:
        with CaptureQueriesContext(connection) as queries:
            assert superuser.get(rows.listing(name)).status_code == 200
        statements = "\n".join(query["sql"] for query in queries)
        assert "payload" not in statements
        assert "response_snippet" not in statements


def test_a_long_list_is_counted_and_paged_up_to_its_bound(viewer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "MAX_LISTED", 6)
    monkeypatch.setattr(ReadOnlyAdmin, "list_per_page", 4)
    for number in range(7):
        EventFactory(correlation_id=f"c-{number}-")

    with CaptureQueriesContext(connection) as queries:
        page = viewer.get(rows.listing("events_event")).content.decode()

    assert "6 or more events" in " ".join(page.split())
    assert "Show all" not in page
    assert not re.search(r"\d results", page)
    assert "Only the newest 6 are listed." in page
    assert "c-6-" in page
    assert "c-2-" not in page
    [counting] = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert "LIMIT 7" in counting
    second = viewer.get(rows.listing("events_event", "?p=2")).content.decode()
    assert "c-1-" in second
    assert "c-0-" not in second
    assert viewer.get(rows.listing("events_event", "?p=3")).status_code == 302


def test_a_list_within_its_bound_has_no_note(viewer: Client):
    EventFactory()

    page = " ".join(viewer.get(rows.listing("events_event")).content.decode().split())

    assert "Only the newest" not in page
    assert "or more" not in page
    assert ">1 event<" in page
    assert "Show all" not in page


def test_large_counts_have_thousands_separators(viewer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "MAX_LISTED", 1000)
    monkeypatch.setattr(base.BoundedPaginator, "_counted", 1001)
    EventFactory()

    page = viewer.get(rows.listing("events_event")).content.decode()

    assert "1,000 or more events" in page
    assert "Only the newest 1,000 are listed." in page


def test_a_filtered_list_shows_that_only_the_newest_rows_were_searched(
    superuser: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admin, "MAX_LISTED", 2)
    letter = rows.dead_letter("http_503")
    for number in range(1, 3):
        saga = SagaFactory.create(event=letter.event, subscription=letter.subscription, generation=number)
        DeadLetter.objects.create(
            saga=saga,
            event=saga.event,
            subscription=saga.subscription,
            final_error_code="http_503",
            failed_at=clock.now(),
            payload_snapshot="{}",
        )

    assert (
        "2 or more dead letters"
        in superuser.get(rows.listing("deadletters_deadletter", "?error_code=http_503")).content.decode()
    )


@pytest.mark.parametrize("order", ["-3.1", "x"])
def test_lists_are_always_ordered_by_primary_key(viewer: Client, order: str):
    rows.one_of_each()

    for name in rows.MACHINE_MADE:
        with CaptureQueriesContext(connection) as queries:
            assert viewer.get(rows.listing(name, f"?o={order}")).status_code == 200
        [listed] = [
            query["sql"]
            for query in queries
            if "ORDER BY" in query["sql"] and "COUNT(" not in query["sql"] and "auth_" not in query["sql"]
        ]
        assert listed.split("ORDER BY")[1].replace("`", "").replace('"', "").strip().endswith(".id DESC")


def test_facets_are_never_counted(viewer: Client):
    rows.one_of_each()

    with CaptureQueriesContext(connection) as queries:
        viewer.get(rows.listing("sagas_saga", "?_facets=True"))

    assert sum("COUNT(" in query["sql"] for query in queries) == 1
