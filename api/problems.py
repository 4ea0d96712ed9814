"""API errors as problem documents (RFC 9457)."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from pydantic import BaseModel, Field

from webhookhub.db.denied import log_denied
from webhookhub.db.errors import Kind, kind_of
from webhookhub.logs import Log, log
from workflows.parsing import InvalidDefinition

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
# Current names; those of http.HTTPStatus are outdated.
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
    """An error that becomes the response when it is raised in a request."""

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
        return {
            "type": "about:blank",
            "title": _title(self.status),
            "status": self.status,
            "detail": self.detail,
            **({"errors": [{"field": field, "message": why} for field, why in self.errors]} if self.errors else {}),
            **({"uid": self.uid} if self.uid else {}),
        }

    def body(self) -> bytes:
        return json.dumps(self.document(), ensure_ascii=False).encode(errors="replace")

    def response(self) -> HttpResponse:
        return HttpResponse(self.body(), status=self.status, content_type=MEDIA_TYPE, headers=self.headers)


def invalid(field: str, why: str) -> Problem:
    return Problem(422, f"{field} {why}.", [(field, why)])


def invalid_fields(errors: Sequence[tuple[str, str]]) -> Problem:
    return Problem(422, "; ".join(f"{field}: {why}" for field, why in errors), errors)


def not_found(detail: str = "This URL does not exist.") -> Problem:
    return Problem(404, detail)


def cut_short() -> Problem:
    return Problem(400, "The request body is incomplete. Nothing was stored.")


def unavailable(detail: str) -> Problem:
    return Problem(503, detail, headers={"Retry-After": str(RETRY_SECONDS)})


def no_database() -> Problem:
    return unavailable("The database is unavailable; retry.")


def unexpected() -> Problem:
    return Problem(500, "Internal error. The hub's log has the details.")


def documented(*statuses: int) -> dict[str, Any]:
    """Error responses for an operation's `openapi_extra`: these statuses and those that every operation may have."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    from_the_server = {
        status: {"description": f"{_title(status)}: sent by the web server as plain text or an HTML page."}
        for status in (414, 431)
    }
    return {
        "responses": from_the_server
        | {
            status: {
                "description": _title(status),
                "content": content,
                **({"headers": RETRY_AFTER} if status in (429, 503) else {}),
            }
            for status in (400, 401, 403, *statuses, 422, 503)
        }
    }


def install(api: NinjaAPI) -> None:
    """Turns ninja's own errors into problem documents, too."""
    handlers: dict[type[Exception], Any] = {
        Problem: lambda request, error: error.response(),
        ValidationError: _invalid_parameters,
        HttpError: lambda request, error: Problem(error.status_code, str(error)).response(),
        InvalidDefinition: _invalid_definition,
        Http404: lambda request, error: not_found().response(),
        UnreadablePostError: lambda request, error: cut_short().response(),
        RequestAborted: lambda request, error: cut_short().response(),
        Exception: lambda request, error: of_exception(error, request.path).response(),
    }
    for kind, handler in handlers.items():
        api.add_exception_handler(kind, handler)


def _invalid_parameters(request: HttpRequest, error: ValidationError) -> HttpResponse:
    return invalid_fields([(_field(item["loc"]), item["msg"]) for item in error.errors]).response()


def _invalid_definition(request: HttpRequest, error: InvalidDefinition) -> HttpResponse:
    """The response names the invalid file, so that the caller can report it to the operator."""
    log(Log.API_FAILED, error=type(error).__name__, where=str(error))
    return unavailable(f"Workflows are unavailable: {error}.").response()


def of_exception(error: Exception, path: str) -> Problem:
    """Logs the exception. The problem says nothing about it, because its message may contain anything."""
    kind = kind_of(error)
    if kind.is_temporary:
        log(Log.DATABASE_LOST, process="web", error=type(error).__name__, cause=kind.value)
        return no_database()
    if kind is Kind.DENIED:
        return unavailable(log_denied(error))
    log(Log.API_FAILED, error=type(error).__name__, where=_where(error), path=path)
    return unexpected()


def _where(error: Exception) -> str:
    """The traceback through our own files, without the message, which may quote the request."""
    base = Path(settings.BASE_DIR)
    frames = [
        f"{Path(frame.filename).relative_to(base)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(base) and "site-packages" not in frame.filename
    ]
    return " > ".join(frames[-5:])


def _field(location: Sequence[Any]) -> str:
    """ninja's locations are (source, argument…, field); the source is query, path or header."""
    return str(location[-1]) if len(location) > 1 else "request"


def _title(status: int) -> str:
    return TITLES.get(status) or HTTPStatus(status).phrase
