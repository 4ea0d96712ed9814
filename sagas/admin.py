"""Deliveries in the console, each with its attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.db.models import Prefetch
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from deadletters.models import DeadLetter
from events.models import Event
from jobs.models import Job
from subscriptions.models import Subscription
from webhookhub.console import shown
from webhookhub.console.readonly import ReadOnlyAdmin
from webhookhub.console.search import ExactSearch, number

from . import lookup, transitions
from .models import Saga


def _once(saga: Saga, name: str, read: Callable[[], Any]) -> Any:
    """The look asks for each field several times."""
    kept = saga.__dict__.setdefault("_shown", {})
    return kept[name] if name in kept else kept.setdefault(name, read())


def _attempt(job: Job) -> dict[str, Any]:
    return {
        "job": job,
        "address": shown.page(Job, job.pk),
        "error": shown.error(job.error_code),
        "due": shown.moment(job.attempt_at),
        "finished": shown.moment(job.finished_at),
    }


@admin.register(Saga)
class SagaAdmin(ExactSearch, ReadOnlyAdmin):
    list_display = (
        "id",
        "status",
        "event_type",
        "endpoint",
        "attempts",
        "short_error",
        "next_attempt",
    )
    list_filter = ("status",)
    words = {"status__exact": transitions.STATUSES}
    references = ("event", "subscription")
    list_prefetch = (Prefetch("event", Event.objects.defer("payload")), "subscription")
    search_help_text = "A delivery's number, or its event's uid, external id or correlation id, given whole."
    change_form_template = "admin/sagas/saga/change_form.html"
    fields = (
        "status",
        "event_link",
        "subscription_link",
        "attempts",
        "next_attempt",
        "base_delay",
        "error",
        "dead_letter",
        "generation",
        "other_generations",
        "created_at",
        "updated_at",
    )

    def find(self, term: str) -> Iterable[int]:
        found = lookup.find(term)
        id = number(term)
        return found if id is None else found | {id}

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        saga: Any = context.get("original")
        if saga is not None and request.user.has_perm("jobs.view_job"):
            context["attempts"] = [_attempt(job) for job in saga.jobs.order_by("attempt_no").defer("response_snippet")]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="event type")
    def event_type(self, saga: Saga) -> str:
        return str(saga.event.event_type)

    @admin.display(description="endpoint")
    def endpoint(self, saga: Saga) -> str:
        return str(saga.subscription.callback_url)

    @admin.display(description="attempts")
    def attempts(self, saga: Saga) -> str:
        return f"{saga.attempt_count} of {saga.max_retry_limit}"

    @admin.display(description="next attempt")
    def next_attempt(self, saga: Saga) -> str:
        return shown.moment(saga.next_attempt_at) if saga.status in transitions.WAITING else shown.NOTHING

    @admin.display(description="last error")
    def error(self, saga: Saga) -> str:
        return shown.error(saga.final_error_code)

    @admin.display(description="last error")
    def short_error(self, saga: Saga) -> str:
        return shown.short_error(saga.final_error_code)

    @admin.display(description="event")
    def event_link(self, saga: Saga) -> SafeString:
        return shown.link(shown.page(Event, saga.event_id), saga.event)

    @admin.display(description="subscription")
    def subscription_link(self, saga: Saga) -> SafeString:
        return shown.link(shown.page(Subscription, saga.subscription_id), saga.subscription)

    @admin.display(description="dead letter")
    def dead_letter(self, saga: Saga) -> str:
        letter = _once(saga, "letter", lambda: saga.dead_letters.only("id").first())
        return shown.link(shown.page(DeadLetter, letter.pk), letter) if letter else shown.NOTHING

    @admin.display(description="other generations")
    def other_generations(self, saga: Saga) -> str:
        """Deliveries of the same event to the same subscription: what this one was requeued from, and as."""
        rows: Any = Saga.objects.filter(event_id=saga.event_id, subscription_id=saga.subscription_id)
        rows = rows.exclude(pk=saga.pk).order_by("generation").values_list("id", "generation", "status")
        links = [
            (shown.link(shown.page(Saga, id), f"delivery {id}"), generation, status)
            for id, generation, status in _once(saga, "others", lambda: list(rows))
        ]
        return format_html_join(", ", "{} (generation {}, {})", links) or shown.NOTHING
