"""Deliveries in the console."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.db.models import Prefetch
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from events.models import Event
from webhookhub.console import format
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.search_fields import ExactSearch
from webhookhub.search_terms import parse_id

from . import lookup, transitions, waiting
from .models import Saga


@admin.register(Saga)
class SagaAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = (
        "id",
        "status",
        "event_type",
        "endpoint",
        "attempts",
        "short_error",
        "next_attempt",
    )
    list_filter = ("status",)
    words = {"status__exact": transitions.STATUSES}
    references = ("event", "subscription")
    list_prefetch = (Prefetch("event", Event.objects.defer("payload")), "subscription")
    search_help_text = _("A delivery's number, or its event's uid, external id or correlation id (exact match).")
    fields = ("status",)  # the console has its own page

    def find(self, term: str) -> Iterable[int]:
        ids = lookup.find(term)
        pk = parse_id(term)
        return ids if pk is None else ids | {pk}

    @admin.display(description=_("event type"))
    def event_type(self, saga: Saga) -> str:
        return str(saga.event.event_type)

    @admin.display(description=_("endpoint"))
    def endpoint(self, saga: Saga) -> str:
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
