"""Actions on a subscription besides editing: verify, send a test event, pause, resume, replace the secret."""

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
from webhookhub.egress import errors

from . import sample_delivery, secrets, services, verification
from .forms import OptionalReasonForm, ReasonForm
from .models import Subscription

MAY_VERIFY = "subscriptions.verify_subscription"
MAY_ROTATE = "subscriptions.reveal_secret"
MAY_CHANGE = "subscriptions.change_subscription"


@require_post
def verify(request: HttpRequest, pk: int) -> HttpResponse:
    subscription = _allowed(request, pk, MAY_VERIFY)
    form = OptionalReasonForm(request.POST)
    if not form.is_valid():
        return _refuse(request, subscription, form)
    with because(form.cleaned_data["reason"]):
        outcome = verification.verify(subscription)
    values = {"reason": verification.describe(outcome.result)}
    if outcome.verified:
        messages.success(request, _("Verified: %(reason)s.") % values)
    elif subscription.verified:
        messages.error(
            request, _("The verification failed: %(reason)s. The earlier verification stays valid.") % values
        )
    else:
        messages.error(request, _("Not verified: %(reason)s.") % values)
    return _to_subscription(subscription)


@require_post
def send_test(request: HttpRequest, pk: int) -> HttpResponse:
    subscription = _allowed(request, pk, MAY_VERIFY)
    form = OptionalReasonForm(request.POST)
    if not form.is_valid():
        return _refuse(request, subscription, form)
    with because(form.cleaned_data["reason"]):
        result = sample_delivery.send_test(subscription)
    context = {
        "response": result.response,
        "error_text": errors.describe(result.response.error_code or ""),
        "duration": format.milliseconds(result.response.duration_ms),
        "message_id": result.message_id,
        "reason": form.cleaned_data["reason"],
        "snippet": format.block(result.snippet) if result.snippet else "",
    }
    return _page(request, "test", subscription, _("Test event"), **context)


def pause(request: HttpRequest, pk: int) -> HttpResponse:
    return _set_active(request, pk, active=False)


def resume(request: HttpRequest, pk: int) -> HttpResponse:
    return _set_active(request, pk, active=True)


def _set_active(request: HttpRequest, pk: int, *, active: bool) -> HttpResponse:
    """GET asks for the reason, POST stores. Safe to repeat."""
    subscription = _allowed(request, pk, MAY_CHANGE)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        title = _("Resume a subscription") if active else _("Pause a subscription")
        return _page(request, "pause", subscription, title, form=form, pausing=not active)
    with because(form.cleaned_data["reason"]):
        services.change(subscription, {"active": active})
    messages.success(
        request, _("Resumed: it gets deliveries again.") if active else _("Paused: it gets no deliveries.")
    )
    return _to_subscription(subscription)


def rotate(request: HttpRequest, pk: int) -> HttpResponse:
    """GET explains and asks for the reason, POST rotates.

    A rotation that ends a running overlap needs the page to have shown exactly that overlap. A page that is sent twice
    has shown another one, and asks again.
    """
    subscription = _allowed(request, pk, MAY_ROTATE)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    refusal = ""
    if form.is_valid():
        until = secrets.overlap_until(subscription)
        confirmed = until is not None and request.POST.get("ends") == until.isoformat()
        try:
            with because(form.cleaned_data["reason"]):
                return show_secret(request, subscription, secrets.rotate(subscription, force=confirmed))
        except secrets.OverlapRunning as error:
            refusal = _("Nothing was changed: %(error)s.") % {"error": error}
        except secrets.RotationRefused as error:
            messages.error(request, _("Nothing was changed: %(error)s.") % {"error": error})
            return _to_subscription(subscription)
    until = secrets.overlap_until(subscription)
    context = {
        "form": form,
        "refusal": refusal,
        "ends": until.isoformat() if until else "",
        "until": format.local_time(until),
        "overlap": format.duration(hub().secret_overlap),
    }
    return _page(request, "rotate", subscription, _("Replace a signing secret"), **context)


VIEWS = {"verify": verify, "test": send_test, "rotate": rotate, "pause": pause, "resume": resume}


def show_secret(request: HttpRequest, subscription: Subscription, secret: str) -> HttpResponse:
    """In the response itself: a message would store the secret in a cookie or the session."""
    until = format.local_time(subscription.previous_secret_until)
    return _page(request, "secret", subscription, _("Signing secret"), secret=secret, previous_until=until)


def _page(
    request: HttpRequest, template: str, subscription: Subscription, title: str, **context: Any
) -> TemplateResponse:
    shared = {
        **admin.site.each_context(request),
        "title": title,
        "opts": Subscription._meta,
        "subscription": subscription,
        "address": format.page_url(Subscription, subscription.pk),
    }
    return TemplateResponse(request, f"admin/subscriptions/subscription/{template}.html", {**shared, **context})


def _to_subscription(subscription: Subscription) -> HttpResponse:
    return HttpResponseRedirect(format.page_url(Subscription, subscription.pk))


def _refuse(request: HttpRequest, subscription: Subscription, form: OptionalReasonForm) -> HttpResponse:
    messages.error(request, _("Nothing was sent. %(error)s") % {"error": " ".join(map(str, form.errors["reason"]))})
    return _to_subscription(subscription)


def _allowed(request: HttpRequest, pk: int, permission: str) -> Subscription:
    if not request.user.has_perm(permission) or not request.user.has_perm("subscriptions.view_subscription"):
        raise PermissionDenied
    return get_object_or_404(Subscription, pk=pk)
