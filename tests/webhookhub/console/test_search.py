"""The search over all apps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from events.models import Event
from sagas.models import Saga
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import rows
from tests.webhookhub.console.test_list_search import GARBAGE
from tests.workflows import shop
from webhookhub.console import search
from webhookhub.egress.urls import normalise
from workflows.models import Instance

pytestmark = pytest.mark.django_db

MAX_QUERIES = 15


def search_for(client: Client, term: str) -> Any:
    response = client.get(reverse("admin:search"), {"q": term})
    assert response.status_code == 200
    return response.context["results"]


@pytest.mark.parametrize("field", ["uid", "external_id", "correlation_id"])
def test_a_delivery_is_found_by_each_identifier_of_its_event(viewer: Client, field: str):
    rows.dead_letter("other")
    letter = rows.dead_letter("wanted")
    term = str(getattr(Event.objects.get(pk=letter.event_id), field))

    results = search_for(viewer, f"  {term} ")

    assert [saga.pk for saga in results.deliveries] == [letter.saga_id]
    assert [event.pk for event in results.events] == [letter.event_id]


def test_a_delivery_is_found_by_its_number(viewer: Client):
    saga: Any = SagaFactory()
    SagaFactory()

    assert [row.pk for row in search_for(viewer, str(saga.pk)).deliveries] == [saga.pk]


@pytest.mark.parametrize("term", ["hooks.example.com", "https://HOOKS.example.com:8443/a"])
def test_subscriptions_are_found_by_their_host(viewer: Client, term: str):
    wanted = [
        SubscriptionFactory(callback_url="https://hooks.example.com/a"),
        SubscriptionFactory(callback_url="https://hooks.example.com:8443/b"),
    ]
    SubscriptionFactory(callback_url="https://hooks.example.com.evil.example.org/a")
    SubscriptionFactory(callback_url="https://other.example.com/hooks.example.com")

    assert {row.pk for row in search_for(viewer, term).subscriptions} == {row.pk for row in wanted}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("stored", "term"),
    [
        ("https://例子.測試/hook", "例子.測試"),
        ("https://例子.測試/hook", "例子。測試"),
        ("https://例子.測試:8443/hook", "https://例子.測試/else"),
        ("https://bücher.example.com/hook", "BÜCHER.example.com:8443"),
        ("https://bücher.example.com/hook", "xn--bcher-kva.example.com"),
        ("https://[2606:4700::1111]/hook", "2606:4700::1111"),
        ("https://[2606:4700::1111]/hook", "2606:4700:0:0::1111"),
        ("https://[2606:4700::1111]:8443/hook", "[2606:4700::1111]:8443"),
    ],
)
def test_hosts_are_normalised_before_the_search(stored: str, term: str):
    host = search.host_of(term)

    assert host
    assert normalise(stored).removeprefix(f"https://{host}") in ("/hook", ":8443/hook")


def test_a_subscription_is_found_by_an_international_host(viewer: Client):
    wanted: Any = SubscriptionFactory(callback_url=normalise("https://例子.測試/hook"))
    SubscriptionFactory(callback_url="https://hooks.example.com/a")

    assert [row.pk for row in search_for(viewer, "例子。測試").subscriptions] == [wanted.pk]


@pytest.mark.parametrize("term", ["例子", "https://例子.測試/hook", " 測試 "])
def test_the_list_of_subscriptions_finds_an_international_name_and_a_part_of_it(viewer: Client, term: str):
    wanted: Any = SubscriptionFactory(callback_url=normalise("https://例子.測試/hook"))
    SubscriptionFactory(callback_url="https://hooks.example.com/a")

    response = viewer.get(rows.listing("subscriptions_subscription"), {"q": term})

    assert [row.pk for row in response.context["cl"].result_list] == [wanted.pk]


def test_the_list_of_subscriptions_still_finds_a_description_in_any_script(viewer: Client):
    wanted: Any = SubscriptionFactory(description="例子商店")
    SubscriptionFactory()

    response = viewer.get(rows.listing("subscriptions_subscription"), {"q": "例子"})

    assert [row.pk for row in response.context["cl"].result_list] == [wanted.pk]


def test_wildcards_in_a_host_are_literal(viewer: Client):
    SubscriptionFactory(callback_url="https://hooks.example.com/a")

    for term in ("%.example.com", "hooks_example.com", "_ooks.example.com"):
        assert search_for(viewer, term).is_empty


def test_dead_letters_are_found_by_their_error_code(viewer: Client):
    wanted = rows.dead_letter("http_503")
    rows.dead_letter("timeout")

    assert [letter.pk for letter in search_for(viewer, "HTTP_503").letters] == [wanted.pk]
    assert search_for(viewer, "http_504").is_empty


def test_garbage_finds_nothing():
    rows.dead_letter()
    root = User.objects.create_superuser("root")

    for term in GARBAGE:
        assert search.find(term, root).is_empty, term


@pytest.mark.parametrize("term", ["a\0b", "'; DROP TABLE events; --", "9" * 5000])
def test_the_page_accepts_garbage(viewer: Client, term: str):
    rows.dead_letter()

    assert search_for(viewer, term).is_empty


@pytest.mark.parametrize("field", ["saga_id", "correlation_key", "aggregate_id"])
def test_a_workflow_is_found_by_each_of_its_identifiers(staff: Callable[..., Client], field: str):
    shop.completed("o-1")
    wanted = shop.declined("o-2")
    Instance.objects.filter(pk=wanted.pk).update(aggregate_id="basket-2")
    wanted.refresh_from_db()
    term = str(getattr(wanted, field))

    assert [row.pk for row in search_for(staff("anna", "view_instance"), f" {term} ").workflows] == [wanted.pk]
    assert not search_for(staff("eve", "view_event", "view_saga"), term).workflows


def test_the_page_links_to_the_workflow(staff: Callable[..., Client]):
    saga = shop.declined("o-<b>2")

    term = str(saga.saga_id).upper()
    page = staff("anna", "view_instance").get(reverse("admin:search"), {"q": term}).content.decode()

    assert f'<a href="{rows.change("workflows_instance", saga.pk)}">{saga.saga_id}</a>' in page
    assert "o-&lt;b&gt;2" in page
    assert "No results" not in page


def test_workflows_are_found_even_if_their_definitions_are_invalid(
    staff: Callable[..., Client], tmp_path: Path, hub_settings: Callable[..., None]
):
    saga = shop.declined("o-2")
    (tmp_path / "broken.toml").write_text("name = ")
    hub_settings(workflow_definitions=(tmp_path,))

    assert [row.pk for row in search_for(staff("anna", "view_instance"), "o-2").workflows] == [saga.pk]


def test_a_search_without_results_explains_what_to_enter(viewer: Client):
    page = viewer.get(reverse("admin:search"), {"q": "<script>alert(1)</script>"}).content.decode()

    assert "No results" in page
    assert "an error code, such as http_503 or timeout" in page
    assert "a workflow's saga ID, correlation ID or aggregate ID" in page
    assert "<script>alert" not in page
    assert "No results" not in viewer.get(reverse("admin:search")).content.decode()


def test_a_search_finds_only_what_the_user_may_see(staff: Callable[..., Client]):
    letter = rows.dead_letter("http_503")
    term = str(letter.event.uid)

    assert search_for(staff("outsider"), term).is_empty
    results = search_for(staff("eve", "view_event"), term)
    assert len(results.events) == 1
    assert not results.deliveries
    assert search_for(staff("letters", "view_deadletter"), "http_503").letters
    assert search_for(staff("hosts", "view_event"), "127.0.0.1").is_empty


def test_a_login_is_required(client: Client):
    assert client.get(reverse("admin:search"), {"q": "x"}).status_code == 302


def test_a_search_needs_few_queries_and_lists_a_bounded_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "MAX_RESULTS", 5)
    subscriptions = [SubscriptionFactory() for _ in range(4)]
    for number in range(8):
        event = EventFactory(source=f"source-{number}", external_id="same", correlation_id="same")
        for subscription in subscriptions:
            SagaFactory(event=event, subscription=subscription)
    for number in range(8):
        saga = shop.waiting_for_payment(f"o-{number}")
    Instance.objects.update(aggregate_id="same")
    user = User.objects.create_user("anna", is_staff=True)
    user.groups.add(Group.objects.get(name="support"))
    client = Client()
    client.force_login(user)

    for term in ("same", "http_503", "127.0.0.1", str(Event.objects.order_by("id")[0].uid), str(saga.saga_id), "1"):
        with CaptureQueriesContext(connection) as queries:
            results = search_for(client, term)
        assert len(queries) <= MAX_QUERIES, term
        assert max(map(len, (results.deliveries, results.events, results.subscriptions, results.workflows))) <= 5
    assert Saga.objects.count() == 32
