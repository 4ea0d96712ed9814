"""Error pages of the console; the API answers with problem documents."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from tests.support import rows
from webhookhub.console.middleware import POLICY

pytestmark = pytest.mark.django_db


def error_page(response: Any, status: int, title: str) -> str:
    """The HTML of the response, after the checks that every error page passes."""
    assert response.status_code == status
    page: str = response.content.decode()
    assert re.search(rf"<title>\s*{title} \| WebhookHub\s*</title>", page)
    assert f'href="{reverse("admin:index")}"' in page
    assert f'href="{reverse("admin:search")}"' in page
    assert response["Content-Security-Policy"] == POLICY
    return page


def test_not_found(viewer: Client, client: Client):
    error_page(viewer.get("/admin/no/such/page/"), 404, "Page not found")
    error_page(client.get("/nothing/"), 404, "Page not found")


def test_permission_denied_names_the_user(member: Callable[[str], Client]):
    page = error_page(member("support").get(rows.listing("auditlog_entry")), 403, "Permission denied")

    assert "The user support does not have permission for this." in page


def test_bad_request_does_not_repeat_the_request(superuser: Client):
    subscription = rows.one_of_each()["subscriptions_subscription"]
    backfill = reverse("admin:subscription_backfill", args=[subscription])

    error_page(superuser.post(backfill, {"run": "forged"}), 400, "Bad request")
    page = error_page(superuser.get(rows.listing("sagas_saga", "?secret=1")), 400, "Bad request")
    assert "secret" not in page


def test_a_host_that_is_not_allowed_is_explained(client: Client):
    page = error_page(client.get("/admin/", headers={"host": "elsewhere.example"}), 400, "Bad request")

    assert "WEBHOOKHUB_ALLOWED_HOSTS" in page
    assert "elsewhere" not in page


def test_a_missing_privilege_is_one_line_of_the_log_and_no_traceback(
    superuser: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def deny(*_: Any) -> None:
        raise OperationalError(1142, "SELECT command denied to user 'web'@'%' for table `hub`.`subscriptions`")

    monkeypatch.setattr("webhookhub.console.views.overview.span_named", deny)

    page = error_page(superuser.get(reverse("admin:index")), 503, "Temporarily unavailable")

    assert "The hub&#x27;s database user is not permitted to do this." in page
    assert "subscriptions" not in page.partition("database user")[2].partition("</main>")[0]
    [line] = [record for record in caplog.records if record.exc_info or "database_denied" in record.getMessage()]
    assert not line.exc_info
    for part in ("database_denied", "web", "SELECT", "subscriptions"):
        assert part in line.getMessage()


def test_a_csrf_failure_says_that_nothing_was_changed():
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))

    page = error_page(client.post(reverse("admin:logout")), 403, "Form expired")

    assert "Nothing was changed." in page


@pytest.mark.parametrize("action", ["verify", "test"])
def test_a_get_request_for_an_action_asks_to_press_the_button_again(superuser: Client, action: str):
    subscription = rows.one_of_each()["subscriptions_subscription"]

    response = superuser.get(reverse(f"admin:subscriptions_subscription_{action}", args=[subscription]))

    error_page(response, 405, "Press the button again")
    assert response["Allow"] == "POST"


def test_a_server_error_reads_nothing_from_the_database(
    superuser: Client, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
):
    def fail(*args: object) -> None:
        raise RuntimeError("a secret of the hub's")

    monkeypatch.setattr("webhookhub.console.views.search.find", fail)
    superuser.raise_request_exception = False

    with django_assert_num_queries(2):  # session and user, before the view
        page = error_page(superuser.get(reverse("admin:search")), 500, "Server error")

    assert "Your action may have completed. Check before you retry." in page
    assert "secret" not in page


@pytest.mark.parametrize("code", [2013, 1290, 3032, 1114, 1205, 1040, 1969])
def test_a_database_that_is_unavailable_is_a_503_with_a_time_to_retry(
    superuser: Client, monkeypatch: pytest.MonkeyPatch, code: int
):
    def fail(*args: object) -> None:
        raise OperationalError(code, "a secret of the server's")

    monkeypatch.setattr("webhookhub.console.views.search.find", fail)
    superuser.raise_request_exception = False

    response = superuser.get(reverse("admin:search"))

    page = error_page(response, 503, "Temporarily unavailable")
    assert response["Retry-After"] == "5"
    assert "Your action may have completed. Check before you retry." in page
    assert "secret" not in page


def test_a_database_that_is_lost_before_the_view_is_a_503(superuser: Client, monkeypatch: pytest.MonkeyPatch):
    """As when the session is read."""

    def fail(*args: object) -> None:
        raise OperationalError(2006, "gone away")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", fail)
    superuser.raise_request_exception = False

    response = superuser.get(reverse("admin:index"))

    error_page(response, 503, "Temporarily unavailable")
    assert response["Retry-After"] == "5"


def test_the_api_answers_with_problem_documents(client: Client):
    response = client.get("/api/v1/nothing")

    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    response = client.get("/api/v1/events", headers={"host": "elsewhere.example"})
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")


def test_error_pages_are_translated(db: None):
    client = Client(headers={"accept-language": "zh-TW"})

    page = client.get("/nothing/").content.decode()

    assert '<html lang="zh-hant"' in page
    assert "找不到頁面" in page
