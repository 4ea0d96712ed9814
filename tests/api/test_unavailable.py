"""A database that cannot work now is a 503 with a time to retry; any other error of it is a 500."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection

from .conftest import Program

pytestmark = pytest.mark.django_db

EVENT = {"event_type": "order.created", "payload": {"n": 1}}


def failing(code: int) -> Callable[..., Any]:
    def execute(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "events" in sql:
            raise OperationalError(code, "a secret of the server's")
        return execute(sql, params, many, context)

    return execute


@pytest.mark.parametrize("code", [2006, 2013, 1290, 1792, 3032, 6400, 3100, 1047, 1114, 1205, 1040, 3024])
@pytest.mark.parametrize("path", ["/events", "/events/batch"])
def test_an_event_is_to_be_sent_again(shop: Program, path: str, code: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("webhookhub.db.retry.FIRST_PAUSE_SECONDS", 0.0)
    with connection.execute_wrapper(failing(code)):
        response = shop.post(path, EVENT if path == "/events" else {"events": [EVENT]})

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert response["Content-Type"] == "application/problem+json"
    assert "secret" not in response.content.decode()


def test_another_error_of_the_database_is_a_500(shop: Program):
    with connection.execute_wrapper(failing(1317)):
        response = shop.post("/events", EVENT)

    assert response.status_code == 500
    assert "Retry-After" not in response
