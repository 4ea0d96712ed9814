"""What an operator does to a workflow, by a key that may: each is a fact with a name and a reason."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from ninja import Status

from workflows import redelivery, services
from workflows.redelivery import NothingToRetry, Retried
from workflows.services import Recorded
from workflows.words import CLOSED, UNDONE

from . import parsing, problems
from .auth import ApiKeyAuth
from .problems import Problem
from .saga_facts import ANSWERS, ERRORS, IdempotencyKey, actor_of, key_of, told, written
from .sagas import found_or_problem, router
from .schemas.sagas import CloseIn, MarkIn, RetryIn, RetryOut, ToldOut
from .scopes import SAGAS_OPERATE

MAY_ACT = ApiKeyAuth(SAGAS_OPERATE, hub_wide="workflows")


class Program:
    """A key as an operator."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_username(self) -> str:
        return self._name


@router.post(
    "/{saga_id}/retry",
    auth=MAY_ACT,
    response={201: RetryOut, 200: RetryOut},
    summary="Deliver again what a step reacts to",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(RetryIn),
)
def retry(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[RetryOut]:
    """Those deliveries that died; or one that is named, even if it had arrived."""
    given = parsing.read(request, RetryIn)
    instance = found_or_problem(saga_id)
    key = key_of(given, idempotency_key)
    done: list[Retried] = []

    def record() -> Recorded:
        by = Program(actor_of(request))
        done.append(
            redelivery.retry(
                instance, given.step, by=by, reason=given.reason, idempotency_key=key, delivery=given.delivery
            )
        )
        return done[0].recorded

    try:
        recorded = written(record)
    except NothingToRetry as error:
        raise Problem(409, f"Nothing was done: {error}.") from None
    answer = RetryOut(
        saga=instance.saga_id, fact=recorded.fact_id, created=recorded.created, deliveries=done[0].deliveries
    )
    return Status(201 if recorded.created else 200, answer)


@router.post(
    "/{saga_id}/mark-compensated",
    auth=MAY_ACT,
    response=ANSWERS,
    summary="Record that a step, or everything, was undone by hand",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(MarkIn),
)
def mark_compensated(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[ToldOut]:
    """Everything, if no step is named: of a workflow that has failed. Of one that goes well it is a 409."""
    given = parsing.read(request, MarkIn)
    return _acted(request, saga_id, UNDONE, given, idempotency_key, given.step or "")


@router.post(
    "/{saga_id}/close",
    auth=MAY_ACT,
    response=ANSWERS,
    summary="Take a workflow out of the hub's hands",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(CloseIn),
)
def close(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[ToldOut]:
    """It ends as FAILED, nothing more is asked of anybody, and it no longer waits for a person.

    One that has ended already and waits for nobody is a 409.
    """
    return _acted(request, saga_id, CLOSED, parsing.read(request, CloseIn), idempotency_key)


def _acted(
    request: HttpRequest, saga_id: UUID, action: str, given: CloseIn, header: str | None, step: str = ""
) -> Status[ToldOut]:
    instance = found_or_problem(saga_id)
    key, actor = key_of(given, header), actor_of(request)
    return told(lambda: services.act(instance, action, step, idempotency_key=key, actor=actor, reason=given.reason))
