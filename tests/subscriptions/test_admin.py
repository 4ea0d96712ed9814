"""Editing subscriptions in the console."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from subscriptions.forms import SubscriptionForm
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.support import rows
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

NAME = "subscriptions_subscription"
VALID = {
    "event_type": "order.created",
    "callback_url": "https://127.0.0.1:9443/hook",
    "active": "on",
    "signing_scheme": "v1",
}

pytestmark = pytest.mark.django_db


def errors(response: Any) -> str:
    assert response.status_code == 200
    return str(response.context["errors"])


def test_a_subscription_can_be_added_and_starts_unverified(superuser: Client):
    response = superuser.post(
        rows.add(NAME),
        {**VALID, "verified": "on", "verification_result": "forged", "max_retry_limit": "4", "rate_limit": "9"},
    )

    assert response.status_code == 200  # the page with the secret
    subscription = Subscription.objects.get()
    assert (subscription.event_type, subscription.max_retry_limit) == ("order.created", 4)
    assert subscription.rate_limit == 9
    assert (subscription.active, subscription.verified, subscription.verification_result) == (True, False, "")
    assert superuser.get(rows.change(NAME, subscription.pk)).status_code == 200


def test_the_add_form_shows_only_editable_fields(superuser: Client):
    page = superuser.get(rows.add(NAME)).content.decode()

    assert "callback_url" in page
    assert "verification" not in page
    assert "DatabaseDefault" not in page


def test_a_changed_url_loses_its_verification(superuser: Client):
    subscription: Any = SubscriptionFactory(verification_result="ok", verification_at=clock.now())

    elsewhere = {"callback_url": "https://127.0.0.1:9443/elsewhere"}
    superuser.post(rows.change(NAME, subscription.pk), {**VALID, **rows.seen(superuser, subscription.pk), **elsewhere})

    subscription.refresh_from_db()
    assert subscription.callback_url == "https://127.0.0.1:9443/elsewhere"
    assert not subscription.verified
    assert subscription.verification_at is None


def test_only_changed_columns_are_written(superuser: Client):
    """A full update would undo a concurrent rotation or verification."""
    subscription: Any = SubscriptionFactory(**VALID | {"active": True})
    before = Subscription.objects.get().updated_at
    form = {**VALID, **rows.seen(superuser, subscription.pk), "description": "another", "signing_scheme": "v1a"}

    with CaptureQueriesContext(connection) as queries:
        superuser.post(rows.change(NAME, subscription.pk), form)

    [update] = [
        query["sql"] for query in queries if query["sql"].startswith("UPDATE") and "subscriptions" in query["sql"]
    ]
    assert "description" in update
    for column in ("secret", "verified", "custom_headers", "signing_scheme", "callback_url"):
        assert column not in update
    after = Subscription.objects.get()
    assert (after.description, after.signing_scheme) == ("another", "v1")
    assert after.updated_at > before


def test_secrets_are_shown_nowhere(superuser: Client):
    subscription: Any = SubscriptionFactory(previous_secret="old-token", custom_headers="header-token")

    for address in (rows.listing(NAME), rows.change(NAME, subscription.pk)):
        page = superuser.get(address).content.decode()
        for token in (subscription.secret, "old-token", "header-token"):
            assert token not in page


def test_the_signing_scheme_is_set_on_create_only(superuser: Client):
    superuser.post(rows.add(NAME), {**VALID, "signing_scheme": "v1a"})

    assert Subscription.objects.get().signing_scheme == "v1a"
    assert 'name="signing_scheme"' in superuser.get(rows.add(NAME)).content.decode()
    page = superuser.get(rows.change(NAME, Subscription.objects.get().pk)).content.decode()
    assert 'name="signing_scheme"' not in page


def test_pausing_keeps_the_verification(superuser: Client):
    subscription: Any = SubscriptionFactory(**VALID | {"active": True})

    superuser.post(rows.change(NAME, subscription.pk), {**VALID, **rows.seen(superuser, subscription.pk), "active": ""})

    subscription.refresh_from_db()
    assert (subscription.active, subscription.verified) == (False, True)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("event_type", "", "Enter the event type to subscribe to."),
        ("event_type", "two words", "An event type has 1 to 100 letters, digits, dots, dashes and underscores."),
        ("callback_url", "", "Enter the callback URL to deliver to."),
        ("callback_url", "http://127.0.0.1/hook", "The callback URL must start with https://."),
        ("callback_url", "https://u:p@127.0.0.1/", "The callback URL names a user or password; leave them out."),
        ("callback_url", "https://10.1.2.3/", "The callback URL's address may not be reached from this hub."),
        ("rate_limit", "0", "The rate limit is a whole number from 1 to 10000, or empty."),
        ("rate_limit", "x", "The rate limit is a whole number from 1 to 10000, or empty."),
        ("max_retry_limit", "0", "The retry limit is a whole number from 1 to 1000, or empty."),
        ("max_retry_limit", "many", "The retry limit is a whole number from 1 to 1000, or empty."),
        ("max_retry_limit", "9" * 30, "The retry limit is a whole number from 1 to 1000, or empty."),
        ("base_delay", "soon", "The base delay is a duration such as 00:00:30"),
        ("base_delay", "2 00:00:00", "The base delay is a duration such as 00:00:30"),
        ("base_delay", "-1", "The base delay is a duration such as 00:00:30"),
        ("base_delay", "9" * 30, "The base delay is a duration such as 00:00:30"),
        ("retry_delays", "soon", "Enter 1 to 50 whole numbers of seconds from 1 to 604800, separated by commas."),
        ("retry_delays", "5, 0", "Enter 1 to 50 whole numbers of seconds from 1 to 604800, separated by commas."),
        ("retry_delays", "5,,6", "Enter 1 to 50 whole numbers of seconds from 1 to 604800, separated by commas."),
        ("retry_delays", "1," * 50 + "1", "Enter 1 to 50 whole numbers of seconds from 1 to 604800"),
        ("retry_delays", "9" * 30, "Enter 1 to 50 whole numbers of seconds from 1 to 604800"),
        ("description", "x" * 201, "at most 200 characters"),
        (
            "description",
            "a\u202eb",
            "The description must not contain control characters (except line breaks) or marks that",
        ),
        ("description", "a\x1b[2Jb", "such as U+001B."),
    ],
)
def test_field_errors_name_the_field(field: str, value: str, message: str):
    form = SubscriptionForm({**VALID, field: value})

    assert message in " ".join(map(str, form.errors[field]))


def test_an_invalid_form_shows_the_error_and_stores_nothing(superuser: Client):
    response = superuser.post(rows.add(NAME), {**VALID, "max_retry_limit": "0"})

    assert "The retry limit is a whole number from 1 to 1000, or empty." in errors(response)
    assert not Subscription.objects.exists()


def test_a_list_of_delays_is_stored_shown_and_removed(superuser: Client):
    superuser.post(rows.add(NAME), {**VALID, "retry_delays": " 5,300 , 1800 "})
    subscription = Subscription.objects.get()
    assert subscription.retry_delays == (5, 300, 1800)
    page = rows.change(NAME, subscription.pk)
    assert 'value="5, 300, 1800"' in superuser.get(page).content.decode()

    def save(**fields: str) -> Any:
        return superuser.post(page, {**VALID, **rows.seen(superuser, subscription.pk), **fields})

    entries = Entry.objects.count()
    save(retry_delays="5,300,1800")
    assert Entry.objects.count() == entries  # nothing has changed
    assert "Set either retry delays, or a retry limit" in errors(save(retry_delays="5, 300", max_retry_limit="3"))
    save(retry_delays="", max_retry_limit="3")

    subscription.refresh_from_db()
    assert (subscription.retry_delays, subscription.max_retry_limit) == (None, 3)
    assert json.loads(Entry.objects.latest("id").details)["retry_delays"] == {"from": [5, 300, 1800], "to": None}


def test_a_duplicate_in_another_spelling_is_a_form_error(superuser: Client):
    SubscriptionFactory(event_type="order.created", callback_url="https://127.0.0.1:9443/hook")

    response = superuser.post(rows.add(NAME), {**VALID, "callback_url": "HTTPS://127.0.0.1:9443/hook"})

    assert "This address is subscribed to this event type already." in errors(response)
    assert Subscription.objects.count() == 1


def test_changing_a_subscription_into_a_duplicate_is_a_form_error(superuser: Client):
    SubscriptionFactory(event_type="order.created", callback_url="https://127.0.0.1:9443/hook")
    other: Any = SubscriptionFactory(event_type="order.cancelled", callback_url="https://127.0.0.1:9443/hook")

    response = superuser.post(rows.change(NAME, other.pk), {**VALID, **rows.seen(superuser, other.pk)})

    assert "This address is subscribed to this event type already." in errors(response)


@pytest.mark.mysql_family  # SQLite has no concurrent writers
def test_a_duplicate_saved_after_validation_is_a_form_error(committed: None, monkeypatch: pytest.MonkeyPatch):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    check = SubscriptionForm.is_valid
    rivals: list[threading.Thread] = []

    def is_valid_and_then_overtaken(form: SubscriptionForm) -> bool:
        valid = check(form)
        if not rivals:
            rival = threading.Thread(target=save_the_same)
            rivals.append(rival)
            rival.start()
            rival.join()
        return valid

    def save_the_same() -> None:
        SubscriptionFactory(event_type=VALID["event_type"], callback_url=VALID["callback_url"])
        connection.close()

    monkeypatch.setattr(SubscriptionForm, "is_valid", is_valid_and_then_overtaken)
    response = client.post(rows.add(NAME), VALID)

    assert "This address is subscribed to this event type already." in errors(response)
    assert Subscription.objects.count() == 1


def test_the_list_can_be_searched_and_filtered(superuser: Client):
    SubscriptionFactory(event_type="order.created", callback_url="https://127.0.0.1:9443/here")
    SubscriptionFactory(event_type="order.cancelled", callback_url="https://127.0.0.1:9443/there", active=False)

    for query in ("?q=cancelled", "?q=there", "?active__exact=0"):
        listed = superuser.get(rows.listing(NAME, query)).context["cl"].result_list
        assert [subscription.event_type for subscription in listed] == ["order.cancelled"]
