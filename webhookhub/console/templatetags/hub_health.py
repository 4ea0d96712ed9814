"""An endpoint's health on its subscription's page, for those who may see deliveries."""

from __future__ import annotations

from typing import Any

from django import template

from deadletters.models import DeadLetter
from sagas.models import Saga
from webhookhub.conf import hub
from webhookhub.console import format, health, plain

from .hub_names import called

register = template.Library()
MAY_SEE = "sagas.view_saga"
MAY_SEE_DEAD = "deadletters.view_deadletter"


@register.inclusion_tag("console/health.html", takes_context=True)
def subscription_health(context: Any, subscription: Any) -> dict[str, Any]:
    user = context["request"].user
    if subscription is None or not user.has_perm(MAY_SEE):
        return {"may_see": False}
    found = health.of(subscription.pk)
    last = found.last_success
    return {
        "may_see": True,
        "unused": found.is_unused,
        "subscription": subscription,
        "spans": [_told("day", found.day), _told("week", found.week)],
        "last_success": last and {"at": format.moment(last.updated_at), "address": format.page(Saga, last.pk)},
        "last_success_about": found.last_success_about and format.moment(found.last_success_about),
        "kept": plain.duration(hub().figures_by_hour),
        "failing": [
            {
                "address": format.page(Saga, saga.pk),
                "name": called(saga),
                "error": format.error(saga.final_error_code),
                "attempts": f"{saga.attempt_count}/{saga.max_retry_limit}",
                "next": format.moment(saga.next_attempt_at) if subscription.is_routable else None,
            }
            for saga in found.failing
        ],
        "dead": [
            {
                "address": format.page(DeadLetter, letter.pk),
                "name": called(letter),
                "error": format.error(letter.final_error_code),
                "at": format.moment(letter.failed_at),
            }
            for letter in found.dead
            if user.has_perm(MAY_SEE_DEAD)
        ],
        "dead_list": format.listing(DeadLetter, f"subscription={subscription.pk}"),
    }


def _told(name: str, summary: Any) -> dict[str, Any]:
    return {
        "name": name,
        "success": plain.share(summary.success_rate),
        "attempts": plain.number(summary["attempts"]),
        "failed": plain.number(summary.failed),
        "dead": plain.number(summary["dead_lettered"]),
        "p95": plain.milliseconds(summary.duration_ms(0.95)),
    }
