"""Past events for a subscription, asked for in the console: a page that asks, then portion by portion until it is done.

As with the requeue of many, which portion is to be done travels in the page. It is a stretch of past time, in which
what is delivered or under way is left alone: sent again, it does nothing.
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
from webhookhub.auditlog.context import because
from webhookhub.console import format, signed_state
from webhookhub.console.forms import MomentField
from webhookhub.console.reason_field import ReasonField
from webhookhub.db import clock

TEMPLATE = "console/backfill.html"
PERMISSIONS = ["subscriptions.view_subscription", "subscriptions.change_subscription"]
PORTION = 1000
KIND = "webhookhub.console.backfill"


class BackfillForm(forms.Form):
    since = MomentField(gettext_lazy("Events since"))
    reason = ReasonField()

    def clean_since(self) -> datetime:
        since: datetime = self.cleaned_data["since"]
        if since > clock.now():
            raise forms.ValidationError(_("This time is yet to come: give one that has passed."))
        return since


@dataclass(frozen=True)
class Run:
    """How far it has come."""

    subscription: int
    since: datetime
    until: datetime
    reason: str
    examined: int = 0
    created: int = 0
    after: Position | None = None
    told: bool = False  # the trail knows of it

    @property
    def part(self) -> int:
        """In percent of the time to go through."""
        if self.after is None:
            return 100 if self.examined else 0
        return int(100 * ((self.after.created_at - self.since) / max(self.until - self.since, timedelta(seconds=1))))

    def sealed(self, user: int | None) -> str:
        after = self.after and [self.after.created_at.isoformat(), self.after.id]
        times = {"since": self.since.isoformat(), "until": self.until.isoformat()}
        return signed_state.seal(KIND, user, {**self.__dict__, **times, "after": after})

    @classmethod
    def opened(cls, text: str, subscription: int, user: int | None) -> Run:
        given = signed_state.opened(KIND, user, text)
        if given["subscription"] != subscription:
            raise PermissionDenied
        times = {name: datetime.fromisoformat(given[name]) for name in ("since", "until")}
        after = given["after"] and Position(datetime.fromisoformat(given["after"][0]), given["after"][1])
        return cls(**{**given, **times, "after": after})


def view(request: HttpRequest, number: int) -> HttpResponse:
    if not request.user.has_perms(PERMISSIONS):
        raise PermissionDenied
    subscription = get_object_or_404(Subscription, pk=number)
    if request.method != "POST":
        return _page(request, subscription, form=BackfillForm())
    if "run" in request.POST:
        try:
            run = Run.opened(request.POST["run"], number, request.user.pk)
        except signed_state.TooOld:
            messages.error(request, signed_state.TOO_OLD)
            return HttpResponseRedirect(request.path)
        return _go_on(request, subscription, run)
    form = BackfillForm(request.POST)
    if not form.is_valid():
        return _page(request, subscription, form=form)
    run = Run(number, form.cleaned_data["since"], clock.now(), form.cleaned_data["reason"])
    return _go_on(request, subscription, run)


def _go_on(request: HttpRequest, subscription: Subscription, run: Run) -> HttpResponse:
    try:
        with because(run.reason):
            done = backfill(subscription.pk, run.since, run.until, after=run.after, limit=PORTION, recorded=run.told)
    except NotRoutable as error:
        return _page(request, subscription, run=run, refused=str(error))
    run = replace(
        run,
        examined=run.examined + done.examined,
        created=run.created + done.created,
        after=done.after,
        told=done.recorded,
    )
    return _page(request, subscription, run=run)


def _page(request: HttpRequest, subscription: Subscription, **more: Any) -> HttpResponse:
    run: Run | None = more.get("run")
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Deliver past events"),
        "opts": Subscription._meta,
        "subscription": subscription,
        "address": format.page(Subscription, subscription.pk),
        "routable": subscription.is_routable,
        "finished": run is not None and run.after is None and "refused" not in more,
        "sealed": run.sealed(request.user.pk)
        if run is not None and run.after is not None and "refused" not in more
        else "",
        **more,
    }
    return TemplateResponse(request, TEMPLATE, context)
