"""Requeueing all dead letters that match a filter: a page that asks, and then portion by portion until it is done.

Each request does a bounded portion and shows how far it has come; a small script asks for the next one, and without
scripts a button does. All of them have the same address, which says what was asked for: whoever comes back to it, by a
reload or after a login, is asked about the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from events.models import Event
from webhookhub.console.reason_field import ReasonField
from webhookhub.search_terms import MAX_ID
from webhookhub.signed_state import EXPIRED, Expired

from .filter_form import BEFORE, FilterForm
from .filters import Position, position
from .models import DeadLetter
from .outstanding import Outstanding, outstanding
from .recipients import receivers
from .requeue import InvalidRequeue, Outcome, needed
from .run import Run
from .views import MOST_NAMED, delivery, row

ASK = "admin/deadletters/deadletter/matching.html"
SHOW = "admin/deadletters/deadletter/progress.html"
SAMPLE = 10
MOST = 5000
USUALLY = 1000
VIEW_PERMISSION = "deadletters.view_deadletter"


class HowManyForm(forms.Form):
    """In the address, like the filter: what the page shows is what will be done."""

    limit = forms.IntegerField(
        label=_("How many at most"),
        min_value=1,
        max_value=MOST,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric"}),
        help_text=_("The longest dead come first. What is left can be requeued afterwards."),
    )
    behind = forms.IntegerField(required=False, min_value=1, max_value=MAX_ID, widget=forms.HiddenInput)

    def start(self) -> Position | None:
        """Behind which dead letter to look."""
        number = self.cleaned_data["behind"]
        letter = DeadLetter.objects.only("id", "failed_at").filter(id=number).first() if number else None
        return position(letter) if letter else None


class ReasonForm(forms.Form):
    reason = ReasonField(
        help_text=_("Kept with each dead letter and in the audit log, with your name and the time."),
        missing=_("Give the reason for the requeue."),
    )


def view(request: HttpRequest) -> HttpResponse:
    """GET asks about the filter of the address; POST requeues a portion of what was shown."""
    if not request.user.has_perms([VIEW_PERMISSION, *needed(many=True)]):
        raise PermissionDenied
    if request.method != "POST":
        return _ask(request, ReasonForm())
    try:
        run = Run.opened(request.POST.get("run", ""), request.user.pk)
    except Expired:
        messages.error(request, EXPIRED)
        return HttpResponseRedirect(request.get_full_path())
    if run.reason:
        return _show(request, *run.go_on(request.user))
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _ask(request, form)
    try:
        return _show(request, *replace(run, reason=form.cleaned_data["reason"]).go_on(request.user))
    except InvalidRequeue as error:
        form.add_error("reason", str(error))
        return _ask(request, form)


def _ask(request: HttpRequest, form: ReasonForm) -> HttpResponse:
    """Whenever it is asked, it is chosen anew, and what is shown is what is sealed."""
    filters, many = FilterForm(request.GET), HowManyForm({"limit": USUALLY, **request.GET.dict()})
    readable = filters.is_valid() and many.is_valid()
    found = Outstanding()
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Requeue all that match"),
        "opts": DeadLetter._meta,
        "filters": filters,
        "many": many,
        "form": form,
        "query": filters.query,
        "list_address": filters.list_address,
    }
    if readable:
        choice, limit = filters.choice(), many.cleaned_data["limit"]
        # "Already requeued" is a filter of the list as well: of those there are none to be requeued.
        start = many.start()
        if filters.cleaned_data["requeued"] != BEFORE:
            found = outstanding(choice, limit, start)
        # Those before the place where it started are left as well.
        more = start is not None or found.behind is not None or choice.may_name_more
        run = Run.of([letter.id for letter in found.letters], choice, limit, more=more)
        context |= {
            "chosen": choice.in_words(),
            "may_name_more": choice.may_name_more,
            "sealed": run.sealed(request.user.pk),
        }
    if found.behind is not None:
        further = {**context["query"], "limit": many.cleaned_data["limit"], "behind": found.behind.id}
        context["further"] = urlencode(further)
        context["cut"] = len(found.letters) < many.cleaned_data["limit"]
    return TemplateResponse(request, ASK, {**context, **_shown(found.letters)})


def _shown(letters: Sequence[DeadLetter]) -> dict[str, Any]:
    """How many, to whom, and the first of them."""
    sample = letters[:SAMPLE]
    prefetch_related_objects(sample, Prefetch("event", Event.objects.defer("payload")), "subscription")
    return {
        "count": len(letters),
        "receivers": receivers(Counter(letter.subscription_id for letter in letters)),
        "sample": [row(letter) for letter in sample],
    }


def _named(people: Iterable[str]) -> str:
    names = sorted(set(people))
    return ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")


def _show(request: HttpRequest, run: Run, done: Outcome) -> HttpResponse:
    anew = [result for result in done.requeued if result.is_delivered_now]
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Requeue all that match"),
        "opts": DeadLetter._meta,
        "run": run,
        "sealed": "" if run.finished else run.sealed(request.user.pk),
        "total": len(run.ids),
        "chosen": run.choice.in_words(),
        "again": not done.new,
        "ask_address": request.get_full_path(),
        "list_address": FilterForm(request.GET).list_address,
        "before_by": _named(result.requested_by for result in done.requeued if not result.is_delivered_now),
        "latest": [(result.dead_letter_id, delivery(result.saga_id)) for result in anew[-MOST_NAMED:]],
    }
    return TemplateResponse(request, SHOW, context)
