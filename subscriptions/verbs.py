"""What people do with a subscription besides editing it: verify it, send it a test event, replace its secret."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.views.decorators.http import require_POST

from webhookhub.console import shown
from webhookhub.egress import errors

from . import secrets, trial
from .models import Subscription
from .verification import verify

MAY_VERIFY = "subscriptions.verify_subscription"
MAY_ROTATE = "subscriptions.reveal_secret"


@require_POST
def verify_view(request: HttpRequest, number: int) -> HttpResponse:
    subscription = _allowed(request, number, MAY_VERIFY)
    result = verify(subscription)
    if result.verified:
        messages.success(request, f"Verified: {result.reason}.")
    elif subscription.verified:
        messages.error(request, f"The verification failed: {result.reason}. It stays verified from before.")
    else:
        messages.error(request, f"Not verified: {result.reason}.")
    return HttpResponseRedirect(shown.page(Subscription, subscription.pk))


@require_POST
def test_view(request: HttpRequest, number: int) -> HttpResponse:
    subscription = _allowed(request, number, MAY_VERIFY)
    sent = trial.send_test(subscription)
    answer = sent.answer
    if answer.error_code is None:
        messages.success(request, f"The test event was taken: {answer.status} after {answer.duration_ms} ms.")
    else:
        messages.error(request, f"The test event failed: {errors.in_words(answer.error_code)} ({answer.error_code}).")
    if sent.snippet:
        messages.info(request, f"Answer: {sent.snippet[:200]}")
    return HttpResponseRedirect(shown.page(Subscription, subscription.pk))


@require_POST
def rotate_view(request: HttpRequest, number: int) -> HttpResponse:
    subscription = _allowed(request, number, MAY_ROTATE)
    try:
        secret = secrets.rotate(subscription)
    except secrets.RotationRefused as error:
        messages.error(request, f"Nothing was changed: {error}.")
        return HttpResponseRedirect(shown.page(Subscription, subscription.pk))
    return show_secret(request, subscription, secret)


VIEWS = {"verify": verify_view, "test": test_view, "rotate": rotate_view}


def show_secret(request: HttpRequest, subscription: Subscription, secret: str) -> HttpResponse:
    """In the answer itself: a message would carry the secret through a cookie or the session's table."""
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Signing secret",
        "opts": Subscription._meta,
        "subscription": subscription,
        "address": shown.page(Subscription, subscription.pk),
        "secret": secret,
        "previous_until": shown.moment(subscription.previous_secret_until),
    }
    return TemplateResponse(request, "admin/subscriptions/subscription/secret.html", context)


def _allowed(request: HttpRequest, number: int, permission: str) -> Subscription:
    if not request.user.has_perm(permission) or not request.user.has_perm("subscriptions.view_subscription"):
        raise PermissionDenied
    return get_object_or_404(Subscription, pk=number)
