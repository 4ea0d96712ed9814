"""The overview: the whole page, and the part of it that is fetched again and again."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.cache import never_cache

from deadletters.models import DeadLetter
from events.models import Event
from sagas.models import Saga
from subscriptions.models import Subscription
from webhookhub.console import format, plain
from webhookhub.models import Process
from workflows.labels import badge
from workflows.models import Instance

from . import alerts, overview, pages, periods, search
from .overview import Deliveries, Endpoint, Running

MAY_SEE_DELIVERIES = "sagas.view_saga"
MAY_SEE_DEAD = "deadletters.view_deadletter"
MAY_SEE_ENDPOINTS = "subscriptions.view_subscription"
MAY_SEE_PROCESSES = "webhookhub.view_process"
MAY_SEE_WORKFLOWS = "workflows.view_instance"
WORKFLOWS = {"IN_PROGRESS": gettext_noop("under way"), "COMPENSATING": gettext_noop("compensating")}


@never_cache
def overview_page(request: HttpRequest) -> TemplateResponse:
    span = periods.named(request.GET.get("span"))
    context = {
        **admin.site.each_context(request),
        **parts(request, span),
        "title": _("Overview"),
        "spans": periods.ALL,
        "span": span,
        "fragment": f"{reverse('admin:overview')}?span={span.name}",
    }
    return TemplateResponse(request, "console/overview.html", context)


def find_page(request: HttpRequest) -> TemplateResponse:
    """What the one box of the search finds."""
    term = request.GET.get("q", "").strip()[: search.LONGEST + 1]
    found = search.find(term, request.user)
    context = {
        **admin.site.each_context(request),
        "title": _("Search"),
        "term": term,
        "found": found,
        "deliveries": [pages.row(saga) for saga in found.deliveries],
        "events": [_event(event) for event in found.events],
        "letters": [_letter(letter) for letter in found.letters],
        "subscriptions": [_subscription(subscription) for subscription in found.subscriptions],
        "workflows": [_workflow(instance) for instance in found.workflows],
    }
    return TemplateResponse(request, "console/find.html", context)


@never_cache
def overview_fragment(request: HttpRequest) -> TemplateResponse:
    span = periods.named(request.GET.get("span"))
    return TemplateResponse(request, "console/overview_parts.html", {**parts(request, span), "span": span})


def parts(request: HttpRequest, span: periods.Span) -> dict[str, Any]:
    """What this user may see of it."""
    may = request.user.has_perm
    now = overview.now()
    found: dict[str, Any] = {"now": format.moment(now), "worries": []}
    if may(MAY_SEE_DELIVERIES):
        deliveries = overview.deliveries(span, now)
        found["deliveries"] = _told(deliveries)
        if may(MAY_SEE_ENDPOINTS):
            found["endpoints"] = {
                "busiest": [_endpoint(each) for each in deliveries.busiest],
                "worst": [_endpoint(each) for each in deliveries.worst],
            }
        found["worries"] += alerts.of_deliveries(deliveries, may_see_dead=may(MAY_SEE_DEAD))
    if may(MAY_SEE_PROCESSES):
        running = overview.processes(now)
        found["processes"] = [_process(each) for each in running]
        found["worries"] += alerts.of_processes(running)
    if may(MAY_SEE_WORKFLOWS):
        open_ones = overview.open_workflows()
        found["workflows"] = open_ones and {_(WORKFLOWS[state]): number for state, number in open_ones.items()}
        found["workflows_list"] = reverse("admin:workflows_instance_changelist")
    found["well"] = alerts.none(knows_deliveries="deliveries" in found, knows_processes="processes" in found)
    return found


def _told(deliveries: Deliveries) -> dict[str, Any]:
    total = deliveries.total
    return {
        "chart": deliveries.chart,
        "delivered": plain.number(total["completed"]),
        "failing": plain.number(max(0, total.failed - total["dead_lettered"])),
        "dead": plain.number(total["dead_lettered"]),
        "success": plain.share(total.success_rate),
        "p50": plain.milliseconds(total.duration_ms(0.5)),
        "p95": plain.milliseconds(total.duration_ms(0.95)),
        "due": alerts.counted(deliveries.due, deliveries.due.number),
        "past_due": alerts.counted(deliveries.due, deliveries.due.late),
        "is_late": deliveries.due.late > 0,
        "oldest": format.moment(deliveries.due.oldest),
        "unrouted": alerts.counted(deliveries.unrouted, deliveries.unrouted.number),
        "oldest_event": format.moment(deliveries.unrouted.oldest),
        "list": reverse("admin:sagas_saga_changelist"),
        "dead_list": reverse("admin:deadletters_deadletter_changelist"),
    }


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    summary = endpoint.summary
    return {
        "address": format.page(Subscription, endpoint.id),
        "deliveries": format.listing(Saga, f"subscription={endpoint.id}"),
        "callback_url": endpoint.callback_url,
        "event_type": endpoint.event_type,
        "attempts": plain.number(summary["attempts"]),
        "failed": plain.number(summary.failed),
        "success": plain.share(summary.success_rate),
        "p95": plain.milliseconds(summary.duration_ms(0.95)),
    }


def _event(event: Event) -> dict[str, Any]:
    return {
        "address": format.page(Event, event.pk),
        "uid": event.uid,
        "type": event.event_type,
        "source": event.source,
        "external_id": event.external_id or format.NOTHING,
        "correlation_id": event.correlation_id or format.NOTHING,
        "created": format.moment(event.created_at),
    }


def _letter(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.pk,
        "address": format.page(DeadLetter, letter.pk),
        "endpoint": letter.subscription.shown_url,
        "error": format.error(letter.final_error_code),
        "failed_at": format.moment(letter.failed_at),
    }


def _subscription(subscription: Subscription) -> dict[str, Any]:
    return {
        "id": subscription.pk,
        "address": format.page(Subscription, subscription.pk),
        "callback_url": subscription.shown_url,
        "event_type": subscription.event_type,
        "deliveries": format.listing(Saga, f"subscription={subscription.pk}"),
    }


def _workflow(instance: Instance) -> dict[str, Any]:
    return {
        "address": format.page(Instance, instance.pk),
        "saga_id": instance.saga_id,
        "type": instance.saga_type,
        "about": instance.aggregate_id or instance.correlation_key,
        "status": badge(instance.status),
        "started": format.moment(instance.started_at),
    }


def _process(running: Running) -> dict[str, Any]:
    process = running.process
    return {
        "address": format.page(Process, process.pk),
        "name": process.name,
        "kind": process.kind,
        "host": process.host,
        "alive": running.alive,
        "heartbeat": format.moment(process.heartbeat_at),
    }
