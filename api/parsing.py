"""Reads request bodies, with a limit on their size and as strictly as payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.http import HttpRequest
from django.utils.http import parse_header_parameters
from pydantic import BaseModel, ValidationError

from events import payloads
from events.errors import InvalidEvent

from . import problems
from .problems import Problem

MODEL_BYTES = 64 * 1024
MEDIA_TYPE = "application/json"
REFERENCE = "#/components/schemas/{model}"
UNENCODED = {
    "HTTP_CONTENT_ENCODING": ("Content-Encoding", ("", "identity")),
    "HTTP_TRANSFER_ENCODING": ("Transfer-Encoding", ("", "identity", "chunked")),
}
Environ = Mapping[str, Any]  # of WSGI; also request.META
Model = TypeVar("Model", bound=BaseModel)


def text(environ: Environ, limit: int) -> str:
    """The body of a JSON request. A body whose Content-Length exceeds `limit` bytes is not read."""
    if not _has_body(environ):
        raise problems.invalid("body", "is empty; send a JSON object")
    _require_json(environ)
    _require_unencoded(environ)
    body = _bytes(environ, limit)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise problems.invalid("body", "is not UTF-8") from None


def read(request: HttpRequest, model: type[Model], limit: int = MODEL_BYTES) -> Model:
    """The body as an instance of the model. Raises a Problem that names the wrong fields."""
    return _validated(text(request.META, limit), model)


def read_if_given(request: HttpRequest, model: type[Model]) -> Model:
    """Like read, for an optional body."""
    return read(request, model) if _has_body(request.META) else model()


def idempotency_key(header: str | None, field: str) -> str | None:
    """The header, which is limited to ASCII; `field` is the field of the body that accepts other characters."""
    if header is not None and not header.isascii():
        raise problems.invalid("Idempotency-Key", f"must consist of ASCII characters; use {field} for others")
    return not_blank(header)


def not_blank(header: str | None) -> str | None:
    if header is not None and not header.strip():
        raise problems.invalid("Idempotency-Key", "must not be empty; send a key or omit the header")
    return header


def _has_body(environ: Environ) -> bool:
    return _length(environ) > 0 or _is_chunked(environ)


def documented(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The request body, for an operation's `openapi_extra`. HubAPI adds the models that this one contains."""
    schema = model.model_json_schema(ref_template=REFERENCE)
    schema.pop("$defs", None)
    return {"requestBody": {"required": required, "content": {MEDIA_TYPE: {"schema": schema}}}}


def _validated(body: str, model: type[Model]) -> Model:
    try:
        value = payloads.parse(body)
    except InvalidEvent as error:
        raise problems.invalid("body", error.why) from None
    if not isinstance(value, dict):
        raise problems.invalid("body", "must be a JSON object")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        errors = [(_place(item["loc"]), item["msg"]) for item in error.errors(include_url=False)]
        raise problems.invalid_fields(errors) from None


def _place(location: tuple[int | str, ...]) -> str:
    place = ""
    for part in location:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return place or "body"


def _require_json(environ: Environ) -> None:
    content_type = environ.get("CONTENT_TYPE", "")
    if content_type == MEDIA_TYPE:
        return
    media_type, parameters = parse_header_parameters(content_type)
    if media_type != MEDIA_TYPE or parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise Problem(415, f"Send JSON in UTF-8, with the header Content-Type: {MEDIA_TYPE}.")


def _require_unencoded(environ: Environ) -> None:
    """Compressed bodies are refused: their decompressed size is not known in advance."""
    for variable, (header, unencoded) in UNENCODED.items():
        if environ.get(variable, "").strip().lower() not in unencoded:
            detail = f"The value of {header} is not supported; send the body unencoded."
            raise Problem(415, detail, headers={"Accept-Encoding": "identity"})


def _bytes(environ: Environ, limit: int) -> bytes:
    is_chunked = _is_chunked(environ)
    if is_chunked and not environ.get("wsgi.input_terminated"):
        raise Problem(411, "The header Content-Length is missing; send the length of the body.")
    length = limit + 1 if is_chunked else _length(environ)
    if not is_chunked and length > limit:
        raise _too_long(limit)
    try:
        body: bytes = environ["wsgi.input"].read(length)
    except Exception:  # noqa: BLE001  # each web server has its own exception for malformed chunks
        raise problems.cut_short() from None
    if len(body) > limit:
        raise _too_long(limit)
    if not is_chunked and len(body) != length:
        # A truncated batch may be valid JSON by accident.
        raise problems.cut_short()
    return body


def _is_chunked(environ: Environ) -> bool:
    return "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()


def _length(environ: Environ) -> int:
    try:
        return int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0  # as Django does


def _too_long(limit: int) -> Problem:
    why = f"is too large; send at most {limit} bytes"
    return Problem(413, f"body {why}.", [("body", why)])
