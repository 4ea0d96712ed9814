"""What the audit log is told of a subscription: never a secret, nor what may be one."""

from __future__ import annotations

from typing import Any

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import address, changes, record

from .models import Subscription

SHOWN = ("event_type", "callback_url", "active", "description", "signing_scheme", "max_retry_limit", "base_delay")
HIDDEN = "custom_headers"
Facts = dict[str, Any]


def facts(subscription: Subscription) -> Facts:
    return {name: getattr(subscription, name) for name in (*SHOWN, HIDDEN)}


def tell_new(subscription: Subscription) -> None:
    told = {name: _fit(name, value) for name, value in facts(subscription).items() if value not in (None, "")}
    record(actions.SUBSCRIBE, subscription, name=subscription.in_the_trail, details=told)


def tell_change(subscription: Subscription, before: Facts) -> None:
    """Nothing is told where nothing was changed. To be called in the transaction that changes it."""
    changed = changes(before, facts(subscription))
    if not changed:
        return
    action = actions.EDIT
    if changed.keys() == {"active"}:
        action = actions.RESUME if subscription.active else actions.PAUSE
    told = {name: {when: _fit(name, value) for when, value in change.items()} for name, change in changed.items()}
    record(action, subscription, name=subscription.in_the_trail, details=told)


def _fit(name: str, value: Any) -> Any:
    """For the trail: it is kept for ever and read by others than may see secrets."""
    if name == "callback_url" and value:
        return address(value)
    return ("set" if value else "none") if name == HIDDEN else value
