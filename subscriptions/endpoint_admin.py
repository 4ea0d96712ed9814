"""Endpoints in the console: a list, and a page with the endpoint's subscriptions, state and actions."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog.admin import Audited
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.format import NOTHING

from . import endpoint_views, health
from .endpoint_models import Endpoint, EndpointSettings
from .models import Subscription
from .verification import describe

MAX_SUBSCRIPTIONS = 100


def state_of(endpoint: EndpointSettings) -> str:
    if not endpoint.active:
        return gettext("paused")
    if not endpoint.verified:
        return gettext("not verified")
    return gettext("disabled") if endpoint.disabled_at is not None else gettext("active")


@admin.register(Endpoint)
class EndpointAdmin(Audited, ReadOnlyAdmin):
    list_display = ("id", "customer_key", "shown_url", "event_types", "state", "description", "updated_at")
    search_fields = ("customer_key", "description")
    texts = ("customer_key",)
    list_prefetch = (
        Prefetch("subscriptions", Subscription.objects.existing().only("id", "endpoint_id", "event_type")),
    )
    # Secrets are not for lists.
    list_defer = ("secret", "previous_secret", "custom_headers", "credentials")
    fields = (
        *("customer_key", "uid", "shown_url", "description", "state", "rate_limit"),
        *("verified", "verification_text", "verification_at", "vouched_by", "vouch_reason"),
        *("created_at", "updated_at"),
    )
    change_form_template = "admin/subscriptions/endpoint/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Endpoint]:
        return super().get_queryset(request).filter(deleted_at__isnull=True)

    def get_urls(self) -> list[URLPattern]:
        return [
            path(f"<int:pk>/{name}/", self.admin_site.admin_view(view), name=f"subscriptions_endpoint_{name}")
            for name, view in endpoint_views.VIEWS.items()
        ] + super().get_urls()

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        endpoint: Any = context.get("original")
        if endpoint is not None:
            rows = Subscription.objects.existing().filter(endpoint=endpoint.pk).order_by("event_type")
            found = list(rows[: MAX_SUBSCRIPTIONS + 1])
            context |= {"subscriptions": found[:MAX_SUBSCRIPTIONS], "more": len(found) > MAX_SUBSCRIPTIONS}
            context["health"] = health.of_endpoint(endpoint.pk)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("callback URL"))
    def shown_url(self, endpoint: Endpoint) -> str:
        return endpoint.shown_url

    @admin.display(description=_("event types"))
    def event_types(self, endpoint: Endpoint) -> str:
        names = [row.event_type for row in endpoint.subscriptions.all()]
        return ", ".join(sorted(names)[:10]) or NOTHING

    @admin.display(description=_("state"))
    def state(self, endpoint: Endpoint) -> str:
        return state_of(endpoint)

    @admin.display(description=_("verification result"))
    def verification_text(self, endpoint: Endpoint) -> str:
        return describe(str(endpoint.verification_result)) or NOTHING
