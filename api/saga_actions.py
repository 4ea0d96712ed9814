"""Operators' actions on runs. Each records a fact with actor and reason."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from ninja import Status

from workflows import redelivery, services
from workflows.redelivery import NothingToRetry, Retried
from workflows.services import Recorded
from workflows.state import CLOSED, UNDONE

from . import parsing, problems
from .auth import ApiKeyAuth
from .problems import Problem
from .saga_facts import ERRORS, RESPONSES, IdempotencyKey, actor_of, key_of, record_or_problem, respond
from .sagas import get_or_404, router
from .schemas.sagas import CloseIn, FactRecorded, MarkIn, RetryIn, RetryOut
from .scopes import SAGAS_OPERATE

MAY_ACT = ApiKeyAuth(SAGAS_OPERATE, hub_wide="workflows")


class Program:
    """An API key as an operator."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_username(self) -> str:
        return self._name


@router.post(
    "/{saga_id}/retry",
    auth=MAY_ACT,
    response={201: RetryOut, 200: RetryOut},
    summary="Deliver again the events that a step reacts to",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(RetryIn),
)
def retry(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[RetryOut]:
    """All dead letters, or the given delivery, which may be completed."""
    given = parsing.read(request, RetryIn)
    instance = get_or_404(saga_id)
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
        recorded = record_or_problem(record)
    except NothingToRetry as error:
        raise Problem(409, f"Nothing was done: {error}.") from None
    body = RetryOut(
        saga=instance.saga_id, fact=recorded.fact_id, created=recorded.created, deliveries=done[0].deliveries
    )
    return Status(201 if recorded.created else 200, body)


@router.post(
    "/{saga_id}/mark-compensated",
    auth=MAY_ACT,
    response=RESPONSES,
    summary="Record that a step or everything was undone by hand",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(MarkIn),
)
def mark_compensated(
    request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey
) -> Status[FactRecorded]:
    """Without a step, everything is undone. This needs a failed run; otherwise the response is 409."""
    given = parsing.read(request, MarkIn)
    return _act(request, saga_id, UNDONE, given, idempotency_key, given.step or "")


@router.post(
    "/{saga_id}/close",
    auth=MAY_ACT,
    response=RESPONSES,
    summary="Close a run",
    openapi_extra=problems.documented(404, *ERRORS) | parsing.documented(CloseIn),
)
def close(request: HttpRequest, saga_id: UUID, idempotency_key: str | None = IdempotencyKey) -> Status[FactRecorded]:
    """An open run ends as FAILED. The hub requests nothing more, and the run no longer needs an operator.

    If the run has ended and needs no operator, the response is 409.
    """
    return _act(request, saga_id, CLOSED, parsing.read(request, CloseIn), idempotency_key)


def _act(
    request: HttpRequest, saga_id: UUID, action: str, given: CloseIn, header: str | None, step: str = ""
) -> Status[FactRecorded]:
    instance = get_or_404(saga_id)
    key, actor = key_of(given, header), actor_of(request)
    return respond(lambda: services.act(instance, action, step, idempotency_key=key, actor=actor, reason=given.reason))
