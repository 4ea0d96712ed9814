"""What people do with a subscription besides editing it: verify it, send it a test event, replace its secret."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from webhookhub.auditlog.context import because
from webhookhub.conf import hub
from webhookhub.console import format
from webhookhub.console.errors import require_post

from . import secrets, services, test_event
from .forms import OptionalReasonForm, ReasonForm
from .models import Subscription
from .verification import in_words, verify

MAY_VERIFY = "subscriptions.verify_subscription"
MAY_ROTATE = "subscriptions.reveal_secret"
MAY_CHANGE = "subscriptions.change_subscription"


@require_post
def verify_view(request: HttpRequest, number: int) -> HttpResponse:
    subscription = _allowed(request, number, MAY_VERIFY)
    given = OptionalReasonForm(request.POST)
    if not given.is_valid():
        return _refused(request, subscription, given)
    with because(given.cleaned_data["reason"]):
        result = verify(subscription)
    reason = in_words(result.reason)
    if result.verified:
        messages.success(request, _("Verified: %(reason)s.") % {"reason": reason})
    elif subscription.verified:
        messages.error(
            request,
            _("The verification failed: %(reason)s. It stays verified from before.") % {"reason": reason},
        )
    else:
        messages.error(request, _("Not verified: %(reason)s.") % {"reason": reason})
    return HttpResponseRedirect(format.page(Subscription, subscription.pk))


@require_post
def test_view(request: HttpRequest, number: int) -> HttpResponse:
    """The answer is shown in the page itself, as the text that it is."""
    subscription = _allowed(request, number, MAY_VERIFY)
    given = OptionalReasonForm(request.POST)
    if not given.is_valid():
        return _refused(request, subscription, given)
    with because(given.cleaned_data["reason"]):
        sent = test_event.send_test(subscription)
    context = {
        **_context(request, subscription, _("Test event")),
        "answer": sent.answer,
        "taken": sent.answer.error_code is None,
        "words": format.in_words(sent.answer.error_code or ""),
        "duration": format.milliseconds(sent.answer.duration_ms),
        "message_id": sent.message_id,
        "reason": given.cleaned_data["reason"],
        "snippet": format.block(sent.snippet) if sent.snippet else "",
    }
    return TemplateResponse(request, "admin/subscriptions/subscription/trial.html", context)


def pause_view(request: HttpRequest, number: int) -> HttpResponse:
    return _switch(request, number, active=False)


def resume_view(request: HttpRequest, number: int) -> HttpResponse:
    return _switch(request, number, active=True)


def _switch(request: HttpRequest, number: int, *, active: bool) -> HttpResponse:
    """GET asks why; POST does it. To do it again changes nothing."""
    subscription = _allowed(request, number, MAY_CHANGE)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        title = _("Resume a subscription") if active else _("Pause a subscription")
        context = {**_context(request, subscription, title), "form": form, "pausing": not active}
        return TemplateResponse(request, "admin/subscriptions/subscription/switch.html", context)
    with because(form.cleaned_data["reason"]):
        services.change(subscription, {"active": active})
    messages.success(request, _("Resumed: it gets deliveries again.") if active else _("Paused: it gets nothing now."))
    return HttpResponseRedirect(format.page(Subscription, subscription.pk))


def rotate_view(request: HttpRequest, number: int) -> HttpResponse:
    """GET says what will happen and asks why; POST does it.

    Only two secrets can sign. What ends the older one is a page that has said so of exactly that overlap: sent twice,
    or reloaded, it finds another one, and is asked again.
    """
    subscription = _allowed(request, number, MAY_ROTATE)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    refusal = ""
    if request.method == "POST" and form.is_valid():
        until = secrets.overlap_until(subscription)
        agreed = until is not None and request.POST.get("ends") == until.isoformat()
        try:
            with because(form.cleaned_data["reason"]):
                return show_secret(request, subscription, secrets.rotate(subscription, force=agreed))
        except secrets.OverlapRunning as error:
            refusal = _("Nothing was changed: %(error)s.") % {"error": error}
        except secrets.RotationRefused as error:
            messages.error(request, _("Nothing was changed: %(error)s.") % {"error": error})
            return HttpResponseRedirect(format.page(Subscription, subscription.pk))
    until = secrets.overlap_until(subscription)
    context = {
        **_context(request, subscription, _("Replace a signing secret")),
        "form": form,
        "refusal": refusal,
        "ends": until.isoformat() if until else "",
        "until": format.moment(until),
        "overlap": format.duration(hub().secret_overlap),
    }
    return TemplateResponse(request, "admin/subscriptions/subscription/replace.html", context)


VIEWS = {
    "verify": verify_view,
    "test": test_view,
    "rotate": rotate_view,
    "pause": pause_view,
    "resume": resume_view,
}


def show_secret(request: HttpRequest, subscription: Subscription, secret: str) -> HttpResponse:
    """In the answer itself: a message would carry the secret through a cookie or the session's table."""
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Signing secret"),
        "opts": Subscription._meta,
        "subscription": subscription,
        "address": format.page(Subscription, subscription.pk),
        "secret": secret,
        "previous_until": format.moment(subscription.previous_secret_until),
    }
    return TemplateResponse(request, "admin/subscriptions/subscription/secret.html", context)


def _refused(request: HttpRequest, subscription: Subscription, given: OptionalReasonForm) -> HttpResponse:
    messages.error(request, _("Nothing was sent. %(error)s") % {"error": " ".join(map(str, given.errors["reason"]))})
    return HttpResponseRedirect(format.page(Subscription, subscription.pk))


def _context(request: HttpRequest, subscription: Subscription, title: str) -> dict[str, Any]:
    return {
        **admin.site.each_context(request),
        "title": title,
        "opts": Subscription._meta,
        "subscription": subscription,
        "address": format.page(Subscription, subscription.pk),
    }


def _allowed(request: HttpRequest, number: int, permission: str) -> Subscription:
    if not request.user.has_perm(permission) or not request.user.has_perm("subscriptions.view_subscription"):
        raise PermissionDenied
    return get_object_or_404(Subscription, pk=number)
