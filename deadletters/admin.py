"""Dead letters in the console, and the way to have them delivered anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from events.models import Event
from subscriptions.models import Subscription
from webhookhub.console import format
from webhookhub.console.forms import query_in_utc
from webhookhub.console.readonly import ReadOnlyAdmin
from webhookhub.search_terms import parse_id

from . import bulk_views, views
from .filter_form import CODES, FilterForm
from .forms import MOST_AT_ONCE, ONE_AT_A_TIME, TOO_MANY, RequeueForm
from .listing import FilteredList
from .models import DeadLetter
from .requeue import PERMISSION, needed, successors

# What leads to another page, and what it takes to be let in there: whoever is not is shown the same without the link.
LEADING = {
    "delivery_link": "sagas.view_saga",
    "event_link": "events.view_event",
    "subscription_link": "subscriptions.view_subscription",
    "requeued_link": "sagas.view_saga",
    "payload_link": "events.view_event",
}


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ("id", "event_type", "endpoint", "error", "failed_at", "requeued_by")
    list_defer = ("payload_snapshot",)
    list_per_page = 50
    list_prefetch = (Prefetch("event", Event.objects.defer("payload")), "subscription", "requeue")
    search_fields = ("pk",)  # Django shows the box if there is one; it is never used
    search_help_text = _(
        "A dead letter's or its delivery's number, or the event's uid, external id or correlation id, given whole."
    )
    actions = ("requeue",)
    list_before_template = "admin/deadletters/deadletter/filters.html"
    list_after_template = "admin/deadletters/deadletter/after.html"
    change_form_template = "admin/deadletters/deadletter/change_form.html"
    fields = (
        "error",
        "failed_at",
        "delivery_link",
        "event_link",
        "subscription_link",
        "requeued_link",
        "payload_link",
    )

    def get_urls(self) -> list[URLPattern]:
        pages = {"requeue": views.view, "requeue_matching": bulk_views.view}
        return [
            path(f"{name.replace('_', '-')}/", self.admin_site.admin_view(view), name=f"deadletters_deadletter_{name}")
            for name, view in pages.items()
        ] + super().get_urls()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        refused = {name for name, permission in LEADING.items() if not request.user.has_perm(permission)}
        fields = super().get_fields(request, obj)
        return [str(name).replace("_link", "_named") if name in refused else name for name in fields]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[FilteredList]:
        return FilteredList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # So that the address can be given to a colleague elsewhere.
        query = query_in_utc(FilterForm, request.GET) if request.method == "GET" else None
        if query is not None:
            return HttpResponseRedirect(f"{request.path}?{query}")
        context = {"error_codes": CODES, "may_requeue_many": request.user.has_perms(needed(many=True))}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PERMISSION)

    @admin.action(description=_("Requeue: deliver anew"), permissions=["requeue"])
    def requeue(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        if request.POST.get("select_across") == "1":
            ids = list(queryset.values_list("pk", flat=True)[: MOST_AT_ONCE + 1])
        else:
            # As they were ticked: the list may have moved on since it was shown, and the rows would be gone from it.
            ids = sorted({int(id) for id in request.POST.getlist(ACTION_CHECKBOX_NAME)}, reverse=True)
        if len(ids) > MOST_AT_ONCE:
            self.message_user(request, TOO_MANY, messages.ERROR)
            return None
        if not request.user.has_perms(needed(many=len(ids) > 1)):
            self.message_user(request, ONE_AT_A_TIME, messages.ERROR)
            return None
        return views.ask(request, RequeueForm(initial={"ids": ",".join(map(str, ids))}))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[DeadLetter], search_term: str
    ) -> tuple[QuerySet[DeadLetter], bool]:
        """What the term names is part of what the list looks for, like the filter: the two go together."""
        return queryset, False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> DeadLetter | None:
        """With all that its page shows."""
        letters = self.get_queryset(request).select_related("saga", "event", "subscription", "requeue")
        id = parse_id(object_id)
        found: DeadLetter | None = letters.defer("event__payload").filter(pk=id).first() if id else None
        return found

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        letter: DeadLetter = context["original"]
        successor = _successor(letter)
        leads = request.user.has_perm(LEADING["delivery_link"])
        context["may_requeue"] = self.has_requeue_permission(request)
        context["requeued_as"] = successor and (views.delivery(successor) if leads else views.delivery_name(successor))
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("event type"))
    def event_type(self, letter: DeadLetter) -> str:
        return str(letter.event.event_type)

    @admin.display(description=_("endpoint"))
    def endpoint(self, letter: DeadLetter) -> str:
        return letter.subscription.shown_url

    @admin.display(description=_("error"))
    def error(self, letter: DeadLetter) -> str:
        return format.error(letter.final_error_code)

    @admin.display(description=_("requeued by"))
    def requeued_by(self, letter: DeadLetter) -> str | None:
        request = getattr(letter, "requeue", None)
        return request.requested_by if request else None

    @admin.display(description=_("delivery"))
    def delivery_link(self, letter: DeadLetter) -> SafeString:
        return views.delivery(letter.saga_id)

    @admin.display(description=_("delivery"))
    def delivery_named(self, letter: DeadLetter) -> str:
        return views.delivery_name(letter.saga_id)

    @admin.display(description=_("event"))
    def event_link(self, letter: DeadLetter) -> SafeString:
        return format.link(format.page(Event, letter.event_id), letter.event)

    @admin.display(description=_("event"))
    def event_named(self, letter: DeadLetter) -> str:
        return str(letter.event)

    @admin.display(description=_("subscription"))
    def subscription_link(self, letter: DeadLetter) -> SafeString:
        return format.link(format.page(Subscription, letter.subscription_id), letter.subscription)

    @admin.display(description=_("subscription"))
    def subscription_named(self, letter: DeadLetter) -> str:
        return str(letter.subscription)

    @admin.display(description=_("requeued"))
    def requeued_link(self, letter: DeadLetter) -> SafeString | str:
        return _requeued(letter, views.delivery)

    @admin.display(description=_("requeued"))
    def requeued_named(self, letter: DeadLetter) -> SafeString | str:
        return _requeued(letter, views.delivery_name)

    @admin.display(description=_("payload"))
    def payload_link(self, letter: DeadLetter) -> SafeString:
        """The snapshot is the event's own payload, which can be had whole."""
        if not format.is_cut(format.pretty(letter.payload_snapshot)):
            return self.payload_named(letter)
        whole = format.link(reverse("admin:event_payload", args=[letter.event_id]), gettext("Download all of it"))
        return format_html("<p>{}</p>{}", whole, self.payload_named(letter))

    @admin.display(description=_("payload"))
    def payload_named(self, letter: DeadLetter) -> SafeString:
        return format.json_block(letter.payload_snapshot)


def _successor(letter: DeadLetter) -> int | None:
    """Looked for once: the page asks for each of its fields several times."""
    if "successor" not in letter.__dict__:
        letter.__dict__["successor"] = successors([letter]).get(letter.pk)
    found: int | None = letter.__dict__["successor"]
    return found


def _requeued(letter: DeadLetter, named: Callable[[int], str]) -> SafeString | str:
    request = getattr(letter, "requeue", None)
    if request is None:
        return gettext("no")
    saga_id = _successor(letter)
    # None if it was cut short between the record and the delivery.
    unbegun = gettext("a delivery not begun yet: requeue it again to complete it")
    delivery = unbegun if saga_id is None else named(saga_id)
    when = format.moment(request.requested_at)
    told = gettext("by {} at {}, as {}<br>Reason: {}")
    return format_html(told, request.requested_by, when, delivery, format.visible(request.reason))
