"""The pages that ask before an operator steps into a workflow, and say afterwards what was done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from webhookhub.console import format
from webhookhub.search_terms import parse_id

from . import queries, redelivery, services
from .compensation import NotCompensating
from .forms import ActionForm
from .models import Fact, Instance
from .redelivery import NothingToRetry, retriable
from .services import InvalidFact, KeyConflict, NothingToClose
from .words import CLOSED, COMPLETED, IN_PROGRESS, STEP_UNDO_FAILED, UNDOING, UNDONE

TEMPLATE = "admin/workflows/instance/act.html"
VIEW = "workflows.view_instance"


@dataclass(frozen=True)
class Action:
    """`whole`: it may be said of the workflow as a whole; `per_step`: of a single step."""

    title: str
    explained: str
    permission: str
    per_step: bool
    whole: bool
    makes_sense: Callable[[Instance], bool]


ACTIONS = {
    "retry": Action(
        _("Deliver again"),
        _(
            "What the step reacts to is delivered again: those deliveries that have died, each as a new delivery with "
            "all its attempts; or the one that you have chosen. Its receiver knows a repetition by the event's id."
        ),
        redelivery.PERMISSION,
        per_step=True,
        whole=False,
        makes_sense=lambda instance: instance.status != COMPLETED,
    ),
    "mark": Action(
        _("Mark as compensated"),
        _("You confirm that what the step did has been undone, by hand or otherwise. The hub asks for it no more."),
        "workflows.mark_compensated",
        per_step=True,
        whole=True,
        makes_sense=lambda instance: instance.status not in (IN_PROGRESS, COMPLETED) and bool(_undoable(instance)),
    ),
    "close": Action(
        _("Close"),
        _(
            "The workflow is taken out of the hub's hands. If it is still open it ends as FAILED; nothing more is "
            "asked of any service, and it no longer waits for a person."
        ),
        "workflows.close_workflow",
        per_step=False,
        whole=True,
        makes_sense=lambda instance: instance.can_be_closed,
    ),
}


def view(request: HttpRequest, number_: int, name: str) -> HttpResponse:
    """GET asks, POST does it."""
    action = ACTIONS.get(name)
    if action is None:
        raise Http404
    if not request.user.has_perm(VIEW) or not request.user.has_perm(action.permission):
        raise PermissionDenied
    instance = get_object_or_404(Instance, pk=number_)
    form = ActionForm(
        request.POST if request.method == "POST" else None,
        _steps(instance, name) if action.per_step else None,
        whole=action.whole,
        initial={"delivery": parse_id(request.GET.get("delivery", "")), "step": instance.current_step},
    )
    if request.method != "POST":
        return _ask(request, instance, action, form)
    # A retry that was cut short is completed by asking again.
    if name != "retry" and _was_done(instance, request.POST):
        messages.info(request, gettext("This was done already, and was not done again."))
        return HttpResponseRedirect(format.page(Instance, instance.pk))
    if not form.is_valid():
        if "token" in form.errors or "delivery" in form.errors:
            form.send_anew(gettext("The form was not whole. Look at it once more, and send it again."))
        return _ask(request, instance, action, form)
    try:
        done = _do(request, instance, name, form.cleaned_data)
    except KeyConflict:
        form.send_anew(gettext("This page was used already, for something else. If you want this too, send it again."))
        return _ask(request, instance, action, form)
    except (InvalidFact, NotCompensating, NothingToClose, NothingToRetry) as error:
        form.add_error(None, gettext("Nothing was done: %(error)s.") % {"error": error})
        return _ask(request, instance, action, form)
    messages.success(request, done)
    return HttpResponseRedirect(format.page(Instance, instance.pk))


def _was_done(instance: Instance, given: Mapping[str, str]) -> bool:
    """With this very form, sent twice; not if somebody went back to it and chose otherwise."""
    fact = Fact.objects.filter(instance_id=instance.pk, idempotency_key=_key(given.get("token", ""))).first()
    return fact is not None and (fact.step, fact.reason) == (given.get("step", ""), given.get("reason", "").strip())


def _key(token: str) -> str:
    return f"console:{token}"


def _do(request: HttpRequest, instance: Instance, name: str, given: dict[str, Any]) -> str:
    step, key, reason = given.get("step") or "", _key(given["token"]), given["reason"]
    if name == "retry":
        done = redelivery.retry(
            instance, step, by=request.user, reason=reason, idempotency_key=key, delivery=given["delivery"]
        )
        return gettext("On its way again: delivery %(numbers)s.") % {"numbers": ", ".join(map(str, done.deliveries))}
    role = UNDONE if name == "mark" else CLOSED
    services.act(instance, role, step, idempotency_key=key, actor=request.user.get_username(), reason=reason)
    return gettext("Recorded. The hub draws its conclusions within a moment.")


def _ask(request: HttpRequest, instance: Instance, action: Action, form: ActionForm) -> HttpResponse:
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": f"{gettext(action.title)}: {instance}",
        "opts": Instance._meta,
        "instance": instance,
        "address": format.page(Instance, instance.pk),
        "action": action,
        "form": form,
        "delivery": form["delivery"].value(),
        "deliveries": _deliveries(instance) if action.permission == redelivery.PERMISSION else [],
    }
    return TemplateResponse(request, TEMPLATE, context)


def _deliveries(instance: Instance) -> list[str]:
    """What would be delivered again for the step at which the workflow is."""
    step = instance.current_step
    if not step:
        return []
    return [str(each) for each in retriable(instance, step, _states(instance).get(step, "")) if each.is_dead]


def _steps(instance: Instance, name: str) -> list[tuple[str, str]]:
    keys = _undoable(instance) if name == "mark" else [step.key for step in queries.definition_of(instance).in_order]
    titles = queries.definition_of(instance).by_key
    return [(key, titles[key].title) for key in keys]


def _undoable(instance: Instance) -> list[str]:
    return [step for step, state in _states(instance).items() if state in (UNDOING, STEP_UNDO_FAILED)]


def _states(instance: Instance) -> dict[str, str]:
    found: dict[str, str] = json.loads(instance.steps)
    return found
