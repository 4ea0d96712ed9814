"""Workflow runs: status, timeline and blockers. For keys of the whole hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query, Router
from pydantic import BaseModel

from sagas.models import Saga
from webhookhub.db import clock
from workflows import diagram, labels, versions
from workflows.blockers import blockers
from workflows.filters import RunFilter, soonest_due
from workflows.models import Instance
from workflows.state import FAILED
from workflows.timeline import Entry, timeline

from . import pagination, problems
from .auth import ApiKeyAuth
from .schemas.common import Name
from .schemas.sagas import (
    AggregateFilters,
    BlockerOut,
    FactOut,
    SagaDelivery,
    SagaFilters,
    SagaOut,
    Sagas,
    StuckFilters,
    StuckSaga,
    StuckSagas,
    TimelineOut,
    TimelineRequest,
)
from .scopes import READ

router = Router(tags=["Workflows"])
LIST, AGGREGATE, FAILURES, STUCK = "sagas", "sagas-aggregate", "sagas-failed", "sagas-stuck"
TIMELINE = "sagas-timeline"
MAY_READ = ApiKeyAuth(READ, hub_wide="workflows")
SVG = "image/svg+xml"
NO_SUCH = "There is no such run."
View = TypeVar("View", bound=Callable[..., Any])


def get(path: str, response: type[BaseModel], summary: str, *errors: int) -> Callable[[View], View]:
    documented = problems.documented(*errors)
    register: Callable[[View], View] = router.get(
        path, auth=MAY_READ, response=response, summary=summary, openapi_extra=documented
    )
    return register


@get("", Sagas, "Runs, newest first")
def list_sagas(request: HttpRequest, filters: Query[SagaFilters]) -> Sagas:
    """A page may have fewer than `limit` items, or none, and still a `next`. The list ends when `next` is null."""
    pagination.require_known(request, SagaFilters)
    if filters.step is not None and filters.saga_type is None:
        raise problems.invalid("step", "needs saga_type")
    if filters.saga_type is not None:
        _require_known(filters.saga_type, filters.step)
    conditions = filters.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    return _page(LIST, conditions, filters.limit, filters.cursor)


@get("/failed", Sagas, "Failed runs, newest first")
def failed(request: HttpRequest, page: Query[pagination.PageRequest]) -> Sagas:
    pagination.require_known(request, pagination.PageRequest)
    return _page(FAILURES, {"status": FAILED}, page.limit, page.cursor)


@get("/stuck", StuckSagas, "Open runs without progress")
def stuck(request: HttpRequest, filters: Query[StuckFilters]) -> StuckSagas:
    """In the order of their deadlines, each with the steps and deliveries that it waits for."""
    pagination.require_known(request, StuckFilters)
    conditions = {"quiet_seconds": filters.quiet_seconds}
    position = pagination.read(STUCK, conditions, filters.cursor)
    after = None if position is None else (datetime.fromisoformat(position[0]), int(position[1]))
    quiet_since = clock.now() - timedelta(seconds=filters.quiet_seconds)
    found = pagination.page(
        lambda limit: soonest_due(after, limit),
        filters.limit,
        lambda rows: [row for row in rows if row.updated_at <= quiet_since],
    )
    following = None
    if found.last and found.last.deadline:
        following = pagination.sign(STUCK, conditions, [found.last.deadline.isoformat(), found.last.id])
    rows = Instance.objects.in_bulk([row.id for row in found.rows])
    return StuckSagas(items=_stuck([rows[row.id] for row in found.rows]), next=following)


@router.get(
    "/aggregate/{path:aggregate_id}",
    auth=MAY_READ,
    response=SagaOut | Sagas,
    summary="The newest run of an aggregate, or all its runs",
    openapi_extra=problems.documented(404),
)
def of_aggregate(
    request: HttpRequest, aggregate_id: Annotated[Name, Path()], filters: Query[AggregateFilters]
) -> SagaOut | Sagas:
    """The newest run of a business object, such as an order. With `all=true`, a list of its runs, newest first: for
    example its submission and its cancellation. An aggregate without a run is a 404."""
    pagination.require_known(request, AggregateFilters)
    rows = Instance.objects.filter(aggregate_id=aggregate_id).order_by("-id")
    if not filters.all:
        for name in ("limit", "cursor"):
            if name in request.GET:
                raise problems.invalid(name, "needs all=true")
        newest = rows.first()
        if newest is None:
            raise problems.not_found(NO_SUCH)
        return described(newest)
    conditions = {"aggregate_id": aggregate_id}
    position = pagination.read(AGGREGATE, conditions, filters.cursor)
    if position is not None:
        rows = rows.filter(id__lt=position[0])
    found = pagination.page(lambda limit: rows[:limit], filters.limit)
    if position is None and not found.rows:
        raise problems.not_found(NO_SUCH)
    following = pagination.sign(AGGREGATE, conditions, [found.last.id]) if found.last else None
    return Sagas(items=[described(row) for row in found.rows], next=following)


@get("/{saga_id}", SagaOut, "A run", 404)
def show(request: HttpRequest, saga_id: UUID) -> SagaOut:
    return described(get_or_404(saga_id))


@get("/{saga_id}/timeline", TimelineOut, "The timeline of a run", 404)
def show_timeline(request: HttpRequest, saga_id: UUID, page: Query[TimelineRequest]) -> TimelineOut:
    """Each fact with its event and the deliveries of that event."""
    pagination.require_known(request, TimelineRequest)
    instance = get_or_404(saga_id)
    conditions = {"saga": saga_id}
    position = pagination.read(TIMELINE, conditions, page.cursor)
    after = None if position is None else (datetime.fromisoformat(position[0]), int(position[1]))
    found = pagination.page(lambda limit: timeline(instance, after, limit), page.limit)
    following = None
    if found.last:
        last = found.last.fact
        following = pagination.sign(TIMELINE, conditions, [last.occurred_at.isoformat(), last.id])
    return TimelineOut(items=[_fact(entry) for entry in found.rows], next=following)


def _drawn() -> dict[str, Any]:
    documented = problems.documented(404)
    content = {SVG: {"schema": {"type": "string"}}}
    documented["responses"][200] = {"description": "An SVG image without scripts.", "content": content}
    return documented


@router.get("/{saga_id}/diagram", auth=MAY_READ, summary="A diagram of a run", openapi_extra=_drawn())
def show_diagram(request: HttpRequest, saga_id: UUID) -> HttpResponse:
    """The steps as boxes and arrows, coloured by their state."""
    return HttpResponse(diagram.of(get_or_404(saga_id)), content_type=SVG)


def get_or_404(saga_id: UUID) -> Instance:
    instance = Instance.objects.filter(saga_id=saga_id).first()
    if instance is None:
        raise problems.not_found(NO_SUCH)
    return instance


def described(row: Instance) -> SagaOut:
    return SagaOut(
        id=row.saga_id,
        saga_type=row.saga_type,
        version=row.definition_version,
        correlation_key=row.correlation_key,
        aggregate_id=row.aggregate_id,
        current_step=row.current_step,
        status=row.status,
        steps=row.step_states,
        started_at=row.started_at,
        completed_at=row.completed_at,
        deadline=row.deadline,
        error_message=row.error_message or None,
        compensation_started_at=row.compensation_started_at,
        anomaly=row.anomaly or None,
        needs_operator=row.needs_operator,
        by_hand=row.by_hand,
        updated_at=row.updated_at,
    )


def _require_known(saga_type: str, step: str | None) -> None:
    """A misspelt name must not look like an empty list."""
    steps: dict[str, dict[str, Any]] = {}
    for definition in versions.every_version():
        if definition.name == saga_type and (step is None or step in definition.by_key):
            return
        steps.setdefault(definition.name, {}).update(definition.by_key)
    if saga_type not in steps:
        names = ", ".join(sorted(steps)) or "none"
        raise problems.invalid("saga_type", f"{saga_type!r} is not a workflow; the workflows are {names}")
    keys = ", ".join(steps[saga_type])
    raise problems.invalid("step", f"{step!r} is not a step of {saga_type}; the steps are {keys}")


def _page(name: str, conditions: dict[str, Any], limit: int, cursor: str | None) -> Sagas:
    position = pagination.read(name, conditions, cursor)
    filter = RunFilter(**conditions)
    # Computed once and kept in the cursor.
    lowest, before = position if position else filter.bounds()
    found = pagination.page(
        lambda limit: filter.newest_first(lowest, before, limit),
        limit,
        None if filter.is_indexed else filter.matching,
    )
    following = pagination.sign(name, conditions, [lowest, found.last.id]) if found.last else None
    return Sagas(items=[described(row) for row in found.rows], next=following)


def _stuck(rows: Sequence[Instance]) -> list[StuckSaga]:
    blockers_of = blockers(rows)
    return [
        StuckSaga(
            **described(row).model_dump(),
            waits_for=[
                BlockerOut(
                    step=blocker.step,
                    state=blocker.state,
                    summary=str(blocker),
                    deliveries=[_delivery(saga) for saga in blocker.deliveries],
                )
                for blocker in blockers_of[row.id]
            ],
        )
        for row in rows
    ]


def _fact(entry: Entry) -> FactOut:
    fact, event = entry.fact, entry.event
    return FactOut(
        id=fact.id,
        step=fact.step or None,
        role=fact.role,
        origin=fact.origin,
        occurred_at=fact.occurred_at,
        recorded_at=fact.recorded_at,
        actor=fact.actor or None,
        reason=fact.reason or None,
        detail=fact.detail or None,
        event=event.uid if event else None,
        event_type=event.event_type if event else None,
        deliveries=[_delivery(saga) for saga in entry.deliveries],
    )


def _delivery(saga: Saga) -> SagaDelivery:
    return SagaDelivery(
        id=saga.id,
        event_type=saga.event.event_type,
        subscription=saga.subscription_id,
        endpoint=labels.endpoint(saga),
        status=saga.status,
        attempt_count=saga.attempt_count,
        error_code=saga.final_error_code,
    )
