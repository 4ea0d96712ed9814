"""Actions on an endpoint: verify, vouch, pause, resume, delete. All but the first ask for a reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webhookhub.auditlog.context import because
from webhookhub.console import format
from webhookhub.console.error_pages import require_post

from . import endpoint_services, verification
from .endpoint_models import Endpoint
from .forms import ReasonForm

MAY_VERIFY = "subscriptions.verify_subscription"
MAY_VOUCH = "subscriptions.vouch_endpoint"
MAY_CHANGE = "subscriptions.change_subscription"


class Action(NamedTuple):
    permission: str
    title: Promise
    explanation: Promise
    done: Promise
    run: Callable[[Endpoint, str], object]
    is_dangerous: bool = False


ACTIONS = {
    "vouch": Action(
        MAY_VOUCH,
        gettext_lazy("Vouch for an endpoint"),
        gettext_lazy(
            "For an endpoint that cannot return the challenge, such as a chat service. It counts as verified by your "
            "word: make sure that its owner wants these events."
        ),
        gettext_lazy("It is verified by your word."),
        lambda endpoint, reason: endpoint_services.vouch(endpoint, reason=reason),
    ),
    "pause": Action(
        MAY_CHANGE,
        gettext_lazy("Pause an endpoint"),
        gettext_lazy("All of its subscriptions get no new deliveries, and open ones wait."),
        gettext_lazy("Paused: it gets no deliveries."),
        lambda endpoint, reason: endpoint_services.change(endpoint, {"active": False}),
    ),
    "resume": Action(
        MAY_CHANGE,
        gettext_lazy("Resume an endpoint"),
        gettext_lazy("All of its subscriptions get deliveries again, and open ones go on."),
        gettext_lazy("Resumed: it gets deliveries again."),
        lambda endpoint, reason: endpoint_services.change(endpoint, {"active": True}),
    ),
    "delete": Action(
        MAY_CHANGE,
        gettext_lazy("Delete an endpoint"),
        gettext_lazy(
            "It disappears with its subscriptions and gets nothing more; open deliveries stay undelivered. What it got "
            "stays. This cannot be undone."
        ),
        gettext_lazy("Deleted: it gets nothing more."),
        lambda endpoint, reason: endpoint_services.delete(endpoint),
        is_dangerous=True,
    ),
}


@require_post
def verify(request: HttpRequest, pk: int) -> HttpResponse:
    endpoint = _allowed(request, pk, MAY_VERIFY)
    outcome = verification.verify(endpoint)
    text = _("Verified: %(reason)s.") if outcome.verified else _("Not verified: %(reason)s.")
    level = messages.SUCCESS if outcome.verified else messages.ERROR
    messages.add_message(request, level, text % {"reason": verification.describe(outcome.result)})
    return HttpResponseRedirect(format.page_url(Endpoint, pk))


def act(request: HttpRequest, pk: int, *, name: str) -> HttpResponse:
    """GET explains and asks for the reason, POST acts. Safe to repeat."""
    action = ACTIONS[name]
    endpoint = _allowed(request, pk, action.permission)
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        context: dict[str, Any] = {
            **admin.site.each_context(request),
            "title": action.title,
            "opts": Endpoint._meta,
            "endpoint": endpoint,
            "action": action,
            "form": form,
            "address": format.page_url(Endpoint, pk),
        }
        return TemplateResponse(request, "admin/subscriptions/endpoint/act.html", context)
    with because(form.cleaned_data["reason"]):
        action.run(endpoint, form.cleaned_data["reason"])
    messages.success(request, str(action.done))
    gone = name == "delete"
    return HttpResponseRedirect(
        reverse("admin:subscriptions_endpoint_changelist") if gone else format.page_url(Endpoint, pk)
    )


def _allowed(request: HttpRequest, pk: int, permission: str) -> Endpoint:
    if not request.user.has_perm(permission) or not request.user.has_perm("subscriptions.view_endpoint"):
        raise PermissionDenied
    return get_object_or_404(Endpoint.objects.existing(), pk=pk)


VIEWS: dict[str, Callable[..., HttpResponse]] = {
    "verify": verify,
    **{name: partial(act, name=name) for name in ACTIONS},
}
