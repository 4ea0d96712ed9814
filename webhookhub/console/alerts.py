"""What the first page says in a line: what is wrong, or as much of "all is well" as its viewer's figures tell."""

from __future__ import annotations

from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webhookhub.console import plain

from . import overview
from .overview import Deliveries, Running, Waiting

# Fewer attempts say nothing: the first one that fails would be a rate of none.
FEWEST_ATTEMPTS = 20
FEWEST_FAILURES = 5
LOWEST_RATE = 0.9


def of_deliveries(deliveries: Deliveries, *, may_see_dead: bool) -> list[str]:
    return [*_late(deliveries), *_dead(deliveries, may_see_dead), *_rate(deliveries), *_silent(deliveries)]


def of_processes(running: list[Running]) -> list[str]:
    return [
        _("No %(kind)s process is running: start one with manage.py run_%(kind)s, or all with manage.py run_hub.")
        % {"kind": kind}
        for kind in overview.missing(running)
    ]


def none(*, knows_deliveries: bool, knows_processes: bool) -> str:
    """Nothing that the viewer may not see is vouched for."""
    if not knows_processes:
        return _("Nothing is past due, and nothing was given up in the last hour.")
    if not knows_deliveries:
        return _("Everything that should run is running.")
    return _(
        "All is well: nothing is past due, nothing was given up in the last hour, and everything that should run is "
        "running."
    )


def counted(waiting: Waiting, number: int) -> str:
    """Of what waits: there may be more than were counted."""
    return plain.number(number) + ("+" if waiting.many else "")


def _late(deliveries: Deliveries) -> list[str]:
    due = deliveries.due
    if not due.late:
        return []
    number = counted(due, due.late)
    return [
        _("%(number)s deliveries are past due: workers are too few, too slow, or not running.") % {"number": number}
    ]


def _dead(deliveries: Deliveries, may_see: bool) -> list[str]:
    dead = deliveries.last_hour["dead_lettered"]
    if not dead:
        return []
    told = ngettext(
        "%(number)s delivery became a dead letter in the last hour.",
        "%(number)s deliveries became dead letters in the last hour.",
        dead,
    ) % {"number": plain.number(dead)}
    if not may_see:
        return [told]
    where = reverse("admin:deadletters_deadletter_changelist")
    return [format_html('{} <a class="hub-link" href="{}">{}</a>', told, where, _("Look at the dead letters"))]


def _rate(deliveries: Deliveries) -> list[str]:
    hour = deliveries.last_hour
    rate = hour.success_rate
    if rate is None or rate >= LOWEST_RATE or hour["attempts"] < FEWEST_ATTEMPTS:
        return []
    told = {"share": plain.share(rate), "number": plain.number(hour["attempts"])}
    return [_("Only %(share)s of the %(number)s attempts of the last hour succeeded.") % told]


def _silent(deliveries: Deliveries) -> list[str]:
    number = sum(
        1
        for summary in deliveries.last_hour_by_endpoint
        if not summary["completed"] and summary.failed >= FEWEST_FAILURES
    )
    if not number:
        return []
    told = ngettext(
        "%(number)s endpoint failed every attempt of the last hour.",
        "%(number)s endpoints failed every attempt of the last hour.",
        number,
    )
    return [told % {"number": plain.number(number)}]
