"""The pages of deliveries, events and attempts, which combine several apps; and the pages of users and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from deadletters.models import DeadLetter
from events.admin import EventAdmin
from events.models import Event
from jobs.admin import JobAdmin
from jobs.models import Job
from sagas import transitions
from sagas.admin import SagaAdmin
from sagas.models import Saga
from webhookhub.auditlog.admin import Audited
from webhookhub.auditlog.permissions import describe

from . import delivery_text, format, request_preview
from .base import ModelAdmin
from .delivery_text import History

MAX_ATTEMPTS = 50
MAX_DELIVERIES = 20
# Generations before and after a delivery that its page links to.
NEIGHBOURS = 10

for model in (User, Group, Saga, Event, Job):
    admin.site.unregister(model)


class PageMixin:
    """Renders the template of the subclass with `page_context` instead of a form."""

    def page_context(self, row: Any, user: Any) -> dict[str, Any]:
        raise NotImplementedError

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        context.update(self.page_context(context["original"], request.user))
        return super().render_change_form(request, context, *args, **kwargs)  # type: ignore[misc]


@admin.display(description=gettext_lazy("status"))
def status(row: Any) -> str:
    return format.status_badge(row.status)


class StatusFilter(admin.ChoicesFieldListFilter):
    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield {**choice, "display": format.status_label(str(choice["display"]))}


BY_STATUS: Any = (("status", StatusFilter),)


def with_badge(columns: Iterable[Any]) -> Any:
    return tuple(status if column == "status" else column for column in columns)


@admin.register(Saga)
class DeliveryPage(PageMixin, SagaAdmin):
    list_display = with_badge(SagaAdmin.list_display)
    list_filter = BY_STATUS
    change_form_template = "console/pages/delivery.html"

    def page_context(self, row: Saga, user: Any) -> dict[str, Any]:
        may = user.has_perm
        generations = _generations(row)
        history = _history(row, generations, may("jobs.view_job"))
        held_back = delivery_text.held_back(row)
        waits = row.status in transitions.WAITING and not held_back
        context: dict[str, Any] = {
            "saga": row,
            "headline": delivery_text.headline(history),
            "held_back": held_back,
            "timeline": delivery_text.timeline(history),
            "attempts_shown": history.jobs is not None,
            "earlier": max(0, row.attempt_count - MAX_ATTEMPTS),
            "attempts_url": format.list_url(Job, f"saga={row.pk}"),
            "next_attempt": row.next_attempt_at if waits else None,
            "letter": history.letter,
            "may_requeue": may("deadletters.requeue_deadletter")
            and may("deadletters.view_deadletter")
            and getattr(history.letter, "requeue", None) is None,
            "others": [
                {"id": pk, "generation": generation, "status": format.status_label(name)}
                for generation, (pk, name) in generations.items()
                if pk != row.pk and abs(generation - row.generation) <= NEIGHBOURS
            ],
            "has_more_generations": any(abs(generation - row.generation) > NEIGHBOURS for generation in generations),
            "deliveries_url": format.list_url(Saga, f"event={row.event_id}"),
        }
        if may("events.view_event"):
            context |= _payload(row.event)
            if may("subscriptions.view_subscription"):
                context["request_preview"] = _request(history, may("auditlog.view_entry"))
        return context


def _generations(saga: Saga) -> dict[int, tuple[int, str]]:
    """Primary key and status of the deliveries of the same event and subscription, by generation.

    One more than NEIGHBOURS on either side, which tells whether there are others.
    """
    near = (max(0, saga.generation - NEIGHBOURS - 1), saga.generation + NEIGHBOURS + 1)
    rows = Saga.objects.filter(event_id=saga.event_id, subscription_id=saga.subscription_id, generation__range=near)
    values = rows.order_by("generation").values_list("generation", "id", "status")
    return {generation: (pk, status) for generation, pk, status in values}


def _history(saga: Saga, generations: dict[int, tuple[int, str]], with_attempts: bool) -> History:
    before, _ = generations.get(saga.generation - 1, (None, ""))
    after, after_status = generations.get(saga.generation + 1, (None, ""))
    rows = DeadLetter.objects.filter(saga_id__in=[pk for pk in (saga.pk, before) if pk is not None])
    letters = {letter.saga_id: letter for letter in rows.defer("payload_snapshot").select_related("requeue")}
    return History(
        saga=saga,
        jobs=list(reversed(saga.jobs.order_by("-attempt_no")[:MAX_ATTEMPTS])) if with_attempts else None,
        letter=letters.get(saga.pk),
        letter_before=letters.get(before) if before else None,
        before=before,
        after=after,
        after_status=after_status,
    )


def _request(history: History, with_audit_log: bool) -> dict[str, Any]:
    """The request as it would be sent now. Requests are not stored, so `changed` warns if the subscription changed."""
    saga, subscription = history.saga, history.saga.subscription
    request = request_preview.preview(saga.event, subscription, saga.attempt_count)
    context: dict[str, Any] = {
        "request": request,
        "text": format.block(request.text),
        "curl": format.block(request.curl),
        "body_url": reverse("admin:event_body", args=[saga.event_id]),
    }
    sent_at = delivery_text.last_sent_at(history)
    if sent_at is not None and subscription.updated_at > sent_at:
        context["changed"] = subscription.updated_at
        if with_audit_log:
            context["audit_log_url"] = reverse("admin:subscriptions_subscription_history", args=[subscription.pk])
    return context


def _payload(event: Event) -> dict[str, Any]:
    """The payload, and the URL of the whole payload if the page cuts it."""
    text = format.pretty(event.payload)
    whole = reverse("admin:event_payload", args=[event.pk]) if format.is_cut(text) else ""
    return {"payload": format.block(text), "whole_payload": whole}


@admin.register(Event)
class EventPage(PageMixin, EventAdmin):
    change_form_template = "console/pages/event.html"

    def page_context(self, row: Event, user: Any) -> dict[str, Any]:
        context: dict[str, Any] = {
            "event": row,
            "deliveries_url": format.list_url(Saga, f"event={row.pk}"),
            **_payload(row),
        }
        if user.has_perm("sagas.view_saga"):
            sagas = Saga.objects.filter(event_id=row.pk).order_by("-id").select_related("subscription")
            context["deliveries"] = sagas[:MAX_DELIVERIES]
        return context


@admin.register(Job)
class AttemptPage(PageMixin, JobAdmin):
    list_display = with_badge(JobAdmin.list_display)
    list_filter = BY_STATUS
    change_form_template = "console/pages/attempt.html"

    def page_context(self, row: Job, user: Any) -> dict[str, Any]:
        return {
            "job": row,
            "entry": delivery_text.attempt(row),
            "times": delivery_text.attempt_times(row),
        }


class CheckboxesMixin:
    """Renders groups and permissions as checkboxes."""

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs)  # type: ignore[misc]
        if db_field.related_model is Permission:
            field.label_from_instance = lambda row: describe(f"{row.content_type.app_label}.{row.codename}")
        field.widget = UnfoldAdminCheckboxSelectMultipleWidget(choices=field.widget.choices)
        field.help_text = ""
        return field


@admin.register(User)
class UserAdmin(Audited, CheckboxesMixin, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    filter_horizontal = ()


@admin.register(Group)
class GroupAdmin(Audited, CheckboxesMixin, DjangoGroupAdmin, ModelAdmin):  # type: ignore[type-arg]
    filter_horizontal = ()
