"""The list of workflows in the console: filters that an index answers, and pages found by where the last one ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from webhookhub.db import clock
from webhookhub.search_terms import parse_id

from . import filters, lookup, versions
from .filters import Choice
from .forms import AGES, ListForm
from .models import Instance
from .registry import Registry

PAGE = 50
# Rows that one page looks at where a condition has to be held against each.
WINDOW = 5000


@dataclass(frozen=True)
class Listed:
    form: ListForm
    rows: list[Instance]
    # The addresses' queries of the next page and of the first, where these are others.
    older: str
    first: str
    # The page ended because it had looked at enough, not because it was full.
    cut: bool
    now: datetime


def listed(request: HttpRequest) -> Listed:
    known = versions.in_force()
    steps = _steps(known, request.GET.get("saga_type", ""))
    form = ListForm(_with_step_of(steps, request.GET), _types(known), steps)
    if not form.is_valid():
        raise BadRequest("; ".join(f"{field}: {', '.join(map(str, errors))}" for field, errors in form.errors.items()))
    unknown = set(request.GET) - {*form.fields, "before"}
    if unknown:
        raise BadRequest(_("%(name)s is no filter here.") % {"name": repr(min(unknown)[:50])})
    given = form.cleaned_data
    now = clock.now()
    chosen = _choice(given, now)
    if given["q"]:
        rows, cut = found(given["q"], known, chosen)
        return Listed(form, rows, "", "", cut, now)
    before = _before(request.GET.get("before", ""))
    lowest, above = filters.bounds(chosen)
    before = above if before is None else before
    kept, last, cut = _look(chosen, lowest, before)
    rows = kept[:PAGE]
    more = cut or len(kept) > PAGE
    last = rows[-1] if len(kept) > PAGE else last
    conditions = {name: value for name, value in given.items() if value}
    return Listed(
        form,
        rows,
        urlencode({**conditions, "before": last.id}) if more and last else "",
        urlencode(conditions) if request.GET.get("before") else "",
        cut,
        now,
    )


def _look(chosen: Choice, lowest: int, before: int | None) -> tuple[list[Instance], Instance | None, bool]:
    """What is wanted, and one more if there is; the last that was looked at; and whether it ended at that."""
    kept: list[Instance] = []
    last, looked, size = None, 0, min(PAGE + 1, WINDOW)
    while looked < WINDOW:
        window = filters.newest_first(chosen, lowest, before, size)
        kept += window if chosen.is_indexed else chosen.keep(window)
        looked += len(window)
        last = window[-1] if window else last
        if len(kept) > PAGE or len(window) < size:
            return kept, last, False
        before, size = window[-1].id, min(4 * size, WINDOW)
    return kept, last, True


def found(term: str, known: Registry, chosen: Choice) -> tuple[list[Instance], bool]:
    """Those of the chosen that the term finds, the latest first; and whether there may be older ones, which were not
    looked at."""
    # One aggregate may have many; the conditions are held against each of them, so that no other index is walked.
    most = PAGE if chosen == Choice() else WINDOW
    rows = lookup.find(term, list(known.shown), most)
    return chosen.keep(rows)[:PAGE], len(rows) == WINDOW


def _choice(given: dict[str, Any], now: datetime) -> Choice:
    _says, at_least, at_most = AGES.get(given["age"], ("", None, None))
    return Choice(
        saga_type=given["saga_type"] or None,
        status=given["status"] or None,
        step=given["step"] or None,
        needs_operator=bool(given["operator"]),
        since=None if at_most is None else now - at_most,
        until=None if at_least is None else now - at_least,
    )


def _types(known: Registry) -> list[tuple[str, str]]:
    return [(name, definition.title) for name, definition in sorted(known.shown.items())]


def _steps(known: Registry, saga_type: str) -> list[tuple[str, str]]:
    steps = {
        step.key: step.title
        for definition in reversed(known.all())
        if definition.name == saga_type
        for step in definition.steps
    }
    return list(steps.items())


def _with_step_of(steps: list[tuple[str, str]], given: QueryDict) -> QueryDict:
    """The filters, without a step that the chosen workflow does not have: the form sends along that of the workflow
    which was chosen before."""
    if given.get("step", "") in dict(steps):
        return given
    kept = given.copy()
    kept.pop("step", None)
    return kept


def _before(text: str) -> int | None:
    value = parse_id(text)
    if text and value is None:
        raise BadRequest(_("before: must be a number."))
    return value
