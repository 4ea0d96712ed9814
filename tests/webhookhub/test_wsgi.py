"""Requests with an unreadable Content-Type are refused before they reach Django."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from webhookhub.wsgi import refusing_unreadable_content_types


def respond(content_type: str, path: str, method: str = "POST") -> tuple[str, bytes]:
    statuses: list[str] = []

    def django(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        return [b"django"]

    environ = {"CONTENT_TYPE": content_type, "PATH_INFO": path, "REQUEST_METHOD": method}
    body = refusing_unreadable_content_types(django)(environ, lambda status, headers: statuses.append(status))
    return statuses[0], b"".join(body)


@pytest.mark.parametrize("content_type", ["", "application/json", "text/plain; charset=UTF-8", "a/b; charset=unknown"])
def test_a_readable_content_type_reaches_django(content_type: str):
    assert respond(content_type, "/api/v1/events") == ("200 OK", b"django")


@pytest.mark.parametrize("content_type", ["a/b; charset=rot13", "a/b; charset=idna", "a/b; x*=unknown'en'%41"])
def test_an_unreadable_content_type_is_refused(content_type: str):
    status, body = respond(content_type, "/api/v1/events")
    assert status == "400 Bad Request"
    assert json.loads(body)["detail"].startswith("The header Content-Type cannot be read")

    status, body = respond(content_type, "/admin/login/")
    assert (status, body) == (
        "400 Bad Request",
        b"The header Content-Type cannot be read; write it as application/json.\n",
    )
    assert respond(content_type, "/admin/", "HEAD") == ("400 Bad Request", b"")
