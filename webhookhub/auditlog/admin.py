"""The audit log in the console, read-only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from webhookhub.console import format
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.search_fields import ExactSearch
from webhookhub.search_terms import parse_id

from .actions import ACTIONS, VIAS
from .models import Entry
from .render import OBJECT_TYPES, labelled, object_text

MAX_RESULTS = 1000
MAY_READ = "auditlog.view_entry"

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Any]
else:
    Base = object


class ActionFilter(admin.SimpleListFilter):
    title = _("what")
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(ACTIONS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Entry]) -> QuerySet[Entry]:
        return queryset.filter(action=self.value()) if self.value() in ACTIONS else queryset


@admin.register(Entry)
class EntryAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = ("at", "who", "via_text", "action_text", "object_text", "why")
    list_filter = (ActionFilter,)
    words = {"action": tuple(ACTIONS), "object_type": tuple(OBJECT_TYPES)}
    references = ("object_id",)
    search_help_text = _("A whole user name, “API key” and its name, or the id of an object.")
    fields = (
        "at",
        "who",
        "via_text",
        "action_text",
        "object_type_text",
        "object_id",
        "object_text",
        "why",
        "details_list",
    )

    def find(self, term: str) -> Iterable[int]:
        newest = Entry.objects.order_by("-pk").values_list("pk", flat=True)
        pks = set(newest.filter(actor=term)[:MAX_RESULTS])
        object_id = parse_id(term)
        if object_id is not None:
            pks |= set(newest.filter(object_type__in=tuple(OBJECT_TYPES), object_id=object_id)[:MAX_RESULTS])
        return pks

    # Users and programs write these texts: `visible` shows control characters as their codes.
    @admin.display(description=_("who"))
    def who(self, entry: Entry) -> str:
        return format.visible(entry.actor)

    @admin.display(description=_("object name"))
    def object_text(self, entry: Entry) -> str:
        text = object_text(entry.object_type, entry.object_id, entry.object_name, json.loads(entry.details))
        return format.visible(text) or format.NOTHING

    @admin.display(description=_("why"))
    def why(self, entry: Entry) -> str:
        return format.visible(entry.reason) or format.NOTHING

    @admin.display(description=_("what"))
    def action_text(self, entry: Entry) -> str:
        return str(ACTIONS.get(str(entry.action), entry.action))

    @admin.display(description=_("via"))
    def via_text(self, entry: Entry) -> str:
        return str(VIAS.get(str(entry.via), entry.via))

    @admin.display(description=_("object type"))
    def object_type_text(self, entry: Entry) -> str:
        return str(OBJECT_TYPES.get(str(entry.object_type), entry.object_type))

    @admin.display(description=_("details"))
    def details_list(self, entry: Entry) -> SafeString | str:
        rows = [(label, format.visible(text)) for label, text in labelled(json.loads(entry.details))]
        items = format_html_join("", "<dt>{}</dt><dd>{}</dd>", rows)
        return format_html('<dl class="hub-details" x-ignore hx-disable>{}</dl>', items) if rows else format.NOTHING


class Audited(Base):
    """For a ModelAdmin whose changes are in the audit log: Django's own log, which can be deleted, is not written."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        pk = parse_id(object_id)
        if not request.user.has_perm(MAY_READ) or pk is None:
            raise PermissionDenied
        return HttpResponseRedirect(format.list_url(Entry, f"object_type={self.opts.model_name}&object_id={pk}"))
