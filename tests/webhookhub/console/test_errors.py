"""What the console cannot answer it says in its own look and in plain words, with a way on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.support import rows
from webhookhub.console.middleware import POLICY

pytestmark = pytest.mark.django_db

MENU = "hub-find-aside"


def said(answer: object, status: int, title: str) -> str:
    """The page's text, once it is known to be one of the console's."""
    assert answer.status_code == status  # type: ignore[attr-defined]
    page: str = answer.content.decode()  # type: ignore[attr-defined]
    assert "console/console.css" in page
    assert re.search(rf"<title>\s*{title} \| WebhookHub\s*</title>", page)
    assert f'href="{reverse("admin:index")}"' in page
    assert answer["Content-Security-Policy"] == POLICY  # type: ignore[index]
    return page


def test_an_unknown_address_leads_to_the_search(viewer: Client):
    page = said(viewer.get("/admin/nothing/of/the/kind/"), 404, "There is nothing here")

    assert "Search for what you look for" in page
    assert MENU in page


def test_an_unknown_address_outside_the_console_says_so_to_strangers_too(client: Client):
    assert MENU not in said(client.get("/nothing/"), 404, "There is nothing here")


def test_a_missing_permission_names_the_user_and_whom_to_ask(member: Callable[[str], Client]):
    page = said(member("support").get(rows.listing("auditlog_entry")), 403, "You may not do this")

    assert "your user support has no permission for it" in page
    assert "whoever manages the users" in page
    assert MENU in page


def test_a_request_that_cannot_be_read_says_why_where_the_hub_knows(superuser: Client):
    subscription = rows.one_of_each()["subscriptions_subscription"]
    address = reverse("admin:subscription_backfill", args=[subscription])

    page = said(superuser.post(address, {"run": "forged"}), 400, "This request cannot be read")

    assert "This page was changed on its way; begin again." in page
    page = said(superuser.get(rows.listing("sagas_saga", "?secret=1")), 400, "This request cannot be read")
    assert "secret" not in page


def test_a_name_under_which_the_hub_is_not_served_is_explained(client: Client):
    page = said(client.get("/admin/", headers={"host": "elsewhere.example"}), 400, "This request cannot be read")

    assert "WEBHOOKHUB_ALLOWED_HOSTS" in page
    assert "elsewhere" not in page


def test_a_form_that_is_too_old_says_that_nothing_was_done():
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))

    page = said(client.post(reverse("admin:logout")), 403, "This page has become too old")

    assert "Nothing was done." in page


@pytest.mark.parametrize("verb", ["verify", "test"])
def test_whoever_comes_to_a_buttons_address_from_the_login_is_told_to_press_it_again(superuser: Client, verb: str):
    subscription = rows.one_of_each()["subscriptions_subscription"]
    address = reverse(f"admin:subscriptions_subscription_{verb}", args=[subscription])

    answer = superuser.get(address)

    assert "press it once more" in said(answer, 405, "This is done with a button")
    assert answer["Allow"] == "POST"


def test_an_error_of_the_hubs_own_asks_nothing_of_what_may_have_failed(
    superuser: Client, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
):
    def fail(*args: object) -> None:
        raise RuntimeError("a secret of the hub's")

    monkeypatch.setattr("webhookhub.console.views.search.find", fail)
    superuser.raise_request_exception = False

    with django_assert_num_queries(2):  # session and user, asked before it went wrong
        page = said(superuser.get(reverse("admin:find")), 500, "Something went wrong in the hub")

    assert "look before you do it again" in page
    assert "secret" not in page


def test_the_api_keeps_its_problem_documents(client: Client):
    answer = client.get("/api/v1/nothing")

    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    answer = client.get("/api/v1/events", headers={"host": "elsewhere.example"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")


def test_they_are_translated(db: None):
    chinese = Client(headers={"accept-language": "zh-TW"})

    assert '<html lang="zh-hant"' in chinese.get("/nothing/").content.decode()
