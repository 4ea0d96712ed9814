"""The replay of a run, and the pages on which an operator acts on it: deliver again, mark as compensated, close."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webhookhub.console import format
from webhookhub.db import clock
from webhookhub.search_terms import parse_id

from . import diagram, history, labels, redelivery, services, versions
from .advance import differences, require
from .forms import ActionForm
from .history import History
from .models import Fact, Instance
from .services import Conflict, InvalidFact, KeyConflict
from .state import CLOSED, UNDONE, State
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


def replay(request: HttpRequest, run: Instance) -> dict[str, Any]:
    """The context of the page. `position` chooses the fact, and `version` the other version."""
    registry = versions.in_force()
    own = require(registry, run.saga_type, run.definition_version)
    others = [each.version for each in registry.all() if each.name == own.name and each.version != own.version]
    version = _number(request, "version", others)
    other = registry.get(own.name, version) if version else None
    left = history.recorded(run, own)
    right = history.simulated(run, own, other, clock.now()) if other else None
    rows = history.side_by_side(left, right)
    numbers = range(1, len(rows) + 1)
    position = _number(request, "position", numbers) or len(rows)

    def address(position: int, version: int | None = version) -> str:
        return "?" + urlencode({"position": position} | ({"version": version} if version else {}))

    row = rows[position - 1] if rows else None
    sides = [(left, row.left_state if row else None), (right, row.right_state if row else None)]
    # Without the facts that were cut off, the row must differ.
    final = left.positions[-1].state if left.positions and not left.cut else None
    return {
        "title": _("Replay: %(run)s") % {"run": run},
        "run": run,
        "position": position,
        "count": len(rows),
        "text": labels.fact(row.fact) if row else "",
        "step": row.fact.step if row else "",
        "sides": [_side(each, state, run) for each, state in sides if each],
        "lines": [
            {"row": each, "text": labels.fact(each.fact), "number": number, "address": address(number)}
            for number, each in enumerate(rows, 1)
        ],
        "compared": other,
        "links": {
            name: address(number)
            for name, number in (("previous", position - 1), ("next", position + 1))
            if number in numbers
        },
        "first": address(1),
        "last": address(len(rows)),
        "versions": [(each, f"?version={each}") for each in others],
        "alone": f"?position={min(position, len(left.positions))}" if left.positions else "?",
        "cut": left.cut,
        "most": history.MAX_FACTS,
        "missing": right.missing if right else 0,
        "differences": sorted(differences(run, final)) if final else [],
    }


def _number(request: HttpRequest, name: str, allowed: Container[int]) -> int | None:
    text = request.GET.get(name, "")
    number = parse_id(text)
    if text and (number is None or number not in allowed):
        raise BadRequest(_("There is no %(name)s %(value)s.") % {"name": name, "value": repr(text[:50])})
    return number if text else None


def _side(side: History, state: State | None, run: Instance) -> dict[str, Any]:
    definition = side.definition
    drawing = diagram.boxes(definition, state.steps if state else {})
    is_own = definition.version == run.definition_version
    return {
        "version": definition.version,
        "is_own": is_own,
        "state": state,
        "diagram": diagram.svg(definition.title, drawing, "arrow" if is_own else "other-arrow"),
    }


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
