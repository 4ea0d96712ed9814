"""Base classes of the admin pages: read-only tables that grow without limit, newest rows first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import BadRequest, FieldDoesNotExist, PermissionDenied
from django.core.paginator import Paginator
from django.db.models import DateTimeField, Model, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from webhookhub.search_terms import parse_id

from . import format

# django-unfold is not typed; type checkers see Django's classes, which it extends.
if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
else:
    from unfold.admin import ModelAdmin
    from unfold.views import ChangeList

__all__ = ["BoundedList", "BoundedPaginator", "ModelAdmin", "NewestFirst", "ReadOnlyAdmin", "with_local_times"]

MAX_LISTED = 10_000
MAX_TEXT = 200


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts at most MAX_LISTED rows; `more` is True if there are others."""

    template_name = "console/counted.html"

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        known: int | None = getattr(rows, "known_count", None)
        if known is not None:
            return known
        # Without an order the database can stop at the first rows it finds.
        return int(rows.order_by()[: MAX_LISTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self._counted, MAX_LISTED)

    @property
    def more(self) -> bool:
        return self._counted > MAX_LISTED

    @property
    def max_listed(self) -> str:
        return format.number(MAX_LISTED)


class BoundedList(ChangeList):
    """A list that shows when its count is only a lower bound."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The help text is below the search box: as a placeholder it would be cut off on a phone.
        self.search_hint, self.search_help_text = self.search_help_text, None

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # Hides the exact total of django-unfold and its link to show all rows.
        self.full_result_count = self.result_count
        self.can_show_all = self.can_show_all and not self.has_more

    @property
    def has_more(self) -> bool:
        paginator: Any = self.paginator
        return bool(paginator.more)

    @property
    def counted(self) -> str:
        count = format.number(self.result_count)
        if self.has_more:
            return _("%(number)s or more %(things)s") % {"number": count, "things": self.opts.verbose_name_plural}
        return f"{count} {self.opts.verbose_name if self.result_count == 1 else self.opts.verbose_name_plural}"


class NewestFirst(BoundedList):
    """Always ordered by the primary key, because any other order could sort the whole table."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        queryset = super().get_queryset(request, exclude_parameters)
        # Prefetched instead of joined: in a join the database may start from the other table and sort all rows.
        model_admin: Any = self.model_admin
        return queryset.defer(*model_admin.list_defer).prefetch_related(*model_admin.list_prefetch)


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[type-arg]
    """Rows that only the hub writes. No user can add, change or delete them, not even a superuser."""

    list_defer: Sequence[str] = ()
    list_prefetch: Sequence[str | Prefetch[Any]] = ()
    # Filters that the URL may contain: indexed columns only, and only values that the column accepts.
    words: Mapping[str, Sequence[str]] = {}
    references: Sequence[str] = ()
    texts: Sequence[str] = ()

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    list_per_page = 100
    empty_value_display = format.NOTHING
    change_list_template = "admin/console/change_list.html"
    change_form_template = "admin/console/change_form.html"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return NewestFirst

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        if lookup in self.texts:
            return len(value) <= MAX_TEXT and value.isprintable()
        return value in self.words.get(lookup, ()) or (lookup in self.references and parse_id(value) is not None)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return with_local_times(self.model, super().get_list_display(request))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return with_local_times(self.model, super().get_fields(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            # Django silently ignores an action that the user may not run.
            if set(request.POST.getlist("action")) - {"", *self.get_actions(request)}:
                raise PermissionDenied
            if any(parse_id(pk) is None for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)):
                raise BadRequest("a selected primary key is not a number")
        return super().changelist_view(request, extra_context)


def with_local_times(model: type[Model], names: Sequence[Any]) -> list[Any]:
    """Replaces the names of date and time fields by functions that render them in the viewer's time zone."""
    return [_displayed(model, name) if isinstance(name, str) else name for name in names]


def _displayed(model: type[Model], name: str) -> str | Callable[[Any], str]:
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return name
    if not isinstance(field, DateTimeField):
        return name

    def display(row: Any) -> str:
        return format.local_time(getattr(row, name))

    display.__name__ = name
    display.short_description = field.verbose_name  # type: ignore[attr-defined]
    return display
