"""The history of a delivery as text: a headline, and a timeline from the event's arrival to the end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from deadletters.models import DeadLetter
from jobs import states
from jobs.models import Job
from sagas import transitions
from sagas.models import Saga
from webhookhub.egress import error_codes

from . import format
from .delivery_history import History

GOOD, BAD, BUSY, PLAIN = "good", "bad", "busy", ""
ATTEMPT_TITLES = {
    states.PENDING: (BUSY, gettext_noop("Attempt %(number)s waits for a worker")),
    states.LEASED: (BUSY, gettext_noop("Attempt %(number)s is being sent")),
    states.COMPLETED: (GOOD, gettext_noop("Attempt %(number)s: delivered")),
    states.FAILED: (BAD, gettext_noop("Attempt %(number)s failed: %(error)s")),
}


@dataclass(frozen=True)
class Entry:
    """One line of the timeline."""

    at: str
    colour: str
    title: str
    details: tuple[str, ...] = ()
    response: str = ""
    url: str = ""


def headline(history: History) -> str:
    saga = history.saga
    if saga.status == transitions.COMPLETED:
        return _delivered(saga)
    if saga.status == transitions.IN_PROGRESS:
        return _("Attempt %(number)s is in progress.") % {"number": saga.attempt_count + 1}
    if saga.status == transitions.DEAD_LETTERED:
        return _dead_lettered(history)
    at = history.next_attempt_at
    if not saga.attempt_count or not saga.final_error_code:
        if at is None:
            return _("Waiting for the first attempt.")
        return format_html(_("Waiting for the first attempt at {at}."), at=format.local_time(at))
    if at is None:
        return _("%(sentence)s.") % {"sentence": _failures(history)}
    return format_html(_("{failures}. Next attempt at {at}."), failures=_failures(history), at=format.local_time(at))


def _delivered(saga: Saga) -> str:
    if saga.attempt_count <= 1:
        return _("Delivered at the first attempt.")
    if not saga.final_error_code:
        return _("Delivered.")
    values = {"number": saga.attempt_count, "error": error_codes.describe(saga.final_error_code)}
    return _("Delivered at attempt %(number)s. Before that, %(error)s.") % values


def _dead_lettered(history: History) -> str:
    attempts = history.saga.attempt_count
    if history.saga.final_error_code == error_codes.ABANDONED and history.next is None:
        return _("A person has abandoned this delivery. Requeue it to try again.")
    values: dict[str, Any] = {"failures": _failures(history), "number": attempts}
    if history.next is None:
        pattern = ngettext(
            "{failures}. The hub gave up after {number} attempt. Requeue the delivery to try again.",
            "{failures}. The hub gave up after {number} attempts. Requeue the delivery to try again.",
            attempts,
        )
        return format_html(pattern, **values)
    pattern = ngettext(
        "{failures}. The hub gave up after {number} attempt. It was requeued as {delivery} ({status}).",
        "{failures}. The hub gave up after {number} attempts. It was requeued as {delivery} ({status}).",
        attempts,
    )
    title = _("delivery %(number)s") % {"number": history.next.pk}
    delivery = format.link(format.page_url(Saga, history.next.pk), title)
    return format_html(pattern, **values, delivery=delivery, status=format.status_label(history.next.status))


def _failures(history: History) -> str:
    """`The endpoint responded with 503, 4 times in a row over 6 h`."""
    code = history.saga.final_error_code or ""
    error = capfirst(error_codes.describe(code))
    finished = [job for job in history.jobs or () if job.status in states.FINISHED]
    times: list[datetime] = []
    for job in reversed(finished):
        if job.error_code != code or job.finished_at is None:
            break
        times.append(job.finished_at)
    if len(times) <= 1:
        return error
    # Earlier attempts, which are not loaded, may have failed the same way.
    may_be_more = len(times) == len(finished) and finished[0].attempt_no > 1
    return _("%(error)s, %(count)s times in a row over %(duration)s") % {
        "error": error,
        "count": f"{len(times)}+" if may_be_more else len(times),
        "duration": format.duration(times[0] - times[-1]),
    }


def timeline(history: History) -> list[Entry]:
    saga, event = history.saga, history.event
    entries = [_created(history)]
    if event is not None:
        received = _("Event %(type)s received from %(source)s") % {"type": event.event_type, "source": event.source}
        entries.insert(0, Entry(format.local_time(event.created_at), PLAIN, received))
    entries += [attempt(job) for job in history.jobs or ()]
    if history.letter:
        at, url = format.local_time(history.letter.failed_at), format.page_url(DeadLetter, history.letter.pk)
        entries.append(Entry(at, BAD, _("Became a dead letter"), url=url))
    entries += _requeued(history)
    if history.is_waiting:
        title = _("Next attempt") if saga.attempt_count else _("First attempt")
        details = (history.held_back,) if history.held_back else ()
        entries.append(Entry(format.local_time(history.next_attempt_at), BUSY, title, details))
    return entries


def _created(history: History) -> Entry:
    at = format.local_time(history.saga.created_at)
    requeue: Any = getattr(history.letters.get(history.saga.generation - 1), "requeue", None)
    if requeue is None or history.previous is None:
        return Entry(at, PLAIN, _("Routed to the subscription"))
    title = _("Requeued by %(person)s") % {"person": requeue.requested_by}
    return Entry(at, PLAIN, title, (_reason(requeue),), url=format.page_url(Saga, history.previous.pk))


def _requeued(history: History) -> list[Entry]:
    requeue: Any = getattr(history.letter, "requeue", None)
    if requeue is None:
        return []
    title, url = _("Requeued by %(person)s") % {"person": requeue.requested_by}, ""
    if history.next is not None:
        values = {"person": requeue.requested_by, "number": history.next.pk}
        title = _("Requeued by %(person)s as delivery %(number)s") % values
        url = format.page_url(Saga, history.next.pk)
    return [Entry(format.local_time(requeue.requested_at), BUSY, title, (_reason(requeue),), url=url)]


def _reason(requeue: Any) -> str:
    return _("Reason: %(reason)s") % {"reason": format.visible(requeue.reason)}


def attempt(job: Job) -> Entry:
    colour, title = ATTEMPT_TITLES[job.status]
    return Entry(
        format.local_time(job.finished_at or job.attempt_at),
        colour,
        _(title) % {"number": job.attempt_no, "error": error_codes.describe(job.error_code or "")},
        tuple(_attempt_details(job)),
        format.block(job.response_snippet) if job.response_snippet else "",
        format.page_url(Job, job.pk),
    )


def _attempt_details(job: Job) -> list[str]:
    details = []
    if job.response_status is not None:
        details.append(_("Status %(status)s") % {"status": job.response_status})
    if job.error_code:
        details.append(str(job.error_code))
    if job.duration_ms is not None:
        details.append(_("took %(duration)s") % {"duration": format.milliseconds(job.duration_ms)})
    if job.worker_id:
        details.append(_("worker %(name)s") % {"name": job.worker_id})
    if job.lease_resets:
        details.append(_("lease expired: %(number)s") % {"number": job.lease_resets})
    if job.retry_after:
        details.append(format_html(_("the endpoint asked to wait until {at}"), at=format.local_time(job.retry_after)))
    return details


def attempt_times(job: Job) -> list[tuple[str, str]]:
    """The known times of an attempt, with their titles."""
    lease = _("Lease expires") if job.status == states.LEASED else _("Available to workers")
    times = [
        (_("Due"), job.attempt_at),
        (lease, job.lease_until if job.status in states.ACTIVE else None),
        (_("Finished"), job.finished_at),
        (_("Applied to the delivery"), job.settled_at),
    ]
    return [(title, format.local_time(at)) for title, at in times if at is not None]
