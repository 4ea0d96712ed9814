"""Requeueing all dead letters that match a filter: a page that asks, and then portion by portion until it is done.

Each request does a bounded portion and shows how far it has come; a small script asks for the next one, and without
scripts a button does. What is to be done next travels in the page, signed: nobody goes on with another's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.core import signing
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from events.models import Event
from webhookhub.console import shown

from . import bulk
from .bulk import Bookmark
from .choice import Choice, Position
from .confirmation import MOST_NAMED, delivery, endpoints
from .filters import BEFORE, MOST_EXAMINED, NOT_YET, FilterForm, Found, find
from .models import DeadLetter
from .requeue import REASON_LENGTH, InvalidRequeue, needed

ASK = "admin/deadletters/deadletter/matching.html"
SHOW = "admin/deadletters/deadletter/progress.html"
PORTION = 250
SAMPLE = 10
MOST = 5000
SALT = "deadletters.matching"
PATIENCE = timedelta(hours=1)
VIEW_PERMISSION = "deadletters.view_deadletter"


class MatchingForm(forms.Form):
    limit = forms.IntegerField(
        label=_("How many at most"),
        min_value=1,
        max_value=MOST,
        initial=1000,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric"}),
        help_text=_("The longest dead come first. What is left can be requeued afterwards."),
    )
    reason = forms.CharField(
        label=_("Reason"),
        max_length=REASON_LENGTH,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=_("Kept with each dead letter and in the audit trail, with your name and the time."),
        error_messages={"required": _("Give the reason for the requeue.")},
    )


@dataclass(frozen=True)
class Run:
    """How far a requeue has come."""

    choice: Choice
    reason: str
    limit: int
    expected: int
    user: int
    created: int = 0
    met: int = 0  # requeued by somebody else at the same moment
    after: Bookmark | None = None

    @property
    def done(self) -> int:
        return self.created + self.met

    def sealed(self) -> str:
        return signing.dumps(_plain(self), salt=SALT)

    @classmethod
    def opened(cls, text: str, user: int) -> Run:
        try:
            given = signing.loads(text, salt=SALT, max_age=PATIENCE)
        except signing.BadSignature:
            raise BadRequest("This page is too old or was changed; begin again from the dead letters.") from None
        if given["user"] != user:
            raise PermissionDenied
        times = {name: given["choice"][name] and datetime.fromisoformat(given["choice"][name]) for name in TIMES}
        after = given["after"]
        bookmark = Bookmark(Position(datetime.fromisoformat(after[0]), after[1]), after[2]) if after else None
        return cls(**{**given, "choice": Choice(**{**given["choice"], **times}), "after": bookmark})


TIMES = ("since", "until")


def _plain(run: Run) -> dict[str, Any]:
    choice = {**run.choice.__dict__}
    for name in TIMES:
        choice[name] = choice[name] and choice[name].isoformat()
    after = run.after and [run.after.after.failed_at.isoformat(), run.after.after.id, run.after.highest]
    return {**run.__dict__, "choice": choice, "after": after}


def view(request: HttpRequest) -> HttpResponse:
    """GET asks about the filter of the address; POST requeues a portion."""
    if not request.user.has_perms([VIEW_PERMISSION, *needed(many=True)]):
        raise PermissionDenied
    if request.method == "POST" and "run" in request.POST:
        return _go_on(request, Run.opened(request.POST["run"], request.user.pk or 0))
    filters = FilterForm(request.GET)
    if not filters.is_valid():
        return _ask(request, filters, MatchingForm())
    if request.method != "POST":
        return _ask(request, filters, MatchingForm())
    form = MatchingForm(request.POST)
    if not form.is_valid():
        return _ask(request, filters, form)
    limit = form.cleaned_data["limit"]
    found = find(filters.choice(), NOT_YET)
    # For the bar only: how many there are beyond those looked at nobody has counted.
    expected = limit if found.older else min(limit, len(found.letters))
    run = Run(filters.choice(), form.cleaned_data["reason"], limit, expected, request.user.pk or 0)
    try:
        return _go_on(request, run)
    except InvalidRequeue as error:
        form.add_error("reason", str(error))
        return _ask(request, filters, form)


def _ask(request: HttpRequest, filters: FilterForm, form: MatchingForm) -> HttpResponse:
    valid = filters.is_valid() and filters.cleaned_data["requeued"] != BEFORE
    found = find(filters.choice(), NOT_YET) if valid else Found()
    sample = found.letters[:SAMPLE]
    prefetch_related_objects(sample, Prefetch("event", Event.objects.defer("payload")), "subscription")
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Requeue all that match"),
        "opts": DeadLetter._meta,
        "filters": filters,
        "chosen": filters.choice().in_words() if filters.is_valid() else "",
        "form": form,
        "found": found,
        "count": len(found.letters),
        "endpoints": endpoints(Counter(letter.subscription_id for letter in found.letters)),
        "sample": [_row(letter) for letter in sample],
        "examined": MOST_EXAMINED,
    }
    return TemplateResponse(request, ASK, context)


def _go_on(request: HttpRequest, run: Run) -> HttpResponse:
    outcome = bulk.requeue_matching(
        run.choice, by=request.user, reason=run.reason, limit=min(PORTION, run.limit - run.done), after=run.after
    )
    created = sum(result.created for result in outcome.requeued)
    run = replace(
        run,
        created=run.created + created,
        met=run.met + len(outcome.requeued) - created,
        after=outcome.after,
    )
    finished = run.after is None or run.done >= run.limit
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Requeue all that match"),
        "opts": DeadLetter._meta,
        "run": run,
        "sealed": "" if finished else run.sealed(),
        "finished": finished,
        "expected": max(run.expected, run.done),
        "chosen": run.choice.in_words(),
        "more": run.after is not None,
        "action": reverse("admin:deadletters_deadletter_requeue_matching"),
        "latest": [(result.dead_letter_id, delivery(result.saga_id)) for result in outcome.requeued[:MOST_NAMED]],
    }
    return TemplateResponse(request, SHOW, context)


def _row(letter: DeadLetter) -> dict[str, Any]:
    return {
        "letter": letter,
        "address": shown.page(DeadLetter, letter.pk),
        "error": shown.error(letter.final_error_code),
        "failed_at": shown.moment(letter.failed_at),
    }
