"""Lists over tables that only ever grow: newest first, and no page costs more because the table has become long."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from . import plain
from .base import ChangeList

MOST_LISTED = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than the rows it will list; `more` tells that there are others."""

    template_name = "console/counted.html"

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        # Whoever has chosen the rows by their numbers knows it already.
        known: int | None = getattr(rows, "known_count", None)
        if known is not None:
            return known
        # Unordered, so that the database may stop at the first rows it finds.
        return int(rows.order_by()[: MOST_LISTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self._counted, MOST_LISTED)

    @property
    def more(self) -> bool:
        return self._counted > MOST_LISTED

    @property
    def most_listed(self) -> str:
        return plain.number(MOST_LISTED)


class BoundedList(ChangeList):
    """Says of a number that it is not the whole where it is not, and offers nothing that it cannot show."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Beneath the box and not in it, where a phone would cut it off.
        self.search_hint, self.search_help_text = self.search_help_text, None

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # The look would say the number once more, as if it were exact, with a link to show all.
        self.full_result_count = self.result_count
        self.can_show_all = self.can_show_all and not self.has_more

    @property
    def has_more(self) -> bool:
        paginator: Any = self.paginator
        return bool(paginator.more)

    @property
    def counted(self) -> str:
        number = plain.number(self.result_count)
        if self.has_more:
            return _("%(number)s or more %(things)s") % {"number": number, "things": self.opts.verbose_name_plural}
        return f"{number} {self.opts.verbose_name if self.result_count == 1 else self.opts.verbose_name_plural}"


class NewestFirst(BoundedList):
    """Ordered by the primary key, whatever the address asks for: an order without an index sorts the whole table."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        queryset = super().get_queryset(request, exclude_parameters)
        # What a row refers to is read by a query of its own for the whole page. In a join the database may start
        # from the other table, and then sorts everything before it can give the first page.
        console: Any = self.model_admin
        return queryset.defer(*console.list_defer).prefetch_related(*console.list_prefetch)
