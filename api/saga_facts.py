"""The tracker's verbs, for services that call the hub instead of publishing events. Each records a fact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Header, Status

from workflows import services
from workflows.models import Instance
from workflows.services import InvalidFact, KeyConflict, NotCompensating, NothingToClose, Recorded, TooManyRepeats
from workflows.state import DONE, FAILURE, FINISHED, UNDO_FAILED, UNDONE

from . import envelopes, parsing, problems
from .auth import ApiKeyAuth, caller_of
from .problems import Problem
from .sagas import get_or_404, router
from .schemas.sagas import FactRecorded, FactRequest, FailIn, StartIn, StepIn, UndoFailedIn, UndoneIn
from .scopes import SAGAS_WRITE

MAY_REPORT = ApiKeyAuth(SAGAS_WRITE)
ACTOR_LENGTH = 150
RESPONSES = {201: FactRecorded, 200: FactRecorded}
ERRORS = (409, 411, 413, 415)

IdempotencyKey: Any = Header(  # type: ignore[type-arg]
    None, alias="Idempotency-Key", max_length=200, description="The same as idempotency_key."
)


@router.post(
    "",
    auth=MAY_REPORT,
    response=RESPONSES,
    summary="Start a run",
    openapi_extra=problems.documented(*ERRORS) | parsing.documented(StartIn),
)
def start(request: HttpRequest, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """There is one run for each type and correlation id; if it exists, the fact is recorded for it."""
    given = parsing.read(request, StartIn)
    return respond(
        lambda: services.start(
            given.saga_type,
            given.correlation_id,
            idempotency_key=key_of(given, idempotency_key),
            actor=actor_of(request),
            aggregate_id=given.aggregate_id,
        )
    )


@router.post(
    "/{saga_id}/step",
    auth=MAY_REPORT,
    response=RESPONSES,
    summary="Report that a step is done",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(StepIn),
)
def step(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    given = parsing.read(request, StepIn)
    return _report(request, saga_id, DONE, given, idempotency_key, given.step)


@router.post(
    "/{saga_id}/complete",
    auth=MAY_REPORT,
    response=RESPONSES,
    summary="Report that a run is complete",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(FactRequest, required=False),
)
def complete(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """Completes the run whatever the state of its steps, unless one has failed."""
    return _report(request, saga_id, FINISHED, parsing.read_if_given(request, FactRequest), idempotency_key)


@router.post(
    "/{saga_id}/fail",
    auth=MAY_REPORT,
    response=RESPONSES,
    summary="Report that a step or the run has failed",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(FailIn, required=False),
)
def fail(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """The hub requests the compensation of all done steps."""
    given = parsing.read_if_given(request, FailIn)
    return _report(request, saga_id, FAILURE, given, idempotency_key, given.step or "", given.error)


@router.post(
    "/{saga_id}/compensated",
    auth=MAY_REPORT,
    response=RESPONSES,
    summary="Report that a step or everything is undone",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(UndoneIn, required=False),
)
def compensated(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[FactRecorded]:
    """Without a step, everything is undone. This needs a failed run; otherwise the response is 409."""
    given = parsing.read_if_given(request, UndoneIn)
    return _report(request, saga_id, UNDONE, given, idempotency_key, given.step or "")


@router.post(
    "/{saga_id}/compensation-failed",
    auth=MAY_REPORT,
    response=RESPONSES,
    summary="Report that a step cannot be undone",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(UndoFailedIn),
)
def compensation_failed(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[FactRecorded]:
    """The run then needs an operator."""
    given = parsing.read(request, UndoFailedIn)
    return _report(request, saga_id, UNDO_FAILED, given, idempotency_key, given.step, given.error)


def respond(record: Callable[[], Recorded]) -> Status[FactRecorded]:
    recorded = record_or_problem(record)
    body = FactRecorded(saga=recorded.instance.saga_id, fact=recorded.fact_id, created=recorded.created)
    return Status(201 if recorded.created else 200, body)


def record_or_problem(record: Callable[[], Recorded]) -> Recorded:
    try:
        return record()
    except InvalidFact as error:
        raise problems.invalid(FIELDS.get(error.field, error.field), error.why) from None
    except KeyConflict as error:
        why = "belongs to another fact of this run"
        raise Problem(409, f"idempotency_key {error.key!r} {why}.", [("idempotency_key", why)]) from None
    except NotCompensating as error:
        raise Problem(409, f"Nothing was recorded: {error}.", [("step", error.remedy)]) from None
    except NothingToClose as error:
        raise Problem(409, f"Nothing was recorded: {error}.") from None
    except TooManyRepeats as error:
        raise Problem(409, f"{error}.", [("idempotency_key", error.why)]) from None


# Fields with another name in the service.
FIELDS = {"correlation_key": "correlation_id"}


def key_of(given: FactRequest, header: str | None) -> str:
    header = envelopes.idempotency_key(header, "idempotency_key")
    if given.idempotency_key is not None and header is not None and given.idempotency_key != header:
        raise problems.invalid("idempotency_key", "differs from the header Idempotency-Key; give only one")
    key = given.idempotency_key or header
    if not key:
        raise problems.invalid("idempotency_key", "is missing; give it here or in the header Idempotency-Key")
    return key


def actor_of(request: HttpRequest) -> str:
    return f"API key {caller_of(request).key.name}"[:ACTOR_LENGTH]


def _report(
    request: HttpRequest,
    saga_id: UUID,
    role: str,
    given: FactRequest,
    header: str | None,
    step: str = "",
    error: str = "",
) -> Status[FactRecorded]:
    instance: Instance = get_or_404(saga_id)
    key, actor = key_of(given, header), actor_of(request)
    return respond(lambda: services.report(instance, role, step, idempotency_key=key, actor=actor, error=error))
