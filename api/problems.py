"""Every error in one shape (RFC 9457), which names the field and says what would be right."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.db import Error as DatabaseFault
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from pydantic import BaseModel, Field

from webhookhub.db import vendors
from webhookhub.logs import Fact, log
from workflows.parsing import InvalidDefinition

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
# Their names of today; the library's are older.
TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}


class FieldError(BaseModel):
    field: str = Field(description="Such as event_type, or events[3].payload in a batch.")
    message: str


class ProblemDocument(BaseModel):
    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []
    uid: str | None = Field(None, description="In a conflict: the event that has this external_id.")


class Problem(Exception):
    """Raised anywhere in a request, it becomes the answer."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[tuple[str, str]] = (),
        *,
        headers: Mapping[str, str] | None = None,
        uid: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.uid = uid

    def document(self) -> dict[str, Any]:
        title = TITLES.get(self.status) or HTTPStatus(self.status).phrase
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            **({"errors": [{"field": field, "message": why} for field, why in self.errors]} if self.errors else {}),
            **({"uid": self.uid} if self.uid else {}),
        }

    def response(self) -> HttpResponse:
        text = json.dumps(self.document(), ensure_ascii=False).encode(errors="replace")
        return HttpResponse(text, status=self.status, content_type=MEDIA_TYPE, headers=self.headers)


def invalid(field: str, why: str) -> Problem:
    return Problem(422, f"{field} {why}.", [(field, why)])


def not_found(what: str = "There is nothing at this address.") -> Problem:
    return Problem(404, what)


def cut_short() -> Problem:
    return Problem(400, "The request's body did not arrive whole; nothing was stored.")


def unavailable() -> Problem:
    return Problem(
        503, "The database cannot be reached at the moment; try again.", headers={"Retry-After": str(RETRY_SECONDS)}
    )


def of_definition(error: InvalidDefinition) -> Problem:
    """Whoever runs the hub has to put a file right, and the caller may tell them which. Nothing was recorded."""
    log(Fact.API_FAILED, error=type(error).__name__, where=str(error))
    return Problem(
        503, f"Workflows cannot be followed at the moment: {error}.", headers={"Retry-After": str(RETRY_SECONDS)}
    )


def unexpected() -> Problem:
    return Problem(500, "Something went wrong on the hub's side. Nothing more is said here; its log says where.")


def documented(*statuses: int) -> dict[str, Any]:
    """For an operation's `openapi_extra`: the errors that it may answer with, besides those of every operation."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    from_the_server = {
        status: {"description": f"{HTTPStatus(status).phrase}: from the web server, which reads no further."}
        for status in (414, 431)
    }
    return {
        "responses": from_the_server
        | {
            status: {
                "description": TITLES.get(status) or HTTPStatus(status).phrase,
                "content": content,
                **({"headers": RETRY_AFTER} if status in (429, 503) else {}),
            }
            for status in (400, 401, 403, *statuses, 422, 503)
        }
    }


def install(api: NinjaAPI) -> None:
    """Make all of ninja's own errors problems too."""
    handlers: dict[type[Exception], Any] = {
        Problem: lambda request, error: error.response(),
        ValidationError: lambda request, error: _of_parameters(error).response(),
        HttpError: lambda request, error: Problem(error.status_code, str(error)).response(),
        InvalidDefinition: lambda request, error: of_definition(error).response(),
        Http404: lambda request, error: not_found().response(),
        UnreadablePostError: lambda request, error: cut_short().response(),
        RequestAborted: lambda request, error: cut_short().response(),
        Exception: of_exception,
    }
    for kind, handler in handlers.items():
        api.add_exception_handler(kind, handler)


def of_exception(request: HttpRequest, error: Exception) -> HttpResponse:
    """Whatever was not foreseen: nothing of it is told, because it may hold anything."""
    if isinstance(error, DatabaseFault) and (vendors.is_lost(error) or vendors.is_conflict(error)):
        log(Fact.DATABASE_LOST, process="web", error=type(error).__name__)
        return unavailable().response()
    log(Fact.API_FAILED, error=type(error).__name__, where=_where(error), path=request.path)
    return unexpected().response()


def _where(error: Exception) -> str:
    """The way to the fault through our own files; the message is left out, for it may quote what was sent."""
    base = Path(settings.BASE_DIR)
    frames = [
        f"{Path(frame.filename).relative_to(base)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(base) and "site-packages" not in frame.filename
    ]
    return " > ".join(frames[-5:])


def _of_parameters(error: ValidationError) -> Problem:
    """In ninja's words the first part of a place says where from (query, path), the second is often the argument."""
    errors = [(_field(fault["loc"]), fault["msg"]) for fault in error.errors]
    return Problem(422, "; ".join(f"{field}: {why}" for field, why in errors), errors)


def _field(place: Sequence[Any]) -> str:
    parts = [str(part) for part in place[1:]]
    return parts[-1] if parts else "request"
