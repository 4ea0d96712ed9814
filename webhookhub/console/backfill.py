"""The page that delivers past events to a subscription, in portions until all are done.

The signed state in the page names the portion, so that a form that is submitted twice repeats it and skips nothing.
Events that were delivered already are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from events.backfill import NotRoutable, Position, backfill
from subscriptions.models import Subscription
from webhookhub import signed_state
from webhookhub.auditlog.context import because
from webhookhub.db import clock

from .forms import LocalDateTimeField, ReasonField

PERMISSIONS = ["subscriptions.view_subscription", "subscriptions.change_subscription"]
PORTION = 1000
PURPOSE = "webhookhub.console.backfill"


class BackfillForm(forms.Form):
    since = LocalDateTimeField(gettext_lazy("Events since"))
    reason = ReasonField()

    def clean_since(self) -> datetime:
        since: datetime = self.cleaned_data["since"]
        if since > clock.now():
            raise forms.ValidationError(_("Enter a time in the past."))
        return since


@dataclass(frozen=True)
class Run:
    """The progress of a backfill."""

    subscription: int
    since: datetime
    until: datetime
    reason: str
    examined: int = 0
    created: int = 0
    after: Position | None = None
    recorded: bool = False  # in the audit log

    @property
    def percent(self) -> int:
        """The part of the time range that is done."""
        if self.after is None:
            return 100 if self.examined else 0
        return int(100 * ((self.after.created_at - self.since) / max(self.until - self.since, timedelta(seconds=1))))

    def signed(self, user: int | None) -> str:
        after = self.after and [self.after.created_at.isoformat(), self.after.id]
        times = {"since": self.since.isoformat(), "until": self.until.isoformat()}
        return signed_state.sign({**self.__dict__, **times, "after": after}, PURPOSE, user)

    @classmethod
    def read(cls, text: str, subscription: int, user: int | None) -> Run:
        state = signed_state.read(text, PURPOSE, user, max_age=signed_state.MAX_PAGE_AGE)
        if state["subscription"] != subscription:
            raise PermissionDenied
        times = {name: datetime.fromisoformat(state[name]) for name in ("since", "until")}
        after = state["after"] and Position(datetime.fromisoformat(state["after"][0]), state["after"][1])
        return cls(**{**state, **times, "after": after})


def view(request: HttpRequest, pk: int) -> HttpResponse:
    if not request.user.has_perms(PERMISSIONS):
        raise PermissionDenied
    subscription = get_object_or_404(Subscription, pk=pk)
    if "run" in request.POST:
        try:
            run = Run.read(request.POST["run"], pk, request.user.pk)
        except signed_state.Expired:
            messages.error(request, signed_state.EXPIRED)
            return HttpResponseRedirect(request.path)
        return _continue(request, subscription, run)
    form = BackfillForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return _page(request, subscription, form=form)
    run = Run(pk, form.cleaned_data["since"], clock.now(), form.cleaned_data["reason"])
    return _continue(request, subscription, run)


def _continue(request: HttpRequest, subscription: Subscription, run: Run) -> HttpResponse:
    try:
        with because(run.reason):
            done = backfill(
                subscription.pk, run.since, run.until, after=run.after, limit=PORTION, recorded=run.recorded
            )
    except NotRoutable as error:
        return _page(request, subscription, run=run, refused=str(error))
    examined, created = run.examined + done.examined, run.created + done.created
    run = replace(run, examined=examined, created=created, after=done.after, recorded=done.recorded)
    signed = run.signed(request.user.pk) if run.after is not None else ""
    return _page(request, subscription, run=run, signed=signed, finished=run.after is None)


def _page(request: HttpRequest, subscription: Subscription, **context: Any) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": _("Deliver past events"),
        "opts": Subscription._meta,
        "subscription": subscription,
        **context,
    }
    return TemplateResponse(request, "console/backfill.html", context)
