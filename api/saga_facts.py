"""What services tell of a workflow when they would rather call than publish: the tracker's verbs, as facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Header, Status

from workflows import services
from workflows.compensation import NotCompensating
from workflows.models import Instance
from workflows.services import InvalidFact, KeyConflict, NothingToClose, Recorded, ToldTooOften
from workflows.words import DONE, FAILURE, FINISHED, UNDO_FAILED, UNDONE

from . import parsing, problems
from .auth import ApiKeyAuth, caller_of
from .problems import Problem
from .sagas import found_or_problem, router
from .schemas.sagas import FailIn, StartIn, StepIn, Told, ToldOut, UndoFailedIn, UndoneIn
from .scopes import SAGAS_WRITE

MAY_TELL = ApiKeyAuth(SAGAS_WRITE)
ACTOR_LENGTH = 150
ANSWERS = {201: ToldOut, 200: ToldOut}
ERRORS = (409, 411, 413, 415)

IdempotencyKey: Any = Header(  # type: ignore[type-arg]
    None, alias="Idempotency-Key", max_length=200, description="The same as idempotency_key."
)


@router.post(
    "",
    auth=MAY_TELL,
    response=ANSWERS,
    summary="Tell that a workflow starts",
    openapi_extra=problems.documented(*ERRORS) | parsing.documented(StartIn),
)
def start(request: HttpRequest, idempotency_key: str | None = IdempotencyKey) -> Status[ToldOut]:
    """There is one workflow for each type and correlation id: one that has begun already is the one meant."""
    given = parsing.read(request, StartIn)
    return told(
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
    auth=MAY_TELL,
    response=ANSWERS,
    summary="Tell that a step is done",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(StepIn),
)
def step(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[ToldOut]:
    given = parsing.read(request, StepIn)
    return _said(request, saga_id, DONE, given, idempotency_key, given.step)


@router.post(
    "/{saga_id}/complete",
    auth=MAY_TELL,
    response=ANSWERS,
    summary="Tell that a workflow is complete",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(Told, required=False),
)
def complete(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[ToldOut]:
    """Whatever is known of its steps; unless one of them has failed."""
    return _said(request, saga_id, FINISHED, parsing.read_if_given(request, Told), idempotency_key)


@router.post(
    "/{saga_id}/fail",
    auth=MAY_TELL,
    response=ANSWERS,
    summary="Tell that a step, or the whole, has failed",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(FailIn, required=False),
)
def fail(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[ToldOut]:
    """What was done will be asked to be undone."""
    given = parsing.read_if_given(request, FailIn)
    return _said(request, saga_id, FAILURE, given, idempotency_key, given.step or "", given.error)


@router.post(
    "/{saga_id}/compensated",
    auth=MAY_TELL,
    response=ANSWERS,
    summary="Tell that a step, or everything, is undone",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(UndoneIn, required=False),
)
def compensated(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[ToldOut]:
    """Everything, if no step is named: of a workflow that has failed. Of one that goes well it is a 409."""
    given = parsing.read_if_given(request, UndoneIn)
    return _said(request, saga_id, UNDONE, given, idempotency_key, given.step or "")


@router.post(
    "/{saga_id}/compensation-failed",
    auth=MAY_TELL,
    response=ANSWERS,
    summary="Tell that a step cannot be undone",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(UndoFailedIn),
)
def compensation_failed(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[ToldOut]:
    """An operator will have to see to it."""
    given = parsing.read(request, UndoFailedIn)
    return _said(request, saga_id, UNDO_FAILED, given, idempotency_key, given.step, given.error)


def told(record: Callable[[], Recorded]) -> Status[ToldOut]:
    recorded = written(record)
    answer = ToldOut(saga=recorded.instance.saga_id, fact=recorded.fact_id, created=recorded.created)
    return Status(201 if recorded.created else 200, answer)


def written(record: Callable[[], Recorded]) -> Recorded:
    """What was recorded; a Problem if it was not."""
    try:
        return record()
    except InvalidFact as error:
        raise problems.invalid(FIELDS.get(error.field, error.field), error.why) from None
    except KeyConflict as error:
        why = "stands for something else that was told of this workflow"
        raise Problem(409, f"idempotency_key {error.key!r} {why}.", [("idempotency_key", why)]) from None
    except NotCompensating as error:
        raise Problem(409, f"Nothing was recorded: {error}.", [("step", error.remedy)]) from None
    except NothingToClose as error:
        raise Problem(409, f"Nothing was recorded: {error}.") from None
    except ToldTooOften as error:
        raise Problem(409, f"{error}.", [("idempotency_key", error.why)]) from None


# What the layer below calls otherwise.
FIELDS = {"correlation_key": "correlation_id"}


def key_of(given: Told, header: str | None) -> str:
    header = parsing.idempotency_key(header, "idempotency_key")
    if given.idempotency_key is not None and header is not None and given.idempotency_key != header:
        raise problems.invalid("idempotency_key", "differs from the header Idempotency-Key; give one of them")
    key = given.idempotency_key or header
    if not key:
        raise problems.invalid("idempotency_key", "is missing; give one, here or in the header Idempotency-Key")
    return key


def actor_of(request: HttpRequest) -> str:
    return f"API key {caller_of(request).key.name}"[:ACTOR_LENGTH]


def _said(
    request: HttpRequest, saga_id: UUID, role: str, given: Told, header: str | None, step: str = "", error: str = ""
) -> Status[ToldOut]:
    instance: Instance = found_or_problem(saga_id)
    key, actor = key_of(given, header), actor_of(request)
    return told(lambda: services.tell(instance, role, step, idempotency_key=key, actor=actor, error=error))
