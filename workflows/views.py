"""The pages on which an operator acts on a run: deliver again, mark as compensated, close."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webhookhub.console import format
from webhookhub.search_terms import parse_id

from . import labels, redelivery, services
from .forms import ActionForm
from .models import Fact, Instance
from .services import Conflict, InvalidFact, KeyConflict
from .state import CLOSED, UNDONE
from .versions import definition_of

MAY_VIEW = "workflows.view_instance"


@dataclass(frozen=True)
class Action:
    """`per_step`: it may be applied to a step; `whole`: to the whole run."""

    title: str | Promise
    explanation: str | Promise
    permission: str
    per_step: bool
    whole: bool
    is_available: Callable[[Instance], bool]


ACTIONS = {
    "retry": Action(
        gettext_lazy("Deliver again"),
        gettext_lazy(
            "Delivers again the events that the step reacts to: all dead letters, or the delivery that you chose. Each "
            "is a new delivery with all its attempts. Its receiver recognises a repetition by the event's id."
        ),
        redelivery.PERMISSION,
        per_step=True,
        whole=False,
        is_available=lambda instance: instance.can_be_retried,
    ),
    "mark": Action(
        gettext_lazy("Mark as compensated"),
        gettext_lazy("Confirms that the step has been undone, by hand or otherwise. The hub requests it no more."),
        "workflows.mark_compensated",
        per_step=True,
        whole=True,
        is_available=lambda instance: instance.can_be_marked,
    ),
    "close": Action(
        gettext_lazy("Close"),
        gettext_lazy(
            "Ends the run without the hub: if it is open, it ends as FAILED. The hub requests nothing more, and the "
            "run no longer needs an operator."
        ),
        "workflows.close_workflow",
        per_step=False,
        whole=True,
        is_available=lambda instance: instance.can_be_closed,
    ),
}


def act(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """GET shows the form, POST acts."""
    action = ACTIONS.get(name)
    if action is None:
        raise Http404
    if not request.user.has_perm(MAY_VIEW) or not request.user.has_perm(action.permission):
        raise PermissionDenied
    instance = get_object_or_404(Instance, pk=pk)
    form = ActionForm(
        request.POST if request.method == "POST" else None,
        _step_choices(instance, name) if action.per_step else None,
        whole=action.whole,
        initial={"delivery": parse_id(request.GET.get("delivery", "")), "step": instance.current_step},
    )
    if request.method != "POST":
        return _page(request, instance, action, form)
    # Repeating an interrupted retry completes it.
    if name != "retry" and _is_repeat(instance, request.POST):
        messages.info(request, _("This was done before, and was not done again."))
        return HttpResponseRedirect(format.page_url(Instance, instance.pk))
    if not form.is_valid():
        if "token" in form.errors or "delivery" in form.errors:
            form.renew(_("The form was incomplete. Check it and send it again."))
        return _page(request, instance, action, form)
    try:
        message = _act(request, instance, name, form.cleaned_data)
    except KeyConflict:
        form.renew(_("This form was used before with other values. Send it again to act once more."))
        return _page(request, instance, action, form)
    except (InvalidFact, Conflict) as error:
        form.add_error(None, _("Nothing was done: %(error)s.") % {"error": error})
        return _page(request, instance, action, form)
    messages.success(request, message)
    return HttpResponseRedirect(format.page_url(Instance, instance.pk))


def _is_repeat(instance: Instance, values: Mapping[str, str]) -> bool:
    """Whether this form was sent before with the same values."""
    fact = Fact.objects.filter(instance_id=instance.pk, idempotency_key=_key(values.get("token", ""))).first()
    return fact is not None and (fact.step, fact.reason) == (values.get("step", ""), values.get("reason", "").strip())


def _key(token: str) -> str:
    return f"console:{token}"


def _act(request: HttpRequest, instance: Instance, name: str, values: dict[str, Any]) -> str:
    step, key, reason = values.get("step") or "", _key(values["token"]), values["reason"]
    actor = request.user.get_username()
    if name == "retry":
        retried = redelivery.retry(
            instance, step, actor=actor, reason=reason, idempotency_key=key, delivery=values["delivery"]
        )
        return _("Delivering again: delivery %(numbers)s.") % {"numbers": ", ".join(map(str, retried.deliveries))}
    role = UNDONE if name == "mark" else CLOSED
    services.act(instance, role, step, idempotency_key=key, actor=actor, reason=reason)
    return _("Recorded. The run is updated in a moment.")


def _page(request: HttpRequest, instance: Instance, action: Action, form: ActionForm) -> HttpResponse:
    step = instance.current_step
    dead = redelivery.dead_letters(instance, step) if action is ACTIONS["retry"] and step else []
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": f"{action.title}: {instance}",
        "opts": Instance._meta,
        "instance": instance,
        "action": action,
        "form": form,
        "delivery": form["delivery"].value(),
        "deliveries": [labels.delivery(saga) for saga in dead],
    }
    return TemplateResponse(request, "admin/workflows/instance/act.html", context)


def _step_choices(instance: Instance, name: str) -> list[tuple[str, str]]:
    definition = definition_of(instance)
    keys = instance.steps_to_undo if name == "mark" else [step.key for step in definition.in_order]
    return [(key, definition.by_key[key].title) for key in keys]
