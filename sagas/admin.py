"""Deliveries and requests in the console."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from events.models import Event
from webhookhub.auditlog.render import labelled
from webhookhub.console import format
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.search_fields import ExactSearch
from webhookhub.search_terms import parse_id

from . import lookup, transitions, views, waiting
from .models import ABANDON, SEND_AGAIN, SEND_NOW, DeliveryRequest, Saga
from .requests import BULK_PERMISSION, MAX_SELECTED, PERMISSIONS

TOO_MANY = format_lazy(_("You can select at most {number} deliveries at once."), number=MAX_SELECTED)
ONE_AT_A_TIME = _("You may select only one delivery at a time.")


@admin.register(Saga)
class SagaAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = (
        "id",
        "status",
        "event_type",
        "customer_key",
        "endpoint_url",
        "attempts",
        "short_error",
        "next_attempt",
    )
    list_filter = ("status",)
    words = {"status__exact": transitions.STATUSES}
    references = ("event", "subscription")
    texts = ("customer_key",)
    list_prefetch = (Prefetch("event", Event.objects.defer("payload")), "subscription")
    search_help_text = _("A delivery's number, or its event's uid, external id or correlation id (exact match).")
    fields = ("status",)  # the console has its own page
    actions = ("send_now", "abandon", "send_again")
    list_after_template = "admin/sagas/saga/after.html"

    def get_urls(self) -> list[URLPattern]:
        page = self.admin_site.admin_view(views.request_page)
        return [path("request/<slug:kind>/", page, name="sagas_saga_request"), *super().get_urls()]

    def has_send_now_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PERMISSIONS[SEND_NOW])

    def has_abandon_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PERMISSIONS[ABANDON])

    def has_send_again_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PERMISSIONS[SEND_AGAIN])

    @admin.action(description=_("Send now"), permissions=["send_now"])
    def send_now(self, request: HttpRequest, queryset: QuerySet[Saga]) -> HttpResponse | None:
        return self._confirm(request, SEND_NOW)

    @admin.action(description=_("Abandon"), permissions=["abandon"])
    def abandon(self, request: HttpRequest, queryset: QuerySet[Saga]) -> HttpResponse | None:
        return self._confirm(request, ABANDON)

    @admin.action(description=_("Send again"), permissions=["send_again"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[Saga]) -> HttpResponse | None:
        return self._confirm(request, SEND_AGAIN)

    def _confirm(self, request: HttpRequest, kind: str) -> HttpResponse | None:
        ids = sorted({int(pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)})
        if len(ids) > MAX_SELECTED or request.POST.get("select_across") == "1":
            self.message_user(request, TOO_MANY, messages.ERROR)
            return None
        if len(ids) > 1 and not request.user.has_perm(BULK_PERMISSION):
            self.message_user(request, ONE_AT_A_TIME, messages.ERROR)
            return None
        url = reverse("admin:sagas_saga_request", args=[kind])
        return HttpResponseRedirect(f"{url}?ids={','.join(map(str, ids))}")

    def find(self, term: str) -> Iterable[int]:
        ids = lookup.find(term)
        pk = parse_id(term)
        return ids if pk is None else ids | {pk}

    @admin.display(description=_("event type"))
    def event_type(self, saga: Saga) -> str:
        return str(saga.event.event_type)

    @admin.display(description=_("endpoint"))
    def endpoint_url(self, saga: Saga) -> str:
        return saga.subscription.shown_url

    @admin.display(description=_("attempts"))
    def attempts(self, saga: Saga) -> str:
        return gettext("%(count)s of %(limit)s") % {"count": saga.attempt_count, "limit": saga.max_retry_limit}

    @admin.display(description=_("next attempt"))
    def next_attempt(self, saga: Saga) -> str:
        if saga.status not in transitions.WAITING:
            return format.NOTHING
        if reason := waiting.held_back(saga.subscription):
            return gettext("waits: %(reason)s") % {"reason": gettext(format.WAITING_SHORT[reason])}
        if waiting.is_parked(saga):
            return gettext("waits for its endpoint")
        return format.local_time(saga.next_attempt_at)

    @admin.display(description=_("last error"))
    def short_error(self, saga: Saga) -> str:
        return format.short_error(saga.final_error_code)


@admin.register(DeliveryRequest)
class DeliveryRequestAdmin(ReadOnlyAdmin):
    list_display = ("id", "kind_text", "target", "requested_by", "requested_at", "progress", "changed")
    list_prefetch = ("saga",)
    fields = ("kind_text", "target", "requested_by", "requested_at", "reason_text", "progress", "changed", "uid")

    @admin.display(description=_("request"))
    def kind_text(self, request: DeliveryRequest) -> str:
        return gettext(views.BUTTONS[request.kind])

    @admin.display(description=_("deliveries"))
    def target(self, request: DeliveryRequest) -> str | SafeString:
        if request.saga_id is not None:
            text = gettext("delivery %(number)s") % {"number": request.saga_id}
            return format.link(format.page_url(Saga, request.saga_id), text)
        conditions: dict[str, Any] = json.loads(request.conditions)
        return format.visible(", ".join(f"{label}: {text}" for label, text in labelled(conditions)))

    @admin.display(description=_("reason"))
    def reason_text(self, request: DeliveryRequest) -> str:
        return format.visible(request.reason)

    @admin.display(description=_("applied"))
    def progress(self, request: DeliveryRequest) -> str:
        if request.applied_at is not None:
            return format.local_time(request.applied_at)
        if request.scanned_to and request.max_saga_id and not request.saga_id:
            share = format.percent(min(request.scanned_to, request.max_saga_id) / request.max_saga_id)
            return gettext("in progress: %(share)s") % {"share": share}
        return gettext("in progress")
