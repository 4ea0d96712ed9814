"""The worst endpoints. All operations require a key without a source."""

from __future__ import annotations

from django.http import HttpRequest

from webhookhub.auditlog.record import url_without_query
from webhookhub.db import clock
from webhookhub.stats import endpoints
from webhookhub.stats.endpoints import EndpointStats

from .auth import ApiKeyAuth
from .resource import Resource
from .schemas.endpoints import EndpointOut, Endpoints
from .scopes import READ

resource = Resource("Endpoints", read=ApiKeyAuth(READ, hub_wide="endpoints"))


@resource.get("", Endpoints, "List the worst endpoints")
def list_worst(request: HttpRequest) -> Endpoints:
    """At most 20: first those whose oldest delivery waits longest, then those that fail most."""
    return Endpoints(items=[described(stats) for stats in endpoints.worst(clock.now())])


def described(stats: EndpointStats) -> EndpointOut:
    health = stats.health if stats.is_failing else None
    return EndpointOut(
        url=url_without_query(stats.url),
        subscription=stats.subscription.pk,
        open=stats.open,
        waiting=stats.waiting,
        oldest_waiting_at=stats.oldest_waiting,
        attempts_per_second=stats.attempts_per_second,
        success_rate=stats.success_rate,
        p95_ms=stats.p95_ms,
        failing_since=health.failing_since if health else None,
        last_error_code=health.last_error_code if health else None,
        breaker_open_since=health.breaker_open_since if health else None,
        disabled_at=health.disabled_at if health else None,
    )
