"""What the pages of a delivery, an event and an attempt show, besides the row itself."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.urls import reverse

from deadletters.models import DeadLetter
from events.models import Event
from jobs.models import Job
from sagas import transitions
from sagas.models import Saga
from subscriptions.models import Subscription
from webhookhub.console import format

from . import request_preview as requests
from . import timeline
from .badges import badge, in_words
from .timeline import Story

MOST_ATTEMPTS = 50
MOST_DELIVERIES = 20
# So many generations before a delivery and after it are named on its page.
NEIGHBOURS = 10
User = AbstractBaseUser | AnonymousUser


def delivery(saga: Saga, user: Any) -> dict[str, Any]:
    may = user.has_perm
    story = _story(saga, may("jobs.view_job"))
    held_back = timeline.held_back(saga)
    is_to_be_tried = saga.status in transitions.WAITING and not held_back
    found: dict[str, Any] = {
        "saga": saga,
        "badge": badge(saga.status),
        "headline": timeline.headline(story),
        "held_back": held_back,
        "timeline": timeline.entries(story),
        "attempts_shown": story.jobs is not None,
        "earlier": max(0, saga.attempt_count - MOST_ATTEMPTS),
        "attempts_address": format.listing(Job, f"saga={saga.pk}"),
        "subscription_address": format.page(Subscription, saga.subscription_id),
        "event_address": format.page(Event, saga.event_id),
        "created": format.moment(saga.created_at),
        "updated": format.moment(saga.updated_at),
        "next_attempt": format.moment(saga.next_attempt_at) if is_to_be_tried else None,
        "error": format.error(saga.final_error_code),
        "letter": _letter(story.letter),
        "others": _generations(saga),
        "has_more_generations": _has_more_generations(saga),
        "deliveries_address": format.listing(Saga, f"event={saga.event_id}"),
        "may_requeue": may("deadletters.requeue_deadletter") and may("deadletters.view_deadletter"),
    }
    if may("events.view_event"):
        found |= _payload(saga.event)
    if may("events.view_event") and may("subscriptions.view_subscription"):
        sent = requests.sent(saga.event, saga.subscription, saga.attempt_count)
        found["sent"] = {
            "text": format.block(sent.text),
            "curl": format.block(sent.curl),
            "is_short": sent.is_short,
            "url_is_masked": sent.url_is_masked,
            "body_address": reverse("admin:event_body", args=[saga.event_id]),
            **_changed(story, may("auditlog.view_entry")),
        }
    return found


def _story(saga: Saga, with_attempts: bool) -> Story:
    family = {generation: (id, status) for generation, id, status in _family(saga)}
    jobs = list(reversed(saga.jobs.order_by("-attempt_no")[:MOST_ATTEMPTS])) if with_attempts else None
    before, _ = family.get(saga.generation - 1, (None, ""))
    after, after_status = family.get(saga.generation + 1, (None, ""))
    letters = _letters(saga.pk, before)
    return Story(
        saga=saga,
        jobs=jobs,
        letter=letters.get(saga.pk),
        letter_before=letters.get(before) if before else None,
        before=before,
        after=after,
        after_status=after_status,
    )


def _changed(story: Story, with_trail: bool) -> dict[str, Any]:
    """Whether the subscription was changed after the last attempt, which may so have been another request.

    Nothing is stored of what was sent but the event and the subscription as it is.
    """
    subscription, sent_at = story.saga.subscription, timeline.last_sent_at(story)
    if sent_at is None or subscription.updated_at <= sent_at:
        return {}
    trail = reverse("admin:subscriptions_subscription_history", args=[subscription.pk])
    return {"changed": format.moment(subscription.updated_at), "trail_address": trail if with_trail else ""}


def _letters(*sagas: int | None) -> dict[int, DeadLetter]:
    """The dead letters of these deliveries, by the delivery."""
    rows = DeadLetter.objects.filter(saga_id__in=[id for id in sagas if id is not None])
    return {letter.saga_id: letter for letter in rows.defer("payload_snapshot").select_related("requeue")}


def _family(saga: Saga) -> list[tuple[int, int, str]]:
    """Generation, number and status of this delivery and of those nearest to it, requeued one from another; read once.

    One more on either side than are named shows whether there are others behind them.
    """
    kept: list[tuple[int, int, str]] | None = saga.__dict__.get("_family")
    if kept is None:
        near = (max(0, saga.generation - NEIGHBOURS - 1), saga.generation + NEIGHBOURS + 1)
        rows = Saga.objects.filter(event_id=saga.event_id, subscription_id=saga.subscription_id, generation__range=near)
        kept = list(rows.order_by("generation").values_list("generation", "id", "status"))
        saga.__dict__["_family"] = kept
    return kept


def _generations(saga: Saga) -> list[dict[str, Any]]:
    return [
        {"address": format.page(Saga, id), "id": id, "generation": generation, "status": in_words(status)}
        for generation, id, status in _family(saga)
        if id != saga.pk and abs(generation - saga.generation) <= NEIGHBOURS
    ]


def _has_more_generations(saga: Saga) -> bool:
    return any(abs(generation - saga.generation) > NEIGHBOURS for generation, _, _ in _family(saga))


def _letter(letter: DeadLetter | None) -> dict[str, Any] | None:
    if letter is None:
        return None
    return {
        "id": letter.pk,
        "address": format.page(DeadLetter, letter.pk),
        "requeued": getattr(letter, "requeue", None) is not None,
    }


def event(event: Event, user: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "event": event,
        "created": format.moment(event.created_at),
        "list_address": format.listing(Saga, f"event={event.pk}"),
        **_payload(event),
    }
    if user.has_perm("sagas.view_saga"):
        rows = Saga.objects.filter(event_id=event.pk).order_by("-id").select_related("subscription")
        found["deliveries"] = [row(saga) for saga in rows[:MOST_DELIVERIES]]
    return found


def _payload(event: Event) -> dict[str, Any]:
    """With the address of the whole where it is too long for a page."""
    text = format.pretty(event.payload)
    whole = reverse("admin:event_payload", args=[event.pk]) if format.is_cut(text) else ""
    return {"payload": format.block(text), "whole_payload": whole}


def row(saga: Saga) -> dict[str, Any]:
    """A delivery as a line of a table."""
    return {
        "id": saga.pk,
        "address": format.page(Saga, saga.pk),
        "badge": badge(saga.status),
        "endpoint": saga.subscription.shown_url,
        "attempts": f"{saga.attempt_count} / {saga.max_retry_limit}",
        "error": format.error(saga.final_error_code),
        "updated": format.moment(saga.updated_at),
    }


def attempt(job: Job, user: Any) -> dict[str, Any]:
    saga = job.saga
    return {
        "job": job,
        "entry": timeline.attempt(job),
        "badge": badge(job.status),
        "delivery_address": format.page(Saga, job.saga_id),
        "endpoint": saga.subscription.shown_url,
        "event_type": saga.event.event_type,
        "moments": [(title, format.moment(moment)) for title, moment in timeline.moments(job)],
    }
