"""Attempts in the console."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from sagas import lookup as sagas
from sagas.models import Saga
from webhookhub.console import format
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.search_fields import ExactSearch
from webhookhub.search_terms import parse_id

from . import states
from .models import Job

MAX_RESULTS = 10_000


@admin.register(Job)
class JobAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = (
        "id",
        "delivery",
        "attempt_no",
        "status",
        "response_status",
        "short_error",
        "duration_ms",
        "attempt_at",
    )
    list_filter = ("status",)
    words = {"status__exact": states.STATUSES}
    references = ("saga",)
    list_defer = ("response_snippet",)
    search_help_text = _(
        "An attempt's or its delivery's number, or the event's uid, external id or correlation id (exact match)."
    )
    fields = ("status",)  # the console has its own page

    def find(self, term: str) -> Iterable[int]:
        pk = parse_id(term)
        named = set() if pk is None else {pk}
        saga_ids = sagas.find(term) | named
        if not saga_ids:
            return set()
        rows = Job.objects.filter(saga_id__in=saga_ids).order_by("saga_id", "attempt_no")
        return named.union(rows.values_list("id", flat=True)[:MAX_RESULTS])

    @admin.display(description=_("delivery"))
    def delivery(self, job: Job) -> SafeString:
        return format.link(format.page_url(Saga, job.saga_id), job.saga_id)

    @admin.display(description=_("error"))
    def short_error(self, job: Job) -> str:
        return format.short_error(job.error_code)
