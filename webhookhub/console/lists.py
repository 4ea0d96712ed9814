"""Lists over tables that only ever grow: newest first, and no page costs more because the table has become long."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from .bases import ChangeList

MOST_LISTED = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than the rows it will list; `more` tells that there are others."""

    @cached_property
    def _counted(self) -> int:
        # Unordered, so that the database may stop at the first rows it finds.
        rows: Any = self.object_list
        return int(rows.order_by()[: MOST_LISTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self._counted, MOST_LISTED)

    @property
    def more(self) -> bool:
        return self._counted > MOST_LISTED

    @property
    def most_listed(self) -> int:
        return MOST_LISTED


class NewestFirst(ChangeList):
    """Ordered by the primary key, whatever the address asks for: an order without an index sorts the whole table."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        queryset = super().get_queryset(request, exclude_parameters)
        # What a row refers to is read by a query of its own for the whole page. In a join the database may start
        # from the other table, and then sorts everything before it can give the first page.
        console: Any = self.model_admin
        return queryset.defer(*console.list_defer).prefetch_related(*console.list_prefetch)
