"""Customers and subscriptions in the console."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Case, CharField, F, QuerySet, Value, When
from django.db.models.functions import Left, StrIndex
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog import actions
from webhookhub.auditlog.admin import Audited
from webhookhub.auditlog.record import record
from webhookhub.console.base import BoundedList, BoundedPaginator, ModelAdmin, ReadOnlyAdmin, with_local_times
from webhookhub.console.format import NOTHING
from webhookhub.db import clock
from webhookhub.search_terms import parse_host

from . import endpoint_admin as endpoint_admin
from . import secrets, views
from .forms import CustomerForm, SubscriptionForm
from .models import Customer, Subscription
from .services import AlreadySubscribed, ChangedSince
from .verification import describe

MAIN = (None, {"fields": ("customer_key", "event_type", "callback_url", "active", "description", "signing_scheme")})
MAIN_READ_ONLY = (
    None,
    {"fields": ("customer_key", "event_type", "shown_url", "active", "description", "signing_scheme")},
)
HEADERS = (_("Custom headers"), {"fields": ("headers",)})
HEADERS_REMOVABLE = (_("Custom headers"), {"fields": ("headers", "remove_headers")})
REASON = (_("Audit log"), {"fields": ("reason",)})
RETRIES = (
    _("Retries"),
    {
        "fields": ("max_retry_limit", "base_delay", "retry_delays"),
        "description": _("A change applies to deliveries that are created after it."),
    },
)
FLOW = (_("Flow control"), {"fields": ("rate_limit",)})
FILTER = (_("Filter"), {"fields": ("label_filter",)})
VERIFICATION: tuple[Any, dict[str, Any]] = (
    _("Verification"),
    {
        "fields": with_local_times(Subscription, ("verified", "verification_text", "verification_at")),
        "description": _("Only a verified subscription gets deliveries. A new callback URL must be verified again."),
    },
)
DATES: tuple[Any, dict[str, Any]] = (
    _("Dates"),
    {"fields": with_local_times(Subscription, ("created_at", "updated_at"))},
)
MAX_SUBSCRIPTIONS = 100
READ_ONLY = (*VERIFICATION[1]["fields"], *DATES[1]["fields"])
URL_WITHOUT_QUERY = Case(
    When(callback_url__contains="?", then=Left("callback_url", StrIndex("callback_url", Value("?")))),
    default=F("callback_url"),
    output_field=CharField(),
)


@admin.register(Customer)
class CustomerAdmin(Audited, ReadOnlyAdmin):
    list_display = ("customer_key", "name", "enabled", "created_at")
    search_fields = ("customer_key", "name")
    fields = ("customer_key", "name", "uid", "created_at", "disabled_at")
    change_form_template = "admin/subscriptions/customer/change_form.html"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("subscriptions.add_customer")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return CustomerForm if obj is None else super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [(None, {"fields": CustomerForm.Meta.fields if obj is None else self.get_fields(request, obj)})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [] if obj is None else super().get_readonly_fields(request, obj)

    def save_form(self, request: HttpRequest, form: CustomerForm, change: bool) -> Customer:
        return form.save()

    def save_model(self, request: HttpRequest, obj: Customer, form: CustomerForm, change: bool) -> None:
        """Nothing left to do: save_form() has stored it."""

    def get_urls(self) -> list[URLPattern]:
        return [
            path(f"<int:pk>/{name}/", self.admin_site.admin_view(view), name=f"subscriptions_customer_{name}")
            for name, view in views.CUSTOMER_VIEWS.items()
        ] + super().get_urls()

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        customer: Any = context.get("original")
        if customer is not None and request.user.has_perm("subscriptions.view_subscription"):
            own = Subscription.objects.existing().filter(customer_key=customer.customer_key)
            rows = list(own.order_by("endpoint_id", "event_type")[: MAX_SUBSCRIPTIONS + 1])
            context["subscriptions"] = [{"subscription": row, "state": _state(row)} for row in rows[:MAX_SUBSCRIPTIONS]]
            context["more"] = len(rows) > MAX_SUBSCRIPTIONS
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("enabled"), boolean=True)
    def enabled(self, customer: Customer) -> bool:
        return customer.disabled_at is None


def _state(subscription: Subscription) -> str:
    if not subscription.active:
        return gettext("paused")
    if not subscription.verified:
        return gettext("not verified")
    if subscription.disabled_at is not None:
        return gettext("disabled")
    return gettext("customer disabled") if subscription.customer_disabled_at is not None else gettext("active")


class CertificateFilter(admin.SimpleListFilter):
    title = _("client certificate")
    parameter_name = "certificate"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("expiring", _("expired, or expires within 30 days"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.with_expiring_certificate(clock.now()) if self.value() == "expiring" else queryset


@admin.register(Subscription)
class SubscriptionAdmin(Audited, ModelAdmin):  # type: ignore[type-arg]
    form = SubscriptionForm
    list_display = with_local_times(
        Subscription,
        ("id", "customer_key", "event_type", "shown_url", "active", "verified", "enabled", "description", "updated_at"),
    )
    list_display_links = ("id", "event_type")
    list_filter = ("active", "verified", CertificateFilter)
    ordering = ("-id",)
    # A filter on a hidden column would allow to guess its value letter by letter.
    lookups = ("active__exact", "verified__exact", "customer_key", CertificateFilter.parameter_name)
    search_fields = ("customer_key", "event_type", "url_without_query", "description")
    empty_value_display = NOTHING
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/console/change_list.html"
    change_form_template = "admin/subscriptions/subscription/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Subscription]:
        return super().get_queryset(request).filter(deleted_at__isnull=True)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BoundedList]:
        return BoundedList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup in self.lookups

    def has_delete_permission(self, request: HttpRequest, obj: Subscription | None = None) -> bool:
        """Deliveries and dead letters refer to it; it can be paused instead."""
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Subscription | None = None) -> Any:
        if obj is None:
            return [MAIN, FILTER, RETRIES, FLOW, HEADERS, REASON]
        if not self.has_change_permission(request, obj):
            return [MAIN_READ_ONLY, FILTER, RETRIES, FLOW, VERIFICATION, DATES]
        return [MAIN, FILTER, RETRIES, FLOW, HEADERS_REMOVABLE, VERIFICATION, DATES, REASON]

    def get_readonly_fields(self, request: HttpRequest, obj: Subscription | None = None) -> tuple[Any, ...]:
        # A rotation changes the signing scheme together with the secret.
        return (*READ_ONLY, "customer_key", "signing_scheme", "shown_url") if obj else READ_ONLY

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.shows_secrets = request.user.has_perm(views.MAY_ROTATE)  # the class is made for this request
        return form

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # The query is hidden, and a search could guess it letter by letter.
        rows = queryset.annotate(url_without_query=URL_WITHOUT_QUERY)
        found, may_repeat = super().get_search_results(request, rows, search_term)
        # URLs contain international names in their ASCII form.
        if not search_term.isascii() and "xn--" in (ascii_host := parse_host(search_term.strip())):
            found = found | rows.filter(url_without_query__contains=ascii_host)
        return found, may_repeat

    @admin.display(description=_("verification result"))
    def verification_text(self, subscription: Subscription) -> str:
        return describe(str(subscription.verification_result)) or NOTHING

    @admin.display(description=_("enabled"), boolean=True)
    def enabled(self, subscription: Subscription) -> bool:
        return subscription.disabled_at is None

    @admin.display(description=_("callback URL"))
    def shown_url(self, subscription: Subscription) -> str:
        return subscription.shown_url

    def save_form(self, request: HttpRequest, form: SubscriptionForm, change: bool) -> Subscription:
        return form.save()

    def save_model(self, request: HttpRequest, obj: Subscription, form: SubscriptionForm, change: bool) -> None:
        """Nothing left to do: save_form() has stored it through services."""

    def get_urls(self) -> list[URLPattern]:
        return [
            path(f"<int:pk>/{name}/", self.admin_site.admin_view(view), name=f"subscriptions_subscription_{name}")
            for name, view in views.VIEWS.items()
        ] + super().get_urls()

    def response_add(self, request: HttpRequest, obj: Subscription, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the new secret, once, to users who may see it."""
        if request.user.has_perm(views.MAY_ROTATE):
            record(actions.REVEAL, obj, name=obj.audit_name)
            return views.show_secret(request, obj, secrets.reveal(obj))
        return super().response_add(request, obj, *args, **kwargs)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except (AlreadySubscribed, ChangedSince):
            # Another request stored the same subscription after the form's check: the check now reports it.
            return super().changeform_view(request, *args, **kwargs)
