"""The health of endpoints: since when one has failed, and whether it is disabled.

Every write compares what it changes, so that it may be repeated, and two processes do the same thing once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Case, F, Q, When
from django.utils.translation import gettext, gettext_noop

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.db.bulk import insert_one
from webhookhub.db.retry import in_transaction, one_statement
from webhookhub.logs import Log, log
from webhookhub.validators import clean_reason

from .endpoint_models import Endpoint
from .models import EndpointHealth, Subscription, endpoint_id, log_fields

GONE_CODE = "http_410"
# Why an endpoint is disabled.
GONE, NO_SUCCESS = "gone", "no_success"
MEANING = {
    GONE: gettext_noop("the endpoint responded with 410 Gone"),
    NO_SUCCESS: gettext_noop("the endpoint has failed for too long"),
}
# What has ended its trouble.
BY_SUCCESS, BY_VERIFICATION, BY_OPERATOR, BY_NEW_URL = "success", "verification", "operator", "new_url"
# In percent of the time after which an endpoint is disabled.
STAGES = (50, 80, 100)
DISABLED = 100


class Health(NamedTuple):
    failing_since: datetime
    recovered_at: datetime | None
    disabled_at: datetime | None
    breaker_open_since: datetime | None
    stage: int
    announced: int

    @property
    def is_failing(self) -> bool:
        return self.recovered_at is None


def load() -> dict[int, Health]:
    """The endpoints that are failing, disabled or not announced yet, and those that have recovered in the last hour."""
    recent = Q(recovered_at__gt=clock.now() - timedelta(hours=1))
    rows = EndpointHealth.objects.filter(recent | Q(recovered_at__isnull=True) | Q(announced__gt=0))
    rows = rows.filter(endpoint__isnull=False)
    return {pk: Health(*columns) for pk, *columns in rows.values_list("endpoint_id", *Health._fields)}


def load_one(endpoint_id: int) -> Health | None:
    row = EndpointHealth.objects.filter(endpoint_id=endpoint_id).values_list(*Health._fields).first()
    return None if row is None else Health(*row)


def of_endpoint(endpoint_id: int | None) -> EndpointHealth | None:
    return EndpointHealth.objects.filter(endpoint_id=endpoint_id).first() if endpoint_id else None


def stage_of(failing_for: timedelta, disable_after: timedelta) -> int:
    """The last stage that has been reached; 0 if none has, or if endpoints are never disabled."""
    if not disable_after:
        return 0
    return max((stage for stage in STAGES if 100 * failing_for >= stage * disable_after), default=0)


def reasons(endpoint_ids: Collection[int | None]) -> dict[int | None, str]:
    """Why endpoints are disabled, of those of these that are."""
    rows = EndpointHealth.objects.filter(endpoint_id__in=endpoint_ids, disabled_at__isnull=False)
    return {row.endpoint_id: row.disabled_reason for row in rows} if endpoint_ids else {}


def describe(reason: str) -> str:
    """Why an endpoint is disabled, in the viewer's language."""
    return gettext(MEANING[reason]) if reason in MEANING else reason


def note_failing(
    endpoint_id: int, since: datetime, error_code: str, breaker_open_since: datetime | None = None
) -> bool:
    """A trouble has begun. Returns whether this call has recorded it."""
    values = {
        "failing_since": since,
        "last_error_code": error_code,
        "breaker_open_since": breaker_open_since,
        "stage": 0,
    }
    ended = {"recovered_at": None, "recovered_by": ""}
    # The end of the previous trouble is announced first.
    recovered = Q(recovered_at__isnull=False, announced=0)
    return _insert(endpoint_id, values) or _update(endpoint_id, recovered, values | ended)


def note_breaker(endpoint_id: int, open_since: datetime) -> bool:
    """The breaker of a failing endpoint has opened."""
    closed = Q(recovered_at__isnull=True, breaker_open_since__isnull=True)
    return _update(endpoint_id, closed, {"breaker_open_since": open_since})


def note_success(endpoint_id: int) -> bool:
    """A delivery has succeeded: the trouble has ended. A disabled endpoint stays disabled."""
    failing = Q(recovered_at__isnull=True, disabled_at__isnull=True)
    return _update(endpoint_id, failing, _ended(BY_SUCCESS))


def note_stage(endpoint_id: int, seen: Health, stage: int) -> bool:
    lower = Q(failing_since=seen.failing_since, recovered_at__isnull=True, disabled_at__isnull=True, stage__lt=stage)
    return _update(endpoint_id, lower, {"stage": stage})


def disable_gone(endpoint_id: int) -> bool:
    """The endpoint has responded with 410. Returns whether this call has disabled it."""
    now = clock.now()
    values = {
        "last_error_code": GONE_CODE,
        "disabled_at": now,
        "disabled_reason": GONE,
        "stage": DISABLED,
    }
    # In this order: a server uses the new value of a column in the assignments after it.
    begins = {"failing_since": Case(When(recovered_at__isnull=False, then=now), default=F("failing_since"))}
    ended = {"recovered_at": None, "recovered_by": ""}
    is_new = _insert(endpoint_id, values | {"failing_since": now})
    return is_new or _update(endpoint_id, Q(disabled_at__isnull=True), begins | values | ended)


def disable_failing(endpoint_id: int, seen: Health, error_code: str) -> bool:
    """The endpoint has failed for too long. Returns whether this call has disabled it."""
    still = Q(failing_since=seen.failing_since, recovered_at__isnull=True, disabled_at__isnull=True)
    values = {
        "last_error_code": error_code,
        "disabled_at": clock.now(),
        "disabled_reason": NO_SUCCESS,
        "stage": DISABLED,
    }
    return _update(endpoint_id, still, values)


def enable(target: Subscription | Endpoint, *, reason: str) -> bool:
    """An operator enables an endpoint, for all of its subscriptions. False if it is not disabled.

    Raises InvalidReason.
    """
    pk, reason = endpoint_id(target), clean_reason(reason)

    def store() -> bool:
        why = EndpointHealth.objects.filter(endpoint_id=pk).values_list("disabled_reason", flat=True).first()
        if not end_disabling(pk, BY_OPERATOR):
            return False
        record(actions.ENABLE, target, name=target.audit_name, reason=reason, details={"disabled_reason": why})
        return True

    enabled = in_transaction(store)
    target.refresh_from_db()
    if enabled:
        log(Log.ENDPOINT_ENABLED, **log_fields(target), reason=BY_OPERATOR)
    return enabled


def end_disabling(endpoint_id: int, by: str) -> bool:
    """Returns whether the endpoint was disabled until now."""
    ended = _ended(by) | {"disabled_at": None, "disabled_reason": ""}
    return _update(endpoint_id, Q(disabled_at__isnull=False), ended)


def forget_url(endpoint_id: int) -> None:
    """The endpoint has another URL: the trouble of the old one has ended."""
    _update(
        endpoint_id, Q(recovered_at__isnull=True), _ended(BY_NEW_URL) | {"disabled_at": None, "disabled_reason": ""}
    )


def note_announced(pk: int, seen: Health) -> bool:
    """What was seen has been announced."""
    rows = EndpointHealth.objects.filter(
        id=pk, failing_since=seen.failing_since, stage=seen.stage, announced=seen.announced
    )
    return bool(one_statement(lambda: rows.update(announced=seen.stage, updated_at=clock.now())))


def _ended(by: str) -> dict[str, Any]:
    return {"recovered_at": clock.now(), "recovered_by": by, "breaker_open_since": None, "stage": 0}


def _insert(endpoint_id: int, values: Mapping[str, Any]) -> bool:
    """False if the endpoint has a row."""
    if EndpointHealth.objects.filter(endpoint_id=endpoint_id).exists():
        return False
    url = Subscription.objects.filter(endpoint_id=endpoint_id).values_list("callback_url", flat=True).first() or ""
    row = {"endpoint_id": endpoint_id, "callback_url": url, **values}
    return insert_one(EndpointHealth, row, key=["endpoint_id"]) is not None


def _update(endpoint_id: int, condition: Q, values: Mapping[str, Any]) -> bool:
    rows = EndpointHealth.objects.filter(condition, endpoint_id=endpoint_id)
    return bool(one_statement(lambda: rows.update(**values, updated_at=clock.now())))
