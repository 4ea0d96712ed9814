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

from events.admin import EventAdmin
from events.models import Event
from jobs.admin import JobAdmin
from jobs.models import Job
from sagas.admin import SagaAdmin
from sagas.models import Saga
from webhookhub.auditlog.admin import Audited
from webhookhub.auditlog.permissions import describe

from . import delivery_text, format, request_preview
from .base import ModelAdmin
from .delivery_history import History

MAX_DELIVERIES = 20

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
        history = History.load(row, with_attempts=user.has_perm("jobs.view_job"))
        context: dict[str, Any] = {
            "saga": row,
            "history": history,
            "headline": delivery_text.headline(history),
            "timeline": delivery_text.timeline(history),
        }
        event, subscription = history.event, history.subscription
        if event is not None and user.has_perm("events.view_event"):
            context |= _payload(event)
            if subscription is not None and user.has_perm("subscriptions.view_subscription"):
                context["preview"] = request_preview.preview(event, subscription, row.attempt_count)
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
        context: dict[str, Any] = {"event": row, **_payload(row)}
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
        return {"job": row, "entry": delivery_text.attempt(row), "times": delivery_text.attempt_times(row)}


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
