"""Events in the console."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.utils.safestring import SafeString

from sagas.models import Saga
from webhookhub.console import shown
from webhookhub.console.readonly import ReadOnlyAdmin
from webhookhub.console.search import ExactSearch, number

from . import lookup
from .models import Event


@admin.register(Event)
class EventAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = ("id", "event_type", "source", "external_id", "correlation_id", "uid", "created_at")
    list_defer = ("payload",)
    search_help_text = "An event's number, uid, external id or correlation id, given whole."
    fields = (
        "uid",
        "event_type",
        "source",
        "external_id",
        "correlation_id",
        "created_at",
        "deliveries",
        "payload_as_text",
    )

    def find(self, term: str) -> Iterable[int]:
        found = lookup.find(term)
        id = number(term)
        return found if id is None else found | {id}

    @admin.display(description="deliveries")
    def deliveries(self, event: Event) -> SafeString:
        return shown.link(shown.listing(Saga, f"event={event.pk}"), "Deliveries of this event")

    @admin.display(description="payload")
    def payload_as_text(self, event: Event) -> SafeString:
        return shown.json_block(event.payload)
