"""Request bodies: read only as far as they may go, and as strictly as payloads."""

from __future__ import annotations

from typing import Any, TypeVar

from django.http import HttpRequest
from pydantic import BaseModel, ValidationError

from events import payloads
from events.errors import InvalidEvent

from . import problems
from .problems import Problem

SMALL = 64 * 1024
MEDIA_TYPE = "application/json"
UNENCODED = {"Content-Encoding": ("", "identity"), "Transfer-Encoding": ("", "identity", "chunked")}
Model = TypeVar("Model", bound=BaseModel)


def text(request: HttpRequest, most: int) -> str:
    """The body of a JSON request; nothing is read of one that says it is too long."""
    if not has_body(request):
        raise problems.invalid("body", "is empty; send a JSON object")
    _require_json(request)
    _require_unencoded(request)
    body = _bytes(request, most)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise problems.invalid("body", "is not UTF-8") from None


def read(request: HttpRequest, model: type[Model]) -> Model:
    """A small JSON object as the model says; what is wrong with it names the field."""
    return _validated(text(request, SMALL), model)


def read_if_given(request: HttpRequest, model: type[Model]) -> Model:
    """The same for a body that may be left out."""
    return read(request, model) if has_body(request) else model()


def has_body(request: HttpRequest) -> bool:
    return _length(request) > 0 or _is_chunked(request)


def documented(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """For an operation's `openapi_extra`."""
    schema = model.model_json_schema(ref_template="{model}")
    whole = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": required, "content": {MEDIA_TYPE: {"schema": whole}}}}


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """With its parts where they are referred to: ninja collects only those of models that it reads itself."""
    if isinstance(schema, list):
        return [_inlined(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[schema["$ref"]], parts)
    return {name: _inlined(each, parts) for name, each in schema.items()}


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
        faults = [(_place(fault["loc"]), fault["msg"]) for fault in error.errors(include_url=False)]
        raise Problem(422, "; ".join(f"{field}: {why}" for field, why in faults), faults) from None


def _place(location: tuple[int | str, ...]) -> str:
    place = ""
    for part in location:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return place or "body"


def _require_json(request: HttpRequest) -> None:
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if request.content_type != MEDIA_TYPE or charset not in ("utf-8", "utf8"):
        raise Problem(415, f"Send JSON in UTF-8, with the header Content-Type: {MEDIA_TYPE}.")


def _require_unencoded(request: HttpRequest) -> None:
    """Nothing is unpacked here: how long it would become is known only afterwards."""
    for header, unencoded in UNENCODED.items():
        if request.headers.get(header, "").strip().lower() not in unencoded:
            why = f"The header {header} says that the body is encoded, which is not read here: send it unencoded."
            raise Problem(415, why, headers={"Accept-Encoding": "identity"})


def _bytes(request: HttpRequest, most: int) -> bytes:
    if _is_chunked(request):
        return _chunked(request, most)
    length = _length(request)
    if length > most:
        raise _too_long(most)
    body = request.read(length)
    if len(body) != length:
        # The beginning of an event may well be an event; it is not the one that was meant.
        raise problems.cut_short()
    return body


def _chunked(request: HttpRequest, most: int) -> bytes:
    """A body that does not say how long it is: Django would take it for empty."""
    environ = getattr(request, "environ", {})
    if not environ.get("wsgi.input_terminated"):
        raise Problem(411, "Send the body's length in the header Content-Length.")
    try:
        body: bytes = environ["wsgi.input"].read(most + 1)
    except Exception:  # noqa: BLE001  # each web server has its own for chunks that are none, and nothing else runs here
        raise problems.cut_short() from None
    if len(body) > most:
        raise _too_long(most)
    return body


def _is_chunked(request: HttpRequest) -> bool:
    return "chunked" in request.headers.get("Transfer-Encoding", "").lower()


def _length(request: HttpRequest) -> int:
    try:
        return int(request.headers.get("Content-Length") or 0)
    except ValueError:
        return 0  # Django takes it for no body as well


def _too_long(most: int) -> Problem:
    why = f"has more than {most} bytes, which is the most that is taken here"
    return Problem(413, f"The body {why}.", [("body", why)])
