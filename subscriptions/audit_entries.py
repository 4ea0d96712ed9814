"""Audit log entries of created and changed subscriptions. They contain no secrets."""

from __future__ import annotations

from typing import Any

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import changes, record, url_without_query

from .models import Subscription

FIELDS = (
    *("event_type", "callback_url", "active", "description", "signing_scheme", "max_retry_limit", "base_delay"),
    "custom_headers",
)


def record_created(subscription: Subscription) -> None:
    values = {name: _plain(name, value) for name, value in _values(subscription).items() if value not in (None, "")}
    record(actions.SUBSCRIBE, subscription, name=subscription.audit_name, details=values)


def record_change(before: Subscription, after: Subscription) -> None:
    """Call it in the transaction of the change. Writes nothing if nothing has changed."""
    changed = changes(_values(before), _values(after))
    if not changed:
        return
    action = actions.EDIT
    if changed.keys() == {"active"}:
        action = actions.RESUME if after.active else actions.PAUSE
    details = {name: {side: _plain(name, value) for side, value in pair.items()} for name, pair in changed.items()}
    record(action, after, name=after.audit_name, details=details)


def _values(subscription: Subscription) -> dict[str, Any]:
    return {name: getattr(subscription, name) for name in FIELDS}


def _plain(name: str, value: Any) -> Any:
    """Without secrets: the URL's query may hold a password, and of the headers only their presence is kept."""
    if name == "callback_url":
        return url_without_query(value)
    return bool(value) if name == "custom_headers" else value
