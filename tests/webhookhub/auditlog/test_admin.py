"""The audit log cannot be changed, and reading it needs a permission."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test import Client

from tests.factories import SubscriptionFactory
from tests.support import rows
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry
from webhookhub.auditlog.record import record

pytestmark = pytest.mark.django_db

NAME = "auditlog_entry"


@pytest.fixture
def entry() -> Entry:
    record(actions.TEST, SubscriptionFactory.create(), by="anna", reason="<b>why</b>", details={"a": "<script>"})
    return Entry.objects.get()


@pytest.mark.parametrize(
    "sql",
    [
        *(
            f"UPDATE audit_log_entries SET {column} = '7'"
            for column in ("actor", "reason", "details", "object_id", "action")
        ),
        "UPDATE audit_log_entries SET at = '2020-01-01 00:00:00'",
        "UPDATE audit_log_entries SET id = id + 1",
        "UPDATE audit_log_entries SET object_id = NULL",
        "DELETE FROM audit_log_entries",
    ],
)
def test_the_database_refuses_changes(entry: Entry, sql: str):
    with pytest.raises(DatabaseError, match="only added to"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)

    stored = Entry.objects.get()
    assert (stored.actor, stored.reason, stored.at) == (entry.actor, entry.reason, entry.at)


def test_superusers_can_only_read_it(entry: Entry):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    assert client.get(rows.listing(NAME)).status_code == 200
    page = client.get(rows.change(NAME, entry.pk)).content.decode()
    assert "<script>" not in page.partition("sent a test event")[2].partition("</fieldset>")[0]
    assert "&lt;b&gt;why&lt;/b&gt;" in page
    for address in (rows.add(NAME), rows.delete(NAME, entry.pk)):
        assert client.get(address).status_code == 403
        assert client.post(address, {"post": "yes"}).status_code == 403
    assert client.post(rows.change(NAME, entry.pk), {"actor": "other"}).status_code == 403
    delete = {"action": "delete_selected", "_selected_action": entry.pk, "post": "yes"}
    assert client.post(rows.listing(NAME), delete).status_code == 403
    assert Entry.objects.filter(pk=entry.pk, actor="anna").exists()


@pytest.mark.parametrize(("group", "may"), [("auditors", True), ("operations", True), ("support", False)])
def test_auditors_and_operations_can_read_it_and_support_cannot(
    member: Callable[[str], Client], entry: Entry, group: str, may: bool
):
    client = member(group)
    expected = 200 if may else 403

    assert client.get(rows.listing(NAME)).status_code == expected
    assert client.get(rows.change(NAME, entry.pk)).status_code == expected
    history = rows.change("subscriptions_subscription", entry.object_id).replace("/change/", "/history/")
    response = client.get(history, follow=True)
    assert response.status_code == expected
    assert ("sent a test event" in response.content.decode()) is may


def test_search_by_actor_object_and_action(entry: Entry):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    record(actions.ROTATE, SubscriptionFactory.create(), by="bert")

    def names(query: str) -> set[str]:
        return {entry.actor for entry in client.get(rows.listing(NAME, query)).context["cl"].result_list}

    assert names("?q=anna") == {"anna"}
    # A user may have the same id.
    assert "anna" in names(f"?q={entry.object_id}")
    assert "bert" not in names(f"?q={entry.object_id}")
    assert names(f"?action={actions.ROTATE}") == {"bert"}
    assert names("?q=unknown") == set()


def test_hostile_queries_are_no_server_error(entry: Entry):
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("root"))

    for query in ("?action=%00", "?q=%00", "?q=" + "9" * 40, "?object_type=x&object_id=y", "?details__contains=a"):
        assert client.get(rows.listing(NAME, query)).status_code in (200, 302, 400), query


def test_an_update_that_changes_nothing_passes(entry: Entry):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE audit_log_entries SET actor = actor, details = details")

    assert Entry.objects.get().actor == entry.actor
