"""What happened to a delivery, from the event's arrival to its end, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from deadletters.models import DeadLetter
from jobs import states
from jobs.models import Job
from sagas import transitions
from sagas.models import Saga
from webhookhub.console import format, plain, sentences
from webhookhub.db import clock

from .badges import in_words

GOOD, BAD, WARN, BUSY, PLAIN = "good", "bad", "warn", "busy", ""


@dataclass(frozen=True)
class Entry:
    at: str
    tone: str
    title: str
    details: tuple[str, ...] = ()
    response: str = ""
    address: str = ""


@dataclass(frozen=True)
class Story:
    """A delivery with everything that belongs to it."""

    saga: Saga
    # None if the viewer may not see attempts.
    jobs: Sequence[Job] | None
    # Of this delivery, and of the one that it was requeued from.
    letter: DeadLetter | None = None
    letter_before: DeadLetter | None = None
    before: int | None = None
    after: int | None = None
    after_status: str = ""


def entries(story: Story) -> list[Entry]:
    saga = story.saga
    found = [_received(saga), _born(story)]
    found += [attempt(job) for job in story.jobs or ()]
    if story.letter:
        title = _("Became a dead letter")
        found.append(
            Entry(format.moment(story.letter.failed_at), BAD, title, (), "", format.page(DeadLetter, story.letter.pk))
        )
    found += _requeued(story)
    if saga.status in transitions.WAITING:
        title = _("Next attempt") if saga.attempt_count else _("First attempt")
        waits = held_back(saga)
        # While it is held back its time is only when that is looked at again.
        at = format.NOTHING if waits else format.moment(saga.next_attempt_at)
        found.append(Entry(at, BUSY, title, (waits,) if waits else ()))
    return found


def held_back(saga: Saga) -> str | None:
    """Why it is not tried for the time being; None if there is no reason."""
    if saga.status not in transitions.WAITING:
        return None
    return sentences.held_back(saga.subscription.active, saga.subscription.verified)


def _received(saga: Saga) -> Entry:
    event = saga.event
    return Entry(
        format.moment(event.created_at),
        PLAIN,
        _("Event %(type)s received from %(source)s") % {"type": event.event_type, "source": event.source},
    )


def _born(story: Story) -> Entry:
    at = format.moment(story.saga.created_at)
    request: Any = getattr(story.letter_before, "requeue", None)
    if request is None:
        return Entry(at, PLAIN, _("Routed to the subscription"))
    return Entry(
        at,
        PLAIN,
        _("Requeued by %(person)s") % {"person": request.requested_by},
        (_("Reason: %(reason)s") % {"reason": format.visible(request.reason)},),
        "",
        format.page(Saga, story.before) if story.before else "",
    )


def _requeued(story: Story) -> list[Entry]:
    request: Any = getattr(story.letter, "requeue", None)
    if request is None:
        return []
    details = [_("Reason: %(reason)s") % {"reason": format.visible(request.reason)}]
    if story.after:
        title = _("Requeued by %(person)s as delivery %(number)s") % {
            "person": request.requested_by,
            "number": story.after,
        }
    else:
        title = _("Requeued by %(person)s") % {"person": request.requested_by}
    address = format.page(Saga, story.after) if story.after else ""
    return [Entry(format.moment(request.requested_at), BUSY, title, tuple(details), "", address)]


def attempt(job: Job) -> Entry:
    return Entry(
        format.moment(job.finished_at or job.attempt_at),
        {states.COMPLETED: GOOD, states.FAILED: BAD}.get(job.status, BUSY),
        _attempt_title(job),
        tuple(_attempt_details(job)),
        format.block(job.response_snippet) if job.response_snippet else "",
        format.page(Job, job.pk),
    )


def _attempt_title(job: Job) -> str:
    number = {"number": job.attempt_no}
    if job.status == states.COMPLETED:
        return _("Attempt %(number)s: delivered") % number
    if job.status == states.FAILED:
        return _("Attempt %(number)s failed: %(error)s") % {**number, "error": format.in_words(job.error_code or "")}
    if job.status == states.LEASED:
        return _("Attempt %(number)s is being sent") % number
    return _("Attempt %(number)s waits for a worker") % number


def _attempt_details(job: Job) -> list[str]:
    found = []
    if job.response_status is not None:
        found.append(_("Status %(status)s") % {"status": job.response_status})
    if job.error_code:
        found.append(str(job.error_code))
    if job.duration_ms is not None:
        found.append(_("took %(duration)s") % {"duration": plain.milliseconds(job.duration_ms)})
    if job.worker_id:
        found.append(_("worker %(name)s") % {"name": job.worker_id})
    if job.lease_resets:
        found.append(
            ngettext(
                "taken from a worker that fell silent, %(number)s time",
                "taken from workers that fell silent, %(number)s times",
                job.lease_resets,
            )
            % {"number": job.lease_resets}
        )
    if job.retry_after:
        found.append(format_html(_("the endpoint asked to wait until {at}"), at=format.moment(job.retry_after)))
    return found


def moments(job: Job) -> list[tuple[str, datetime | None]]:
    """When an attempt was what, where that is known."""
    lease = _("Held by its worker until") if job.status == states.LEASED else _("To be taken from")
    found = [
        (_("Due"), job.attempt_at),
        (lease, job.lease_until if job.status in states.ACTIVE else None),
        (_("Finished"), job.finished_at),
        (_("Applied to the delivery"), job.settled_at),
    ]
    return [(title, moment) for title, moment in found if moment is not None]


def last_sent_at(story: Story) -> datetime | None:
    """When the last attempt that has ended was sent; to whoever may not see attempts, no later than it was known."""
    if not story.saga.attempt_count:
        return None
    for job in reversed(story.jobs or ()):
        if job.finished_at is not None:
            return job.finished_at - timedelta(milliseconds=job.duration_ms or 0)
    return story.saga.updated_at


def headline(story: Story) -> str:
    """The whole story in one sentence."""
    saga = story.saga
    attempts, code = saga.attempt_count, saga.final_error_code
    if saga.status == transitions.COMPLETED:
        return sentences.delivered(attempts, code)
    if saga.status == transitions.IN_PROGRESS:
        return sentences.under_way(attempts + 1)
    if not code or not attempts:
        return sentences.waits(None) if held_back(saga) else sentences.begins(saga.next_attempt_at)
    failures = _in_a_row(story.jobs or (), code)
    at_least = _may_have_begun_earlier(story.jobs or (), failures)
    if saga.status == transitions.DEAD_LETTERED:
        lasting = failures[0] - failures[-1] if failures else None
        trouble = sentences.trouble(code, len(failures), lasting, at_least=at_least)
        if story.after:
            delivery = format.link(format.page(Saga, story.after), _("delivery %(number)s") % {"number": story.after})
            return sentences.requeued_since(trouble, attempts, delivery, in_words(story.after_status))
        return sentences.given_up(trouble, attempts)
    if failures:
        lasting = clock.now() - failures[-1]
        trouble = sentences.still_failing(code, len(failures), lasting, at_least=at_least)
    else:
        trouble = sentences.undelivered(code, clock.now() - saga.created_at)
    return sentences.waits(trouble) if held_back(saga) else sentences.tries_again(trouble, saga.next_attempt_at)


def _in_a_row(jobs: Sequence[Job], code: str) -> list[datetime]:
    """When the last attempts failed that failed with this code, the latest first."""
    moments: list[datetime] = []
    for job in reversed(jobs):
        if job.status not in states.FINISHED:
            continue
        if job.error_code != code or job.finished_at is None:
            break
        moments.append(job.finished_at)
    return moments


def _may_have_begun_earlier(jobs: Sequence[Job], failures: Sequence[datetime]) -> bool:
    """Whether all the attempts that are known here failed so, and there were others before them."""
    ended = [job for job in jobs if job.status in states.FINISHED]
    return bool(ended) and len(failures) == len(ended) and ended[0].attempt_no > 1
