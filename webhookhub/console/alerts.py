"""The alerts at the top of the overview."""

from __future__ import annotations

from collections.abc import Iterable

from django.urls import reverse
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from api.models import ApiKey
from webhookhub.models import Process

from . import format, overview
from .overview import Deliveries, Waiting

# A rate of fewer attempts is not an alert.
MIN_ATTEMPTS = 20
MIN_FAILURES = 5
MIN_RATE = 0.9
MAX_KEYS = 5


def of_deliveries(deliveries: Deliveries, *, may_see_dead: bool) -> list[str]:
    due, hour = deliveries.due, deliveries.last_hour
    alerts = []
    if due.late:
        alerts.append(
            _("%(number)s deliveries are past due: workers are too few, too slow, or not running.")
            % {"number": due.late_text}
        )
    if hour["dead_lettered"]:
        alerts.append(_dead_letters(hour["dead_lettered"], may_see_dead))
    rate = hour.success_rate
    if rate is not None and rate < MIN_RATE and hour["attempts"] >= MIN_ATTEMPTS:
        values = {"share": format.percent(rate), "number": format.number(hour["attempts"])}
        alerts.append(_("Only %(share)s of the %(number)s attempts of the last hour succeeded.") % values)
    failing = sum(
        not summary["completed"] and summary.failed >= MIN_FAILURES for summary in deliveries.last_hour_by_endpoint
    )
    if failing:
        pattern = ngettext(
            "%(number)s endpoint failed every attempt of the last hour.",
            "%(number)s endpoints failed every attempt of the last hour.",
            failing,
        )
        alerts.append(pattern % {"number": format.number(failing)})
    return alerts


def _dead_letters(count: int, may_see: bool) -> str:
    pattern = ngettext(
        "%(number)s delivery became a dead letter in the last hour.",
        "%(number)s deliveries became dead letters in the last hour.",
        count,
    )
    text: str = pattern % {"number": format.number(count)}
    if not may_see:
        return text
    url = reverse("admin:deadletters_deadletter_changelist")
    return format_html('{} <a class="hub-link" href="{}">{}</a>', text, url, _("View dead letters"))


def of_keys(keys: Iterable[ApiKey]) -> list[str]:
    url = reverse("admin:api_apikey_changelist")
    return [
        format_html(
            '{} <a class="hub-link" href="{}">{}</a>',
            _("The API key %(name)s expires at %(time)s.")
            % {"name": key.name, "time": localtime(key.expires_at).strftime("%Y-%m-%d %H:%M")},
            url,
            _("View API keys"),
        )
        for key in keys
    ]


def of_workflows(for_operators: Waiting) -> list[str]:
    if not for_operators.count:
        return []
    pattern = ngettext(
        "%(number)s workflow run needs an operator.", "%(number)s workflow runs need an operator.", for_operators.count
    )
    text = pattern % {"number": for_operators.count_text}
    url = reverse("admin:workflows_instance_changelist") + "?operator=1"
    return [format_html('{} <a class="hub-link" href="{}">{}</a>', text, url, _("View runs"))]


def of_certificates(count: int) -> list[str]:
    if not count:
        return []
    pattern = ngettext(
        "The client certificate of %(number)s active subscription has expired or expires within 30 days.",
        "The client certificates of %(number)s active subscriptions have expired or expire within 30 days.",
        count,
    )
    url = reverse("admin:subscriptions_subscription_changelist") + "?certificate=expiring"
    text = pattern % {"number": format.number(count)}
    return [format_html('{} <a class="hub-link" href="{}">{}</a>', text, url, _("View subscriptions"))]


def of_processes(running: list[tuple[Process, bool]]) -> list[str]:
    return [
        _("No %(kind)s process is running: start one with manage.py run_%(kind)s, or all with manage.py run_hub.")
        % {"kind": kind}
        for kind in overview.missing(running)
    ]


def none(*, deliveries: bool, processes: bool) -> str:
    """The text if there are no alerts; it covers only what the user may see."""
    if deliveries and processes:
        return _("No problems: no delivery is past due, no dead letters in the last hour, all processes are running.")
    if processes:
        return _("All processes are running.")
    return _("No delivery is past due, and there were no dead letters in the last hour.")
