"""The list of dead letters, narrowed by the form above it and by the search."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.timezone import localtime

from webhookhub.console.base import NewestFirst
from webhookhub.console.middleware import COOKIE

from .filter_form import MOST_LISTED, NAMES, FilterForm, Found, find
from .filters import Choice, position
from .forms import MOST_AT_ONCE
from .models import DeadLetter


class FilteredList(NewestFirst):
    filter_form: FilterForm
    choice: Choice | None = None
    found: Found | None = None

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        """Those of the form are not Django's to judge."""
        given = super().get_filters_params(params)
        return {name: value for name, value in given.items() if name not in (*NAMES, COOKIE)}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        self.filter_form = FilterForm(request.GET)
        queryset: QuerySet[DeadLetter] = super().get_queryset(request, exclude_parameters)
        if not self.filter_form.is_given:
            return queryset
        if not self.filter_form.is_valid():
            return queryset.none()
        # Asked twice in a request that chooses from the list: once is enough.
        given = self.filter_form
        self.choice = self.choice or given.choice()
        self.found = self.found or find(self.choice, given.cleaned_data["requeued"], given.start())
        chosen = queryset.filter(pk__in=[letter.id for letter in self.found.letters[:MOST_LISTED]])
        chosen.known_count = min(len(self.found.letters), MOST_LISTED)  # type: ignore[attr-defined]
        return chosen

    @property
    def has_more(self) -> bool:
        return bool(self.older_query) or self.may_name_more or super().has_more

    @property
    def can_be_chosen_whole(self) -> bool:
        """Whether all that is listed may be requeued by ticking it."""
        return self.result_count <= MOST_AT_ONCE

    @property
    def may_name_more(self) -> bool:
        return self.choice is not None and self.choice.may_name_more

    @property
    def filter_query(self) -> str:
        """The part of the address that says what is shown."""
        return urlencode(self.filter_form.query)

    @property
    def older_query(self) -> str:
        """The same, further back."""
        if self.found is None:
            return ""
        cut = self.found.letters[MOST_LISTED:]
        older = position(cut[0]) if cut else self.found.older
        if older is None:
            return ""
        # With its number: however many failed at the same moment, the next page begins behind this one.
        # With its offset: an hour that a zone has twice in a year is not to be guessed at.
        until = localtime(older.failed_at).isoformat(" ")
        return urlencode({**self.filter_form.query, "until": until, "upto": str(older.id)})
