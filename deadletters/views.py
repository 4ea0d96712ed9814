"""The page that asks before dead letters are delivered anew, and says afterwards what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from sagas.models import Saga
from webhookhub.console import format

from .filter_form import FilterForm
from .forms import RequeueForm, read_ids
from .models import DeadLetter
from .recipients import receivers
from .requeue import PERMISSION, InvalidRequeue, Requeued, needed, requeue, successors

TEMPLATE = "admin/deadletters/deadletter/requeue.html"
# The messages travel to the next page in a cookie or the session: the rest is only counted.
MOST_NAMED = 20
MOST_SHOWN = 50


def view(request: HttpRequest) -> HttpResponse:
    """GET asks about the dead letters of `?ids=1,2`; POST requeues them."""
    if not request.user.has_perm(PERMISSION) or not request.user.has_perm("deadletters.view_deadletter"):
        raise PermissionDenied
    if request.method != "POST":
        chosen = request.GET.get("ids", "")
        if "," in chosen and not request.user.has_perms(needed(many=True)):
            raise PermissionDenied
        return ask(request, RequeueForm(initial={"ids": chosen}))
    form = RequeueForm(request.POST)
    if not form.is_valid():
        return ask(request, form)
    try:
        results = requeue(form.cleaned_data["ids"], by=request.user, reason=form.cleaned_data["reason"])
    except InvalidRequeue as error:
        form.add_error(None, _("Nothing was requeued: %(error)s.") % {"error": error})
        return ask(request, form)
    _report(request, results)
    if len(results) == 1:
        return HttpResponseRedirect(format.page(DeadLetter, results[0].dead_letter_id))
    return HttpResponseRedirect(FilterForm(request.GET).list_address)


def ask(request: HttpRequest, form: RequeueForm) -> HttpResponse:
    """The filter of the list in which they were ticked stays in the address, and leads back to it."""
    filters = FilterForm(request.GET)
    letters = _letters(str(form["ids"].value() or ""))
    after = successors(letters)
    # Those first of which something is still to be done: they are what the page asks about.
    left = [letter for letter in letters if letter.pk not in after]
    listed = left + [letter for letter in letters if letter.pk in after]
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Requeue dead letters"),
        "opts": DeadLetter._meta,
        "form": form,
        "count": len(left),
        "before": len(letters) - len(left),
        "total": len(letters),
        "receivers": receivers(Counter(letter.subscription_id for letter in left)),
        "rows": [_row(letter, after.get(letter.pk)) for letter in listed[:MOST_SHOWN]],
        "action": f"{reverse('admin:deadletters_deadletter_requeue')}?{urlencode(filters.query)}",
        "list_address": filters.list_address,
    }
    return TemplateResponse(request, TEMPLATE, context)


def _letters(ids: str) -> list[DeadLetter]:
    try:
        chosen = read_ids(ids)
    except ValidationError:
        return []
    letters = DeadLetter.objects.filter(pk__in=chosen).select_related("saga", "event", "subscription", "requeue")
    return list(letters.defer("payload_snapshot", "event__payload").order_by("-id"))


def row(letter: DeadLetter) -> dict[str, Any]:
    """What a page that asks shows of each."""
    return {
        "letter": letter,
        "address": format.page(DeadLetter, letter.pk),
        "error": format.error(letter.final_error_code),
        "failed_at": format.moment(letter.failed_at),
    }


def _row(letter: DeadLetter, saga_id: int | None) -> dict[str, Any]:
    request = getattr(letter, "requeue", None)
    return {
        **row(letter),
        "before": format_html(_("{}, as {}"), request.requested_by, delivery(saga_id)) if request and saga_id else None,
        "waits": not letter.subscription.is_routable,
    }


def _report(request: HttpRequest, results: Sequence[Requeued]) -> None:
    new = [result for result in results if result.is_delivered_now]
    before = [result for result in results if not result.is_delivered_now]
    if new:
        messages.success(
            request,
            format_html(
                _("Delivered anew: {}."),
                _named(
                    [(_("dead letter {} as {}"), result.dead_letter_id, delivery(result.saga_id)) for result in new]
                ),
            ),
        )
    if before:
        messages.warning(
            request,
            format_html(
                _("Requeued before: {}."),
                _named(
                    [
                        (
                            _("dead letter {} by {} as {}"),
                            result.dead_letter_id,
                            result.requested_by,
                            delivery(result.saga_id),
                        )
                        for result in before
                    ]
                ),
            ),
        )


def delivery(saga_id: int) -> SafeString:
    return format.link(format.page(Saga, saga_id), delivery_name(saga_id))


def delivery_name(saga_id: int) -> str:
    return _("delivery %(number)s") % {"number": saga_id}


def _named(parts: Sequence[tuple[Any, ...]]) -> SafeString:
    named = format_html_join("; ", "{}", ((format_html(*part),) for part in parts[:MOST_NAMED]))
    rest = len(parts) - MOST_NAMED
    return format_html(_("{}; and {} more"), named, rest) if rest > 0 else named
