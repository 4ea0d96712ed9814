"""Clients of the API, each with its own key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from api import keys, limits
from api.scopes import EVENTS_WRITE, READ, REQUEUE, SCOPES
from tests.support.web import WebServer


class Program:
    """Sends requests with a key, and checks that every error is a problem document and every success is JSON."""

    def __init__(self, text: str, name: str = "") -> None:
        self.text = text
        self.name = name
        self._client = Client(raise_request_exception=False)

    def get(self, path: str, **parameters: Any) -> Any:
        return self._checked(self._client.get(f"/api/v1{path}", parameters, headers=self._headers()))

    def ids(self, path: str, **parameters: Any) -> list[int]:
        """The ids of all items of a list, page by page."""
        ids: list[int] = []
        cursor: dict[str, str] = {}
        for _ in range(1000):
            response = self.get(path, **parameters, **cursor)
            assert response.status_code == 200, response.content
            page = response.json()
            assert len(page["items"]) <= int(parameters.get("limit", 50))
            ids += [item["id"] for item in page["items"]]
            if page["next"] is None:
                return ids
            cursor = {"cursor": page["next"]}
        raise AssertionError("the list has no end")

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("POST", path, None if body is None else json.dumps(body).encode(), **headers)

    def patch(self, path: str, body: Any) -> Any:
        return self.send("PATCH", path, json.dumps(body).encode())

    def send(self, method: str, path: str, body: bytes | None, content_type: str = "application/json", **headers: str):
        """Send `body` unchanged. Underscores in the names of headers become dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self._client.generic(
            method, f"/api/v1{path}", body or b"", content_type, headers={**self._headers(), **named}
        )
        return self._checked(response)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.text}"} if self.text else {}

    @staticmethod
    def _checked(response: Any) -> Any:
        if response.status_code >= 400:
            assert response["Content-Type"] == "application/problem+json", response.content
            problem = response.json()
            assert problem["status"] == response.status_code
            assert problem["title"]
            assert problem["detail"]
        else:
            assert response["Content-Type"].startswith("application/json")
        return response


def iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


@pytest.fixture(scope="session")
def _running(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    # Only one port is allowed in a callback URL: no test may send requests elsewhere.
    with WebServer(tmp_path_factory.mktemp("web"), WEBHOOKHUB_ALLOWED_PORTS="1025") as running:
        yield running


@pytest.fixture
def web(_running: WebServer) -> Iterator[WebServer]:
    """A real server of two processes, which must not log an unexpected error during the test."""
    before = len(_running.log)
    yield _running
    assert "api_failed" not in _running.log[before:]


@pytest.fixture(autouse=True)
def _fresh_buckets() -> None:
    """The keys of different tests have the same id."""
    limits._buckets.clear()


@pytest.fixture
def program() -> Callable[..., Program]:
    """Creates a key: program("shop", "events:write", source="shop")."""

    def make(name: str, *scopes: str, **options: Any) -> Program:
        return Program(keys.create(name, scopes, by="tests", **options)[1], name)

    return make


@pytest.fixture
def hub_wide(db: None, program: Callable[..., Program]) -> Program:
    return program("everything", *SCOPES)


@pytest.fixture
def shop(db: None, program: Callable[..., Program]) -> Program:
    return program("shop key", EVENTS_WRITE, READ, REQUEUE, source="shop")
