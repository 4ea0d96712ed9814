"""Admin search by exact terms: every search is an index lookup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest


class ExactSearch:
    """A ModelAdmin mixin: the search finds the rows whose primary keys `find` returns."""

    search_fields: list[str] | tuple[str, ...] = ("pk",)  # Django shows the search box only if there is a field

    def find(self, term: str) -> Iterable[int]:
        raise NotImplementedError

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if term:
            queryset = queryset.filter(pk__in=list(self.find(term)))
        return queryset, False
