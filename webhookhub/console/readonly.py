"""Rows that the hub's own processes make: people look at them, and nobody, superusers included, edits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from webhookhub.search_terms import parse_id

from .base import ModelAdmin
from .format import NOTHING
from .lists import BoundedPaginator, NewestFirst
from .moments import with_moments


class ReadOnly:
    """For a ModelAdmin or an inline: to be seen with the view permission, and no more than that."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, ModelAdmin):  # type: ignore[type-arg]
    list_defer: Sequence[str] = ()
    list_prefetch: Sequence[str | Prefetch[Any]] = ()
    # What an address may filter by: only that which an index answers, and only values that the column can hold,
    # because some databases take any other for an error.
    words: Mapping[str, Sequence[str]] = {}
    references: Sequence[str] = ()

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    list_per_page = 100
    empty_value_display = NOTHING
    change_list_template = "admin/console/change_list.html"
    change_form_template = "admin/console/change_form.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return NewestFirst

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return value in self.words.get(lookup, ()) or (lookup in self.references and parse_id(value) is not None)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return with_moments(self.model, super().get_list_display(request))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return with_moments(self.model, super().get_fields(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            # Django takes an action that the user may not run for none at all; a forged request is to be refused.
            if set(request.POST.getlist("action")) - {"", *self.get_actions(request)}:
                raise PermissionDenied
            if any(parse_id(chosen) is None for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME)):
                raise BadRequest(_("A chosen row's number is not a number."))
        return super().changelist_view(request, extra_context)
