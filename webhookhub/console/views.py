"""The overview, the search, and downloads of payloads."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from api.models import ApiKey
from events.models import Event
from subscriptions.models import Subscription
from webhookhub.db import clock
from webhookhub.stats import endpoints

from . import alerts, format, overview, request_preview, search
from .overview import Span


@never_cache
def overview_page(request: HttpRequest) -> TemplateResponse:
    span = overview.span_named(request.GET.get("span"))
    context = {
        **admin.site.each_context(request),
        **_overview_context(request, span),
        "title": _("Overview"),
        "spans": overview.SPANS,
        "fragment": f"{reverse('admin:overview')}?span={span.name}",
    }
    return TemplateResponse(request, "console/overview.html", context)


@never_cache
def overview_fragment(request: HttpRequest) -> TemplateResponse:
    """The part of the overview that overview.js reloads."""
    span = overview.span_named(request.GET.get("span"))
    return TemplateResponse(request, "console/overview_parts.html", _overview_context(request, span))


def _overview_context(request: HttpRequest, span: Span) -> dict[str, Any]:
    """Only what the user may see."""
    may = request.user.has_perm
    now = clock.now()
    context: dict[str, Any] = {"span": span, "now": now, "alerts": []}
    if may("sagas.view_saga"):
        context["deliveries"] = overview.deliveries(span, now)
        context["may_see_endpoints"] = may("subscriptions.view_subscription")
        may_see_dead = may("deadletters.view_deadletter")
        context["alerts"] += alerts.of_deliveries(context["deliveries"], may_see_dead=may_see_dead)
    if may("subscriptions.change_credentials"):
        certificates = Subscription.objects.filter(active=True).with_expiring_certificate(now).count()
        context["alerts"] += alerts.of_certificates(certificates)
    if may("webhookhub.view_process"):
        context["processes"] = overview.processes(now)
        context["alerts"] += alerts.of_processes(context["processes"])
    if may("workflows.view_instance"):
        context["workflows"] = overview.open_workflows()
        context["for_operators"] = overview.workflows_for_operators()
        context["alerts"] += alerts.of_workflows(context["for_operators"])
    if may("api.view_apikey"):
        expiring = ApiKey.objects.expiring(now).order_by("expires_at")[: alerts.MAX_KEYS]
        context["alerts"] += alerts.of_keys(expiring)
    context["no_alerts"] = alerts.none(deliveries="deliveries" in context, processes="processes" in context)
    return context


@never_cache
def endpoints_page(request: HttpRequest) -> TemplateResponse:
    """The twenty worst endpoints."""
    if not request.user.has_perms(["sagas.view_saga", "subscriptions.view_subscription"]):
        raise PermissionDenied
    now = clock.now()
    context = {
        **admin.site.each_context(request),
        "title": _("Endpoints"),
        "rows": [(stats.subscription, overview.endpoint_numbers(stats, now)) for stats in endpoints.worst(now)],
        "now": now,
    }
    return TemplateResponse(request, "console/worst_endpoints.html", context)


def search_page(request: HttpRequest) -> TemplateResponse:
    term = request.GET.get("q", "").strip()[: search.MAX_LENGTH + 1]
    context = {
        **admin.site.each_context(request),
        "title": _("Search"),
        "term": term,
        "results": search.find(term, request.user),
    }
    return TemplateResponse(request, "console/search.html", context)


def event_payload(request: HttpRequest, pk: int) -> HttpResponse:
    """The whole payload as the pages show it."""
    event = _event(request, pk)
    return _download(format.visible(format.pretty(event.payload)), f"payload-{event.uid}.json")


def event_body(request: HttpRequest, pk: int) -> HttpResponse:
    """The body of the request, byte for byte."""
    return _download(request_preview.body(_event(request, pk)), "body.json")


def _event(request: HttpRequest, pk: int) -> Event:
    if not request.user.has_perm("events.view_event"):
        raise PermissionDenied
    return get_object_or_404(Event, pk=pk)


def _download(text: str, name: str) -> HttpResponse:
    # Plain text in a sandbox: the content comes from outside and must not run as a page of the hub.
    response = HttpResponse(text.encode("utf-8", "backslashreplace"), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "no-store"
    return response
