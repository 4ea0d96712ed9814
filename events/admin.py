"""Events in the console."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from webhookhub.console.exact_search import ExactSearch, number
from webhookhub.console.readonly import ReadOnlyAdmin

from . import lookup
from .models import Event


@admin.register(Event)
class EventAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = ("id", "event_type", "source", "external_id", "correlation_id", "uid", "created_at")
    list_defer = ("payload",)
    search_help_text = _("An event's number, uid, external id or correlation id, given whole.")
    fields = ("uid",)  # the console has its own page

    def find(self, term: str) -> Iterable[int]:
        pk = number(term)
        return lookup.find(term) | (set() if pk is None else {pk})
