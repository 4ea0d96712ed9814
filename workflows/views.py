"""The console's pages about runs and workflows: list, run, operators' actions, definitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from events.models import Event
from sagas.models import Saga
from webhookhub.console import errors, format
from webhookhub.db import clock, keyset
from webhookhub.logs import Log, log
from webhookhub.search_terms import parse_id

from . import diagram, filters, labels, queries, redelivery, services, versions
from .blockers import blockers
from .definition import Definition
from .filters import RunFilter
from .forms import AGES, ActionForm, ListForm
from .labels import badge
from .models import Fact, Instance
from .parsing import InvalidDefinition
from .redelivery import retriable
from .registry import Registry
from .services import Conflict, InvalidFact, KeyConflict
from .state import CLOSED, COMPLETED, IN_PROGRESS, OPEN, STEP_UNDO_FAILED, UNDOING, UNDONE
from .statistics import SAMPLE, statistics
from .timeline import MAX_FACTS, Delivery, Entry, timeline

MAY_VIEW, MAY_SEE_EVENTS, MAY_SEE_DELIVERIES = "workflows.view_instance", "events.view_event", "sagas.view_saga"
PAGE = 50
# Rows that one page reads where no index covers all conditions.
WINDOW = 5000


def explain_invalid_definitions(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Respond with 503 and the file to fix. Views read the definitions before they write anything."""

    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except InvalidDefinition as error:
            log(Log.WORKFLOW_DEFINITION_INVALID, where=str(error))
            why = _("Workflows are not available at the moment: %(error)s.") % {"error": error}
            return errors.unavailable(request, why)

    return wrapper


# The list of runs


def list_page(request: HttpRequest) -> dict[str, Any]:
    known = versions.in_force()
    steps = _steps_of(known, request.GET.get("saga_type", ""))
    types = [(name, definition.title) for name, definition in sorted(known.shown.items())]
    form = ListForm(_without_foreign_step(steps, request.GET), types, steps)
    if not form.is_valid():
        raise BadRequest("; ".join(f"{field}: {', '.join(map(str, errors))}" for field, errors in form.errors.items()))
    unknown = set(request.GET) - {*form.fields, "before"}
    if unknown:
        raise BadRequest(_("There is no filter %(name)s.") % {"name": repr(min(unknown)[:50])})
    values = form.cleaned_data
    now = clock.now()
    filter = _filter(values, now)
    context = {"title": _("Workflow runs"), "form": form, "older": "", "first": ""}
    if values["q"]:
        # An aggregate may have many runs. The conditions are checked on each, so that no other index is read.
        limit = PAGE if filter == RunFilter() else WINDOW
        matches = queries.find(values["q"], list(known.shown), limit)
        rows, cut = filter.keep(matches)[:PAGE], len(matches) == WINDOW
    else:
        lowest, above = filters.bounds(filter)
        before = _before(request.GET.get("before", ""))
        page = keyset.page(
            lambda limit: filters.newest_first(filter, lowest, above if before is None else before, limit),
            PAGE,
            window=WINDOW,
            keep=None if filter.is_indexed else filter.keep,
        )
        rows, cut = page.rows, page.last is not None
        conditions = {name: value for name, value in values.items() if value}
        if page.last:
            context["older"] = urlencode({**conditions, "before": page.last.id})
        if before is not None:
            context["first"] = urlencode(conditions)
    return {**context, "rows": [_row(row, now) for row in rows], "cut": cut}


def _filter(values: dict[str, Any], now: datetime) -> RunFilter:
    _label, at_least, at_most = AGES.get(values["age"], ("", None, None))
    return RunFilter(
        saga_type=values["saga_type"] or None,
        status=values["status"] or None,
        step=values["step"] or None,
        needs_operator=bool(values["operator"]),
        since=None if at_most is None else now - at_most,
        until=None if at_least is None else now - at_least,
    )


def _steps_of(known: Registry, saga_type: str) -> list[tuple[str, str]]:
    definitions = [each for each in reversed(known.all()) if each.name == saga_type]
    return list({step.key: step.title for definition in definitions for step in definition.steps}.items())


def _without_foreign_step(steps: list[tuple[str, str]], query: QueryDict) -> QueryDict:
    """The form still sends the step of the workflow that was chosen before."""
    if query.get("step", "") in dict(steps):
        return query
    query = query.copy()
    query.pop("step", None)
    return query


def _before(text: str) -> int | None:
    value = parse_id(text)
    if text and value is None:
        raise BadRequest(_("before: must be a number."))
    return value


def _row(instance: Instance, now: datetime) -> dict[str, Any]:
    return {
        "address": format.page_url(Instance, instance.pk),
        "run": instance,
        "status": badge(instance.status),
        "step": instance.current_step or format.NOTHING,
        "aggregate": instance.aggregate_id or instance.correlation_key,
        "started_at": format.local_time(instance.started_at),
        "took": _duration((instance.completed_at or now) - instance.started_at),
    }


def _duration(time: timedelta) -> str:
    seconds = time.total_seconds()
    if seconds < 120:
        return _("%(number)s s") % {"number": f"{seconds:.3g}"}
    if seconds < 7200:
        return _("%(number)s min") % {"number": f"{seconds / 60:.0f}"}
    return _("%(number)s h") % {"number": f"{seconds / 3600:.0f}"}


# The page of a run


def run_page(request: HttpRequest, instance: Instance) -> dict[str, Any]:
    entries = timeline(instance)
    return {
        "title": f"{instance.saga_type} {instance.aggregate_id or instance.correlation_key}",
        "properties": list(_properties(instance)),
        "diagram": mark_safe(diagram.of(instance)),  # noqa: S308 - the diagram escapes all text
        "blockers": blockers([instance])[instance.pk] if instance.status in OPEN else [],
        "entries": [_entry(request, instance, entry) for entry in entries],
        "cut": len(entries) == MAX_FACTS,
        "actions": [
            {"title": action.title, "address": reverse("admin:workflows_instance_act", args=[instance.pk, name])}
            for name, action in ACTIONS.items()
            if request.user.has_perm(action.permission) and action.is_available(instance)
        ],
    }


def _properties(instance: Instance) -> Iterable[tuple[str, Any]]:
    values = {"name": instance.saga_type, "version": instance.definition_version}
    address = reverse("admin:workflows_instance_definition", args=[instance.saga_type])
    yield _("Status"), badge(instance.status)
    yield _("Workflow"), format.link(address, _("%(name)s version %(version)s") % values)
    yield _("Run id"), instance.saga_id
    yield _("Correlation id"), instance.correlation_key
    yield _("Aggregate id"), instance.aggregate_id or format.NOTHING
    yield _("Step"), instance.current_step or format.NOTHING
    yield _("Started"), format.local_time(instance.started_at)
    if instance.compensation_started_at:
        yield _("Compensation started"), format.local_time(instance.compensation_started_at)
    yield _("Ended"), format.local_time(instance.completed_at)
    if instance.deadline and instance.status in OPEN:
        yield _("Times out"), format.local_time(instance.deadline)
    if instance.error_message:
        yield _("Error"), instance.error_message
    if instance.anomaly:
        yield _("Anomaly"), instance.anomaly
    if instance.needs_operator:
        yield _("Operator"), _("An operator has to resolve what is left.")
    elif instance.by_hand:
        yield _("Operator"), _("An operator has intervened.")


def _entry(request: HttpRequest, instance: Instance, entry: Entry) -> dict[str, Any]:
    fact, event = entry.fact, entry.event
    may_retry = request.user.has_perm(redelivery.PERMISSION)
    retry = reverse("admin:workflows_instance_act", args=[instance.pk, "retry"])
    return {
        "at": format.local_time(fact.occurred_at),
        "step": fact.step or format.NOTHING,
        "text": labels.fact(fact),
        "by": fact.actor or labels.origin(fact.origin),
        "reason": format.visible(fact.reason),
        "event": _link(request, MAY_SEE_EVENTS, Event, event.pk, event.event_type) if event else format.NOTHING,
        "deliveries": [
            {
                "text": _link(request, MAY_SEE_DELIVERIES, Saga, each.id, each),
                "retry": f"{retry}?delivery={each.id}" if may_retry and each.is_settled else "",
            }
            for each in entry.deliveries
        ],
    }


def _link(request: HttpRequest, permission: str, model: Any, pk: int, text: str | Delivery) -> SafeString | str:
    return format.link(format.page_url(model, pk), text) if request.user.has_perm(permission) else str(text)


# Operators' actions


@dataclass(frozen=True)
class Action:
    """`per_step`: it may be applied to a step; `whole`: to the whole run."""

    title: str
    explanation: str
    permission: str
    per_step: bool
    whole: bool
    is_available: Callable[[Instance], bool]


ACTIONS = {
    "retry": Action(
        gettext_noop("Deliver again"),
        gettext_noop(
            "Delivers again the events that the step reacts to: all dead letters, or the delivery that you chose. Each "
            "is a new delivery with all its attempts. Its receiver recognises a repetition by the event's id."
        ),
        redelivery.PERMISSION,
        per_step=True,
        whole=False,
        is_available=lambda instance: instance.status != COMPLETED,
    ),
    "mark": Action(
        gettext_noop("Mark as compensated"),
        gettext_noop("Confirms that the step has been undone, by hand or otherwise. The hub requests it no more."),
        "workflows.mark_compensated",
        per_step=True,
        whole=True,
        is_available=lambda instance: (
            instance.status not in (IN_PROGRESS, COMPLETED) and bool(_steps_to_undo(instance))
        ),
    ),
    "close": Action(
        gettext_noop("Close"),
        gettext_noop(
            "Ends the run without the hub: if it is open, it ends as FAILED. The hub requests nothing more, and the "
            "run no longer needs an operator."
        ),
        "workflows.close_workflow",
        per_step=False,
        whole=True,
        is_available=lambda instance: instance.can_be_closed,
    ),
}


def action_view(request: HttpRequest, pk: int, name: str) -> HttpResponse:
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
        return _action_page(request, instance, action, form)
    # Repeating an interrupted retry completes it.
    if name != "retry" and _is_repeat(instance, request.POST):
        messages.info(request, _("This was done before, and was not done again."))
        return HttpResponseRedirect(format.page_url(Instance, instance.pk))
    if not form.is_valid():
        if "token" in form.errors or "delivery" in form.errors:
            form.renew(_("The form was incomplete. Check it and send it again."))
        return _action_page(request, instance, action, form)
    try:
        message = _act(request, instance, name, form.cleaned_data)
    except KeyConflict:
        form.renew(_("This form was used before with other values. Send it again to act once more."))
        return _action_page(request, instance, action, form)
    except (InvalidFact, Conflict) as error:
        form.add_error(None, _("Nothing was done: %(error)s.") % {"error": error})
        return _action_page(request, instance, action, form)
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


def _action_page(request: HttpRequest, instance: Instance, action: Action, form: ActionForm) -> HttpResponse:
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": f"{_(action.title)}: {instance}",
        "opts": Instance._meta,
        "instance": instance,
        "address": format.page_url(Instance, instance.pk),
        "action": action,
        "form": form,
        "delivery": form["delivery"].value(),
        "deliveries": _dead_letters(instance) if action is ACTIONS["retry"] else [],
    }
    return TemplateResponse(request, "admin/workflows/instance/act.html", context)


def _dead_letters(instance: Instance) -> list[str]:
    """What would be delivered again for the current step."""
    step = instance.current_step
    if not step:
        return []
    state = json.loads(instance.steps).get(step, "")
    return [str(each) for each in retriable(instance, step, state) if each.is_dead]


def _step_choices(instance: Instance, name: str) -> list[tuple[str, str]]:
    definition = queries.definition_of(instance)
    keys = _steps_to_undo(instance) if name == "mark" else [step.key for step in definition.in_order]
    return [(key, definition.by_key[key].title) for key in keys]


def _steps_to_undo(instance: Instance) -> list[str]:
    states: dict[str, str] = json.loads(instance.steps)
    return [step for step, state in states.items() if state in (UNDOING, STEP_UNDO_FAILED)]


# Definitions


def definitions_page() -> dict[str, Any]:
    known = versions.in_force()
    return {
        "title": _("Workflow definitions"),
        "definitions": [
            {
                "definition": each,
                "address": reverse("admin:workflows_instance_definition", args=[name]),
                "is_offered": known.offers(each),
            }
            for name, each in sorted(known.shown.items())
        ],
    }


def definition_page(name: str) -> dict[str, Any]:
    """A workflow in the version in force, or the last one, with statistics of its runs."""
    known = versions.in_force()
    definition = known.shown.get(name)
    if definition is None:
        raise Http404
    stats = statistics(definition)
    notes = {step.key: _("optional") if step.optional else " " for step in definition.steps}
    done_by = _("done by %(share)s %%")
    notes |= {step.key: done_by % {"share": f"{step.share:.3g}"} for step in stats.steps if stats.sample}
    return {
        "title": definition.title,
        "definition": definition,
        "versions": [each.version for each in known.all() if each.name == name],
        "is_offered": known.offers(definition),
        "diagram": mark_safe(diagram.svg(definition.title, diagram.boxes(definition, {}, notes))),  # noqa: S308
        "stats": stats,
        "statuses": [(badge(status), count) for status, count in stats.statuses.items()],
        "since": format.local_time(stats.since),
        "sample_size": SAMPLE,
        "listing": f"{reverse('admin:workflows_instance_changelist')}?saga_type={name}",
        "steps": [
            {"step": step, "stats": step_stats, "types": _types(definition, step.key)}
            for step, step_stats in zip(definition.in_order, stats.steps, strict=True)
        ],
    }


def _types(definition: Definition, key: str) -> SafeString:
    types = definition.by_key[key].types().items()
    rows = ((labels.role(role), ", ".join(names)) for role, names in types if names)
    return format_html_join(mark_safe("<br>"), "{}: {}", rows)
