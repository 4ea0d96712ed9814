"""Subscriptions in the console: the one table that people edit."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import IntegrityError
from django.db.models import Case, CharField, F, QuerySet, Value, When
from django.db.models.functions import Left, StrIndex
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog import actions
from webhookhub.auditlog.admin import MAY_READ, Trailed
from webhookhub.auditlog.context import because
from webhookhub.auditlog.record import record
from webhookhub.console.base import ModelAdmin
from webhookhub.console.format import NOTHING
from webhookhub.console.lists import BoundedList, BoundedPaginator
from webhookhub.console.moments import with_moments
from webhookhub.search_terms import parse_host

from . import audit, secrets, views
from .forms import SubscriptionForm
from .models import Subscription
from .verification import in_words
from .version import ChangedSince, fingerprint

WHAT = (None, {"fields": ("event_type", "callback_url", "active", "description", "signing_scheme")})
WHAT_IS_SEEN = (None, {"fields": ("event_type", "address", "active", "description", "signing_scheme")})
HEADERS = (_("Custom headers"), {"fields": ("headers",)})
HEADERS_LATER = (_("Custom headers"), {"fields": ("headers", "remove_headers")})
WHY = (_("Audit log"), {"fields": ("reason",)})
RETRIES = (
    _("Retries"),
    {
        "fields": ("max_retry_limit", "base_delay"),
        "description": _("A change holds for deliveries that begin after it."),
    },
)
VERIFICATION: tuple[Any, dict[str, Any]] = (
    _("Verification"),
    {
        "fields": with_moments(Subscription, ("verified", "verification_said", "verification_at")),
        "description": _("Only a verified subscription gets deliveries. Another callback URL has to be verified anew."),
    },
)
DATES: tuple[Any, dict[str, Any]] = (_("Dates"), {"fields": with_moments(Subscription, ("created_at", "updated_at"))})
QUESTION = StrIndex("callback_url", Value("?"))
WITHOUT_QUERY = Case(
    When(callback_url__contains="?", then=Left("callback_url", QUESTION)),
    default=F("callback_url"),
    output_field=CharField(),
)
READ_ONLY = (*VERIFICATION[1]["fields"], *DATES[1]["fields"])


@admin.register(Subscription)
class SubscriptionAdmin(Trailed, ModelAdmin):  # type: ignore[type-arg]
    form = SubscriptionForm
    list_display = with_moments(
        Subscription, ("id", "event_type", "address", "active", "verified", "description", "updated_at")
    )
    list_display_links = ("id", "event_type")
    list_filter = ("active", "verified")
    ordering = ("-id",)
    # An address that could filter by any column could guess at those that are shown nowhere, letter by letter.
    lookups = ("active__exact", "verified__exact")
    search_fields = ("event_type", "searched_address", "description")
    empty_value_display = NOTHING
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/console/change_list.html"
    change_form_template = "admin/subscriptions/subscription/change_form.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BoundedList]:
        return BoundedList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup in self.lookups

    def has_delete_permission(self, request: HttpRequest, obj: Subscription | None = None) -> bool:
        """Nobody: deliveries and dead letters refer to it. It is switched off instead."""
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Subscription | None = None) -> Any:
        if obj is None:
            return [WHAT, RETRIES, HEADERS, WHY]
        if not self.has_change_permission(request, obj):
            return [WHAT_IS_SEEN, RETRIES, VERIFICATION, DATES]
        return [WHAT, RETRIES, HEADERS_LATER, VERIFICATION, DATES, WHY]

    def get_readonly_fields(self, request: HttpRequest, obj: Subscription | None = None) -> tuple[Any, ...]:
        # The scheme goes with the secret: afterwards it is changed by replacing the secret only.
        return (*READ_ONLY, "signing_scheme", "address") if obj else READ_ONLY

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.shows_all = request.user.has_perm(views.MAY_ROTATE)  # a class made for this request
        return form

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # What is hidden is not searched either: it could be guessed letter by letter.
        searched = queryset.annotate(searched_address=WITHOUT_QUERY)
        found, may_repeat = super().get_search_results(request, searched, search_term)
        # Stored as xn--…; in a description the name stands as it was typed.
        if not search_term.isascii() and "xn--" in (named := parse_host(search_term.strip())):
            found = found | searched.filter(searched_address__contains=named)
        return found, may_repeat

    @admin.display(description=_("verification result"))
    def verification_said(self, subscription: Subscription) -> str:
        return in_words(str(subscription.verification_result)) or NOTHING

    @admin.display(description=_("callback url"))
    def address(self, subscription: Subscription) -> str:
        return subscription.shown_url

    def save_model(self, request: HttpRequest, obj: Subscription, form: Any, change: bool) -> None:
        with because(form.cleaned_data.get("reason", "")):
            self._save(obj, form, change)

    def _save(self, obj: Subscription, form: Any, change: bool) -> None:
        if not change:
            obj.save()
            audit.tell_new(obj)
        elif form.changed_columns():
            # Held until the end of the request, so that nobody changes it between this look and the update.
            stored = Subscription.objects.select_for_update().get(pk=obj.pk)
            if fingerprint(stored) != form.cleaned_data["seen"]:
                raise ChangedSince
            before = audit.facts(stored)
            # The others are not the form's to write: they may have been verified or replaced a moment ago.
            obj.save(update_fields=[*form.changed_columns(), "updated_at"])
            audit.tell_change(obj, before)

    def get_urls(self) -> list[URLPattern]:
        return [
            path(
                f"<int:number>/{verb}/",
                self.admin_site.admin_view(view),
                name=f"subscriptions_subscription_{verb}",
            )
            for verb, view in views.VIEWS.items()
        ] + super().get_urls()

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        context["may_verify"] = request.user.has_perm(views.MAY_VERIFY)
        context["may_rotate"] = request.user.has_perm(views.MAY_ROTATE)
        context["may_change"] = request.user.has_perm(views.MAY_CHANGE)
        context["may_read_trail"] = request.user.has_perm(MAY_READ)
        return super().render_change_form(request, context, *args, **kwargs)

    def response_add(self, request: HttpRequest, obj: Subscription, *args: Any, **kwargs: Any) -> HttpResponse:
        """Whoever may see the secret of a new subscription sees it now, and nobody does later."""
        if request.user.has_perm(views.MAY_ROTATE):
            record(actions.REVEAL, obj, name=obj.in_the_trail)
            return views.show_secret(request, obj, secrets.shown_to_the_receiver(obj))
        return super().response_add(request, obj, *args, **kwargs)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except (IntegrityError, ChangedSince):
            # Somebody else saved the same subscription between the form's check and its save. Now the form sees it.
            return super().changeform_view(request, *args, **kwargs)
