"""Template filters for values and rows, and the health of a subscription's endpoint."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import template
from django.utils.translation import gettext as _

from deadletters.models import DeadLetter
from events.labels import decode
from sagas.filters import DeliveryFilter
from sagas.transitions import COMPLETED, DEAD_LETTERED
from sagas.views import BUTTONS
from sagas.waiting import is_parked
from subscriptions import credential_services
from subscriptions.health import describe as describe_disabled
from webhookhub.conf import hub
from webhookhub.console import format
from webhookhub.console.overview import endpoint_numbers, numbers
from webhookhub.db import clock
from webhookhub.stats import queries
from webhookhub.stats.endpoints import of_subscription
from workflows.labels import badge as workflow_badge
from workflows.labels import sentences

register = template.Library()
register.filter("local_time", format.local_time)
register.filter("error", format.error)
register.filter("badge", format.status_badge)
register.filter("status_label", format.status_label)
register.filter("text_block", format.block)
register.filter("disabled_reason", describe_disabled)
register.filter("visible", format.visible)
register.filter("is_parked", is_parked)
register.filter("workflow_badge", workflow_badge)
register.filter("workflow_sentences", sentences)

DAY, WEEK = timedelta(days=1), timedelta(days=7)
NEWEST = 200
MAX_FAILURES = 5


@register.filter
def page_url(row: Any) -> str:
    return format.page_url(type(row), row.pk)


@register.filter
def labels(text: str | None) -> list[tuple[str, str]]:
    """The labels of an event; control characters are shown as their codes."""
    return [(format.visible(name), format.visible(value)) for name, value in sorted(decode(text).items())]


@register.filter
def request_kind(row: Any) -> str:
    return _(BUTTONS[row.kind])


@register.filter
def display_name(row: Any) -> str:
    """The row's name in the viewer's language; logs and the audit log use str(row)."""
    match getattr(getattr(row, "_meta", None), "label_lower", ""):
        case "sagas.saga":
            return _("delivery %(number)s") % {"number": row.pk}
        case "deadletters.deadletter":
            return _("dead letter %(number)s") % {"number": row.pk}
        case "jobs.job":
            return _("attempt %(number)s of delivery %(delivery)s") % {
                "number": row.attempt_no,
                "delivery": row.saga_id,
            }
    return format.visible(str(row))


@register.inclusion_tag("console/credentials.html")
def subscription_credentials(subscription: Any) -> dict[str, Any]:
    """What may be shown of the credentials at the endpoint."""
    certificate = credential_services.certificate_facts(subscription)
    now = clock.now() if certificate else None
    return {
        "unreadable": credential_services.are_unreadable(subscription),
        "certificate": certificate,
        "oauth2": credential_services.shown_oauth2(subscription),
        "expires_soon": certificate and now and certificate.expires_soon(now),
        "expired": certificate and now and certificate.expires_at <= now,
    }


@register.inclusion_tag("console/health.html", takes_context=True)
def subscription_health(context: Any, subscription: Any) -> dict[str, Any]:
    """Success rates from the stats, and failures among the NEWEST deliveries."""
    user = context["request"].user
    if subscription is None or not user.has_perm("sagas.view_saga"):
        return {"may_see": False}
    now = clock.now()
    before, day = queries.of_subscription(subscription.pk, now - WEEK, now - DAY, now)
    endpoint = of_subscription(subscription, now)
    newest = DeliveryFilter(subscription_id=subscription.pk).newest_first(1, None, NEWEST)
    delivered = [saga for saga in newest if saga.status == COMPLETED]
    last = max(delivered, key=lambda saga: saga.updated_at, default=None)
    # The stats know the last success only to the minute or the hour.
    last_about = None if delivered else queries.last_success(subscription.pk)
    failing = [saga for saga in newest if saga.status not in (COMPLETED, DEAD_LETTERED) and saga.final_error_code]
    letters = DeadLetter.objects.filter(subscription=subscription.pk).order_by("-failed_at", "-id")
    may_see_dead = user.has_perm("deadletters.view_deadletter")
    return {
        "may_see": True,
        "unused": not newest and not (before + day)["attempts"],
        "subscription": subscription,
        "state": endpoint.health,
        "endpoint": endpoint_numbers(endpoint, now),
        "spans": [(_("last 24 hours"), numbers(day)), (_("last 7 days"), numbers(before + day))],
        "last_success": last,
        "last_success_about": last_about,
        "kept": format.duration(hub().stats_by_hour),
        "failing": failing[:MAX_FAILURES],
        "dead": letters.defer("payload_snapshot")[:MAX_FAILURES] if may_see_dead else [],
        "dead_list": format.list_url(DeadLetter, f"subscription={subscription.pk}"),
    }
