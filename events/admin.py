"""Events in the console."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.search_fields import ExactSearch
from webhookhub.search_terms import parse_id

from . import lookup
from .models import Event


@admin.register(Event)
class EventAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = ("id", "event_type", "customer_key", "source", "external_id", "correlation_id", "uid", "created_at")
    list_defer = ("payload",)
    texts = ("customer_key",)
    search_help_text = _("An event's number, uid, external id or correlation id (exact match).")
    fields = ("uid",)  # the console has its own page

    def find(self, term: str) -> Iterable[int]:
        ids = lookup.find(term)
        pk = parse_id(term)
        return ids if pk is None else ids | {pk}
