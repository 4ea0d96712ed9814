"""Facts about runs: reports of services that call the hub instead of publishing events, and operators' actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.http import HttpRequest
from ninja import Header, Status
from pydantic import BaseModel

from workflows import redelivery, services
from workflows.services import Conflict, InvalidFact, Recorded
from workflows.state import CLOSED, DONE, FAILURE, FINISHED, UNDO_FAILED, UNDONE

from . import parsing, problems
from .auth import ApiKeyAuth, caller_of
from .problems import Problem
from .sagas import get_or_404, router
from .schemas.sagas import (
    CloseIn,
    FactRecorded,
    FactRequest,
    FailIn,
    MarkIn,
    RetryIn,
    RetryOut,
    StartIn,
    StepIn,
    UndoFailedIn,
    UndoneIn,
)
from .scopes import SAGAS_OPERATE, SAGAS_WRITE

MAY_REPORT = ApiKeyAuth(SAGAS_WRITE)
MAY_ACT = ApiKeyAuth(SAGAS_OPERATE, hub_wide="workflows")
ACTOR_LENGTH = 150
# Fields with another name in the service.
FIELDS = {"correlation_key": "correlation_id"}

View = TypeVar("View", bound=Callable[..., Any])
Result = TypeVar("Result")
IdempotencyKey: Any = Header(  # type: ignore[type-arg]
    None, alias="Idempotency-Key", max_length=200, description="The same as idempotency_key."
)


def post(
    path: str,
    summary: str,
    body: type[BaseModel],
    *,
    auth: ApiKeyAuth = MAY_REPORT,
    required: bool = True,
    response: type[BaseModel] = FactRecorded,
) -> Callable[[View], View]:
    """Register an operation: 201 for a new fact, 200 for a repetition."""
    errors = (409, 411, 413, 415) if not path else (404, 409, 411, 413, 415)
    register: Callable[[View], View] = router.post(
        path,
        auth=auth,
        response={201: response, 200: response},
        summary=summary,
        openapi_extra=problems.documented(*errors) | parsing.documented(body, required=required),
    )
    return register


@post("", "Start a run", StartIn)
def start(request: HttpRequest, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """There is one run for each type and correlation id; if it exists, the fact is recorded for it."""
    body = parsing.read(request, StartIn)
    return _respond(
        lambda: services.start(
            body.saga_type,
            body.correlation_id,
            idempotency_key=_key(body, idempotency_key),
            actor=_actor(request),
            aggregate_id=body.aggregate_id,
        )
    )


@post("/{saga_id}/step", "Report that a step is done", StepIn)
def step(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    body = parsing.read(request, StepIn)
    return _report(request, saga_id, DONE, body, idempotency_key, body.step)


@post("/{saga_id}/complete", "Report that a run is complete", FactRequest, required=False)
def complete(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """Completes the run whatever the state of its steps, unless one has failed."""
    return _report(request, saga_id, FINISHED, parsing.read_if_given(request, FactRequest), idempotency_key)


@post("/{saga_id}/fail", "Report that a step or the run has failed", FailIn, required=False)
def fail(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """The hub requests the compensation of all done steps."""
    body = parsing.read_if_given(request, FailIn)
    return _report(request, saga_id, FAILURE, body, idempotency_key, body.step or "", body.error)


@post("/{saga_id}/compensated", "Report that a step or everything is undone", UndoneIn, required=False)
def compensated(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[FactRecorded]:
    """Without a step, everything is undone. This needs a failed run; otherwise the response is 409."""
    body = parsing.read_if_given(request, UndoneIn)
    return _report(request, saga_id, UNDONE, body, idempotency_key, body.step or "")


@post("/{saga_id}/compensation-failed", "Report that a step cannot be undone", UndoFailedIn)
def compensation_failed(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[FactRecorded]:
    """The run then needs an operator."""
    body = parsing.read(request, UndoFailedIn)
    return _report(request, saga_id, UNDO_FAILED, body, idempotency_key, body.step, body.error)


@post("/{saga_id}/retry", "Deliver again the events that a step reacts to", RetryIn, auth=MAY_ACT, response=RetryOut)
def retry(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[RetryOut]:
    """All dead letters, or the given delivery, which may be completed."""
    body = parsing.read(request, RetryIn)
    instance = get_or_404(saga_id)
    key, actor = _key(body, idempotency_key), _actor(request)
    recorded = _or_problem(
        lambda: redelivery.retry(
            instance, body.step, actor=actor, reason=body.reason, idempotency_key=key, delivery=body.delivery
        ),
        refusal="Nothing was done",
    )
    result = RetryOut(
        saga=instance.saga_id, fact=recorded.fact_id, created=recorded.created, deliveries=list(recorded.deliveries)
    )
    return Status(201 if recorded.created else 200, result)


@post("/{saga_id}/mark-compensated", "Record that a step or everything was undone by hand", MarkIn, auth=MAY_ACT)
def mark_compensated(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[FactRecorded]:
    """Without a step, everything is undone. This needs a failed run; otherwise the response is 409."""
    body = parsing.read(request, MarkIn)
    return _act(request, saga_id, UNDONE, body, idempotency_key, body.step or "")


@post("/{saga_id}/close", "Close a run", CloseIn, auth=MAY_ACT)
def close(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """An open run ends as FAILED. The hub requests nothing more, and the run no longer needs an operator.

    If the run has ended and needs no operator, the response is 409.
    """
    return _act(request, saga_id, CLOSED, parsing.read(request, CloseIn), idempotency_key)


def _report(
    request: HttpRequest,
    saga_id: UUID,
    role: str,
    body: FactRequest,
    header: str | None,
    step: str = "",
    error: str = "",
) -> Status[FactRecorded]:
    instance = get_or_404(saga_id)
    key, actor = _key(body, header), _actor(request)
    return _respond(lambda: services.report(instance, role, step, idempotency_key=key, actor=actor, error=error))


def _act(
    request: HttpRequest, saga_id: UUID, action: str, body: CloseIn, header: str | None, step: str = ""
) -> Status[FactRecorded]:
    instance = get_or_404(saga_id)
    key, actor = _key(body, header), _actor(request)
    return _respond(lambda: services.act(instance, action, step, idempotency_key=key, actor=actor, reason=body.reason))


def _respond(record: Callable[[], Recorded]) -> Status[FactRecorded]:
    recorded = _or_problem(record)
    result = FactRecorded(saga=recorded.instance.saga_id, fact=recorded.fact_id, created=recorded.created)
    return Status(201 if recorded.created else 200, result)


def _or_problem(record: Callable[[], Result], refusal: str = "Nothing was recorded") -> Result:
    try:
        return record()
    except InvalidFact as error:
        raise problems.invalid(FIELDS.get(error.field, error.field), error.why) from None
    except Conflict as error:
        details = [(error.field, error.why)] if error.field else []
        text = f"{error}." if error.field == "idempotency_key" else f"{refusal}: {error}."
        raise Problem(409, text, details) from None


def _key(body: FactRequest, header: str | None) -> str:
    header = parsing.idempotency_key(header, "idempotency_key")
    if body.idempotency_key is not None and header is not None and body.idempotency_key != header:
        raise problems.invalid("idempotency_key", "differs from the header Idempotency-Key; give only one")
    key = body.idempotency_key or header
    if not key:
        raise problems.invalid("idempotency_key", "is missing; give it here or in the header Idempotency-Key")
    return key


def _actor(request: HttpRequest) -> str:
    return f"API key {caller_of(request).key.name}"[:ACTOR_LENGTH]
