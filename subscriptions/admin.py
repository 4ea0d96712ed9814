"""Subscriptions in the console: the one table that people edit."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse

from webhookhub.console.lists import BoundedPaginator
from webhookhub.console.shown import NOTHING

from .forms import SubscriptionForm
from .models import Subscription

WHAT = (None, {"fields": ("event_type", "callback_url", "active", "description", "signing_scheme")})
RETRIES = (
    "Retries",
    {"fields": ("max_retry_limit", "base_delay"), "description": "A change holds for deliveries that begin after it."},
)
VERIFICATION = (
    "Verification",
    {
        "fields": ("verified", "verification_result", "verification_at"),
        "description": "Only a verified subscription gets deliveries. Another callback URL has to be verified anew.",
    },
)
READ_ONLY = ("verified", "verification_result", "verification_at", "created_at", "updated_at")
DATES = ("Dates", {"fields": ("created_at", "updated_at")})


@admin.register(Subscription)
class SubscriptionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    form = SubscriptionForm
    list_display = ("id", "event_type", "callback_url", "active", "verified", "description", "updated_at")
    list_display_links = ("id", "event_type")
    list_filter = ("active", "verified")
    ordering = ("-id",)
    # An address that could filter by any column could guess at those that are shown nowhere, letter by letter.
    lookups = ("active__exact", "verified__exact")
    search_fields = ("event_type", "callback_url", "description")
    empty_value_display = NOTHING
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/console/change_list.html"

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup in self.lookups

    def has_delete_permission(self, request: HttpRequest, obj: Subscription | None = None) -> bool:
        """Nobody: deliveries and dead letters refer to it. It is switched off instead."""
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Subscription | None = None) -> Any:
        return [WHAT, RETRIES, VERIFICATION, DATES] if obj else [WHAT, RETRIES]

    def get_readonly_fields(self, request: HttpRequest, obj: Subscription | None = None) -> tuple[str, ...]:
        # The scheme goes with the secret: afterwards it is changed by replacing the secret only.
        return (*READ_ONLY, "signing_scheme") if obj else READ_ONLY

    def save_model(self, request: HttpRequest, obj: Subscription, form: Any, change: bool) -> None:
        if not change:
            obj.save()
        elif form.changed_data:
            # The others are not the form's to write: they may have been verified or replaced a moment ago.
            obj.save(update_fields=[*form.changed_data, "updated_at"])

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except IntegrityError:
            # Somebody else saved the same subscription between the form's check and its save. Now the form sees it.
            return super().changeform_view(request, *args, **kwargs)
