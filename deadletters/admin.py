"""Dead letters in the console: the list with its filter, and a dead letter's page."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from events.models import Event
from sagas.models import Saga
from subscriptions.models import Subscription
from webhookhub.console import format
from webhookhub.console.base import NewestFirst, ReadOnlyAdmin
from webhookhub.console.forms import query_in_utc
from webhookhub.console.middleware import COOKIE
from webhookhub.db import keyset
from webhookhub.search_terms import parse_id

from . import views
from .filters import DeadLetterFilter
from .forms import MAX_SELECTED, ONE_AT_A_TIME, TOO_MANY, FilterForm, RequeueForm
from .models import DeadLetter
from .requeue import PERMISSION, required_permissions, successors

MAX_LISTED = 500
# Rows that a page of the list examines when no index covers all conditions.
WINDOW = 2000


class FilteredList(NewestFirst):
    filter_form: FilterForm
    letter_filter = DeadLetterFilter()
    page: keyset.Page[DeadLetter] | None = None

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        """Without the parameters of the form, which Django would refuse."""
        own = (*FilterForm.base_fields, COOKIE)
        return {name: value for name, value in super().get_filters_params(params).items() if name not in own}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        self.filter_form = FilterForm(request.GET)
        queryset: QuerySet[DeadLetter] = super().get_queryset(request, exclude_parameters)
        if not self.filter_form.is_given:
            return queryset
        if not self.filter_form.is_valid():
            return queryset.none()
        if self.page is None:  # an action calls this method twice
            self.letter_filter = self.filter_form.letter_filter()
            after = self.filter_form.position()
            self.page = keyset.page(
                lambda count: self.letter_filter.newest_first(after, count),
                MAX_LISTED,
                window=WINDOW,
                keep=None if self.letter_filter.is_indexed else self.letter_filter.matching,
            )
        queryset = queryset.filter(pk__in=[letter.id for letter in self.page.rows])
        queryset.known_count = len(self.page.rows)  # type: ignore[attr-defined]
        return queryset

    @property
    def has_more(self) -> bool:
        return bool(self.older_query) or self.search_is_cut or super().has_more

    @property
    def can_select_all(self) -> bool:
        return self.result_count <= MAX_SELECTED

    @property
    def search_is_cut(self) -> bool:
        return self.letter_filter.search_is_cut

    @property
    def filter_query(self) -> str:
        return urlencode(self.filter_form.query)

    @property
    def older_query(self) -> str:
        """The query of the next page."""
        last = self.page.last if self.page else None
        if last is None:
            return ""
        # With the UTC offset: when clocks are set back, a local time is ambiguous.
        until = localtime(last.failed_at).isoformat(" ")
        return urlencode({**self.filter_form.query, "until": until, "before_id": str(last.id)})


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ("id", "event_type", "customer_key", "endpoint", "error", "failed_at", "requeued_by")
    list_defer = ("payload_snapshot",)
    list_per_page = 50
    list_prefetch = (Prefetch("event", Event.objects.defer("payload")), "subscription", "requeue")
    search_fields = ("pk",)  # Django shows the search box only if there is a field
    search_help_text = _(
        "The number of a dead letter or of its delivery, or the event's uid, external id or correlation id."
    )
    actions = ("requeue",)
    list_before_template = "admin/deadletters/deadletter/filters.html"
    list_after_template = "admin/deadletters/deadletter/after.html"
    change_form_template = "admin/deadletters/deadletter/change_form.html"
    fields = ("error", "failed_at", "delivery", "event_link", "subscription_link", "requeued", "payload")

    def get_urls(self) -> list[URLPattern]:
        pages = {"requeue": views.requeue_selected, "requeue_matching": views.requeue_matching}
        return [
            path(f"{name.replace('_', '-')}/", self.admin_site.admin_view(view), name=f"deadletters_deadletter_{name}")
            for name, view in pages.items()
        ] + super().get_urls()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[FilteredList]:
        return FilteredList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # With times in UTC, the URL means the same to a colleague in another time zone.
        query = query_in_utc(FilterForm, request.GET) if request.method == "GET" else None
        if query is not None:
            return HttpResponseRedirect(f"{request.path}?{query}")
        return super().changelist_view(request, extra_context)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[DeadLetter], search_term: str
    ) -> tuple[QuerySet[DeadLetter], bool]:
        """The search is a condition of the filter."""
        return queryset, False

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PERMISSION)

    @admin.action(description=_("Requeue"), permissions=["requeue"])
    def requeue(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        if request.POST.get("select_across") == "1":
            ids = list(queryset.values_list("pk", flat=True)[: MAX_SELECTED + 1])
        else:
            # Not from the queryset: the list may have changed since it was shown.
            ids = sorted({int(pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)}, reverse=True)
        if len(ids) > MAX_SELECTED:
            self.message_user(request, TOO_MANY, messages.ERROR)
            return None
        if not request.user.has_perms(required_permissions(many=len(ids) > 1)):
            self.message_user(request, ONE_AT_A_TIME, messages.ERROR)
            return None
        return views.confirm_selected(request, RequeueForm(initial={"ids": ",".join(map(str, ids))}))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> DeadLetter | None:
        # Prefetched instead of joined: a dead letter is shown even if a row that it refers to does not exist.
        related = (Prefetch("event", Event.objects.defer("payload")), "saga", "subscription", "requeue")
        pk = parse_id(object_id)
        letter: Any = self.get_queryset(request).prefetch_related(*related).filter(pk=pk).first() if pk else None
        if letter is not None:
            # The fields below need them, and Django calls each field several times.
            letter.viewer = request.user
            saga_id = successors([letter]).get(letter.pk) if hasattr(letter, "saga") else None
            letter.requeued_as = _delivery(letter, saga_id) if saga_id else ""
        return letter  # type: ignore[no-any-return]

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
    def delivery(self, letter: DeadLetter) -> str:
        return _delivery(letter, letter.saga_id)

    @admin.display(description=_("event"))
    def event_link(self, letter: DeadLetter) -> str:
        return _link(letter, Event, letter.event_id, str(letter.event))

    @admin.display(description=_("subscription"))
    def subscription_link(self, letter: DeadLetter) -> str:
        return _link(letter, Subscription, letter.subscription_id, str(letter.subscription))

    @admin.display(description=_("requeued"))
    def requeued(self, letter: Any) -> str:
        request = getattr(letter, "requeue", None)
        if request is None:
            return gettext("no")
        when, text = format.local_time(request.requested_at), gettext("by {} at {}, as {}<br>Reason: {}")
        return format_html(text, request.requested_by, when, letter.requeued_as, format.visible(request.reason))

    @admin.display(description=_("payload"))
    def payload(self, letter: Any) -> SafeString:
        """The snapshot, with a link to the event's payload if it is too long for the page."""
        block = format.json_block(letter.payload_snapshot)
        if not format.is_cut(format.pretty(letter.payload_snapshot)) or not _may_view(letter, Event):
            return block
        link = format.link(reverse("admin:event_payload", args=[letter.event_id]), gettext("Download all"))
        return format_html("<p>{}</p>{}", link, block)


def _may_view(letter: Any, model: type[Model]) -> bool:
    return bool(letter.viewer.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}"))


def _link(letter: DeadLetter, model: type[Model], pk: int, text: str) -> str:
    """A link if the viewer may open it."""
    return format.link(format.page_url(model, pk), text) if _may_view(letter, model) else text


def _delivery(letter: DeadLetter, saga_id: int) -> str:
    return _link(letter, Saga, saga_id, views.delivery_name(saga_id))
