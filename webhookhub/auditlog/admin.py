"""The trail in the console: to be read, by those who may."""

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
from webhookhub.console.readonly import ReadOnlyAdmin
from webhookhub.console.search_fields import ExactSearch
from webhookhub.search_terms import parse_id

from . import objects
from .actions import ACTIONS
from .models import Entry
from .render import KINDS as KINDS_IN_WORDS
from .render import VIA, facts

MOST_FOUND = 1000
MAY_READ = "auditlog.view_entry"
KINDS = sorted({action.partition(".")[0] for action in ACTIONS})

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
    list_display = ("at", "who", "via_in_words", "action_in_words", "what_it_is_called", "why")
    list_defer = ("details",)
    list_filter = (ActionFilter,)
    words = {"action": tuple(ACTIONS), "object_type": KINDS}
    references = ("object_id",)
    search_help_text = _("Who: a user name, or “API key” and its name, given whole; or an object's number.")
    fields = (
        "at",
        "who",
        "via_in_words",
        "action_in_words",
        "kind_in_words",
        "object_id",
        "what_it_is_called",
        "why",
        "told",
    )

    def find(self, term: str) -> Iterable[int]:
        newest = Entry.objects.order_by("-pk").values_list("pk", flat=True)
        found = set(newest.filter(actor=term)[:MOST_FOUND])
        id = parse_id(term)
        if id is not None:
            found |= set(newest.filter(object_type__in=KINDS, object_id=id)[:MOST_FOUND])
        return found

    # What people and programs have written: nothing in it may act upon the page that shows it.
    @admin.display(description=_("who"))
    def who(self, entry: Entry) -> str:
        return format.visible(entry.actor)

    @admin.display(description=_("object name"))
    def what_it_is_called(self, entry: Entry) -> str:
        return format.visible(objects.thing(entry.object_type, entry.object_id, entry.object_name)) or format.NOTHING

    @admin.display(description=_("why"))
    def why(self, entry: Entry) -> str:
        return format.visible(entry.reason) or format.NOTHING

    @admin.display(description=_("what"))
    def action_in_words(self, entry: Entry) -> str:
        return str(ACTIONS.get(str(entry.action), entry.action))

    @admin.display(description=_("via"))
    def via_in_words(self, entry: Entry) -> str:
        return str(VIA.get(str(entry.via), entry.via))

    @admin.display(description=_("object type"))
    def kind_in_words(self, entry: Entry) -> str:
        return str(KINDS_IN_WORDS.get(str(entry.object_type), entry.object_type))

    @admin.display(description=_("details"))
    def told(self, entry: Entry) -> SafeString | str:
        told = format_html_join(
            "",
            "<dt>{}</dt><dd>{}</dd>",
            ((name, format.visible(text)) for name, text in facts(_read(entry.details))),
        )
        return format_html('<dl class="hub-told" x-ignore hx-disable>{}</dl>', told) if told else format.NOTHING


def _read(details: str) -> dict[str, Any]:
    found = json.loads(details)
    return found if isinstance(found, dict) else {"": found}


class Trailed(Base):
    """For a ModelAdmin whose verbs tell the trail: Django's own log, which anybody could empty, is not written."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Of one object, to those who may read the trail."""
        id = parse_id(object_id)
        if not request.user.has_perm(MAY_READ) or id is None:
            raise PermissionDenied
        return HttpResponseRedirect(format.listing(Entry, f"object_type={self.opts.model_name}&object_id={id}"))
