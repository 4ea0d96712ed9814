"""Events and the catalogue of their types in the console."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog.admin import Audited
from webhookhub.console.base import BoundedList, BoundedPaginator, ModelAdmin, ReadOnlyAdmin, with_local_times
from webhookhub.console.format import NOTHING
from webhookhub.console.search_fields import ExactSearch
from webhookhub.search_terms import parse_id

from . import catalogue, lookup, views
from .forms import EventTypeForm
from .models import Event, EventType

WRITTEN = ("name", "group", "description")
CONTENT = (_("Payload"), {"fields": ("sample", "json_schema", "strict", "label_pointers")})
DEPRECATION = (_("Deprecation"), {"fields": ("deprecated", "deprecation_note")})
REASON = (_("Audit log"), {"fields": ("reason",)})
READ_ONLY = (
    *WRITTEN,
    *("sample", "json_schema", "strict", "label_pointers", "deprecated_at", "deprecation_note"),
    *("created_at", "updated_at"),
)


@admin.register(Event)
class EventAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = ("id", "event_type", "source", "external_id", "correlation_id", "uid", "created_at")
    list_defer = ("payload",)
    search_help_text = _("An event's number, uid, external id or correlation id (exact match).")
    fields = ("uid",)  # the console has its own page

    def find(self, term: str) -> Iterable[int]:
        ids = lookup.find(term)
        pk = parse_id(term)
        return ids if pk is None else ids | {pk}


@admin.register(EventType)
class EventTypeAdmin(Audited, ModelAdmin):  # type: ignore[type-arg]
    form = EventTypeForm
    list_display = with_local_times(EventType, ("name", "group", "has_schema", "strict", "deprecated_at", "updated_at"))
    list_filter = ("strict",)
    search_fields = ("name", "group", "description")
    ordering = ("group", "name")
    empty_value_display = NOTHING
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = None
    change_list_template = "admin/events/eventtype/change_list.html"
    change_form_template = "admin/events/eventtype/change_form.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BoundedList]:
        return BoundedList

    def get_fieldsets(self, request: HttpRequest, obj: EventType | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": with_local_times(EventType, READ_ONLY)})]
        return [(None, {"fields": WRITTEN}), CONTENT, DEPRECATION, REASON]

    def get_readonly_fields(self, request: HttpRequest, obj: EventType | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return with_local_times(EventType, READ_ONLY)
        return ("name",) if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            kwargs["form"] = ModelForm
        return super().get_form(request, obj, change, **kwargs)

    @admin.display(description=_("schema"), boolean=True)
    def has_schema(self, row: EventType) -> bool:
        return bool(row.json_schema)

    def save_form(self, request: HttpRequest, form: EventTypeForm, change: bool) -> EventType:
        return form.save()

    def save_model(self, request: HttpRequest, obj: EventType, form: EventTypeForm, change: bool) -> None:
        """Nothing left to do: save_form() has stored it through the catalogue."""

    def delete_model(self, request: HttpRequest, obj: EventType) -> None:
        catalogue.delete(obj.name)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[EventType]) -> None:
        for row in queryset:
            catalogue.delete(row.name)

    def get_urls(self) -> list[URLPattern]:
        page = self.admin_site.admin_view(views.undeclared_page)
        return [path("undeclared/", page, name="events_eventtype_undeclared"), *super().get_urls()]
