"""The pages of a delivery, an event and an attempt, which show what several layers know; and people and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.http import HttpRequest
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
from webhookhub.console.base import ModelAdmin

from . import pages
from .badges import badge, in_words

for model in (User, Group, Saga, Event, Job):
    admin.site.unregister(model)


class Page:
    """A page of its own in the place of the form that nobody could change."""

    def parts(self, row: Any, user: Any) -> dict[str, Any]:
        raise NotImplementedError

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        context.update(self.parts(context["original"], request.user))
        return super().render_change_form(request, context, *args, **kwargs)  # type: ignore[misc]


@admin.display(description=gettext_lazy("state"))
def state(row: Any) -> str:
    return badge(row.status)


class StateFilter(admin.ChoicesFieldListFilter):
    """In the words that the list has."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        return ({**each, "display": in_words(str(each["display"]))} for each in super().choices(changelist))


BY_STATE: Any = (("status", StateFilter),)


def with_state(columns: Iterable[Any]) -> tuple[Any, ...]:
    """In colours and words where the list has the bare status."""
    return tuple(state if column == "status" else column for column in columns)


@admin.register(Saga)
class DeliveryPage(Page, SagaAdmin):
    list_display = with_state(SagaAdmin.list_display)
    list_filter = BY_STATE
    change_form_template = "console/pages/delivery.html"

    def parts(self, row: Saga, user: Any) -> dict[str, Any]:
        return pages.delivery(row, user)


@admin.register(Event)
class EventPage(Page, EventAdmin):
    change_form_template = "console/pages/event.html"

    def parts(self, row: Event, user: Any) -> dict[str, Any]:
        return pages.event(row, user)


@admin.register(Job)
class AttemptPage(Page, JobAdmin):
    list_display = with_state(JobAdmin.list_display)
    list_filter = BY_STATE
    change_form_template = "console/pages/attempt.html"

    def parts(self, row: Job, user: Any) -> dict[str, Any]:
        return pages.attempt(row, user)


class Checkboxes:
    """Groups and permissions to tick: nobody has to know how several lines of a list are chosen."""

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs)  # type: ignore[misc]
        if db_field.related_model is Permission:
            field.label_from_instance = lambda row: describe(f"{row.content_type.app_label}.{row.codename}")
        field.widget = UnfoldAdminCheckboxSelectMultipleWidget(choices=field.widget.choices)
        field.help_text = ""
        return field


@admin.register(User)
class UserAdmin(Audited, Checkboxes, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    filter_horizontal = ()


@admin.register(Group)
class GroupAdmin(Audited, Checkboxes, DjangoGroupAdmin, ModelAdmin):  # type: ignore[type-arg]
    filter_horizontal = ()
