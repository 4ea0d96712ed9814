"""What the console's pages about workflows show: one run of a workflow, and a workflow as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from events.models import Event
from sagas.models import Saga
from webhookhub.console import format

from . import diagram, labels, versions, words
from .action_views import ACTIONS
from .badges import badge
from .blockers import obstacles
from .definition import Definition
from .models import Fact, Instance
from .statistics import SAMPLE, statistics
from .timeline import MOST_FACTS, Delivery, Entry, timeline

MAY_SEE_EVENTS, MAY_SEE_DELIVERIES = "events.view_event", "sagas.view_saga"


def duration(time: timedelta | None) -> str:
    if time is None:
        return format.NOTHING
    seconds = time.total_seconds()
    if seconds < 120:
        return _("%(number)s s") % {"number": f"{seconds:.3g}"}
    if seconds < 7200:
        return _("%(number)s min") % {"number": f"{seconds / 60:.0f}"}
    return _("%(number)s h") % {"number": f"{seconds / 3600:.0f}"}


def definition_address(name: str) -> str:
    return reverse("admin:workflows_instance_definition", args=[name])


def row(instance: Instance, now: datetime) -> dict[str, Any]:
    """One line of the list."""
    return {
        "address": format.page(Instance, instance.pk),
        "saga_id": instance.saga_id,
        "saga_type": instance.saga_type,
        "status": badge(instance.status),
        "step": instance.current_step or format.NOTHING,
        "aggregate": instance.aggregate_id or instance.correlation_key,
        "started_at": format.moment(instance.started_at),
        "took": duration((instance.completed_at or now) - instance.started_at),
        "error": instance.error_message,
        "anomaly": instance.anomaly,
        "needs_operator": instance.needs_operator,
    }


def instance_page(request: HttpRequest, instance: Instance) -> dict[str, Any]:
    entries = timeline(instance)
    return {
        "title": f"{instance.saga_type} {instance.aggregate_id or instance.correlation_key}",
        "facts": list(_facts(instance)),
        "diagram": mark_safe(diagram.of(instance)),  # noqa: S308 - everything in it is escaped where it is drawn
        "obstacles": obstacles([instance])[instance.pk] if instance.status in words.OPEN else [],
        "entries": [_entry(request, instance, entry) for entry in entries],
        "cut": len(entries) == MOST_FACTS,
        "actions": [
            {"title": action.title, "address": reverse("admin:workflows_instance_act", args=[instance.pk, name])}
            for name, action in ACTIONS.items()
            if request.user.has_perm(action.permission) and action.makes_sense(instance)
        ],
    }


def _facts(instance: Instance) -> Iterable[tuple[str, Any]]:
    named = {"name": instance.saga_type, "version": instance.definition_version}
    definition = _("%(name)s version %(version)s") % named
    yield _("Status"), badge(instance.status)
    yield _("Workflow"), format.link(definition_address(instance.saga_type), definition)
    yield _("Saga id"), instance.saga_id
    yield _("Correlation id"), instance.correlation_key
    yield _("Aggregate id"), instance.aggregate_id or format.NOTHING
    yield _("Step"), instance.current_step or format.NOTHING
    yield _("Started"), format.moment(instance.started_at)
    if instance.compensation_started_at:
        yield _("Compensation started"), format.moment(instance.compensation_started_at)
    yield _("Ended"), format.moment(instance.completed_at)
    if instance.deadline and instance.status in words.OPEN:
        yield _("Times out"), format.moment(instance.deadline)
    if instance.error_message:
        yield _("Error"), instance.error_message
    if instance.anomaly:
        yield _("Anomaly"), instance.anomaly
    if instance.needs_operator:
        yield _("Operator"), _("Something is left that only a person can put right.")
    elif instance.by_hand:
        yield _("Operator"), _("A person has had a hand in it.")


def _entry(request: HttpRequest, instance: Instance, entry: Entry) -> dict[str, Any]:
    fact = entry.fact
    may_retry = request.user.has_perm(ACTIONS["retry"].permission)
    return {
        "at": format.moment(fact.occurred_at),
        "step": fact.step or format.NOTHING,
        "says": labels.fact(fact),
        "by": fact.actor or labels.origin(fact.origin),
        "reason": format.visible(fact.reason),
        "event": _event(request, entry.event),
        "deliveries": [
            {
                "text": _delivery(request, each),
                "again": _again(instance, fact, each) if may_retry and each.is_settled else "",
            }
            for each in entry.deliveries
        ],
    }


def _event(request: HttpRequest, event: Event | None) -> Any:
    if event is None:
        return format.NOTHING
    if not request.user.has_perm(MAY_SEE_EVENTS):
        return event.event_type
    return format.link(format.page(Event, event.pk), event.event_type)


def _delivery(request: HttpRequest, delivery: Delivery) -> SafeString | str:
    if not request.user.has_perm(MAY_SEE_DELIVERIES):
        return str(delivery)
    return format.link(format.page(Saga, delivery.id), delivery)


def _again(instance: Instance, fact: Fact, delivery: Delivery) -> str:
    address = reverse("admin:workflows_instance_act", args=[instance.pk, "retry"])
    return f"{address}?delivery={delivery.id}"


def definition_page(name: str) -> dict[str, Any] | None:
    """A workflow in the version that is offered, or was last, and how it fares; None if there is no such workflow."""
    known = versions.in_force()
    definition = known.shown.get(name)
    if definition is None:
        return None
    figures = statistics(definition)
    notes = {step.key: _("optional") if step.optional else " " for step in definition.steps}
    done_by = _("done by %(share)s %%")
    notes |= {step.key: done_by % {"share": f"{step.share:.3g}"} for step in figures.steps if figures.sample}
    return {
        "title": definition.title,
        "definition": definition,
        "versions": [each.version for each in known.all() if each.name == name],
        "is_offered": known.offers(definition),
        "diagram": mark_safe(diagram.svg(definition.title, diagram.boxes(definition, {}, notes))),  # noqa: S308
        "figures": figures,
        "statuses": [(badge(status), count) for status, count in figures.statuses.items()],
        "since": format.moment(figures.since),
        "most": SAMPLE,
        "listing": f"{reverse('admin:workflows_instance_changelist')}?saga_type={name}",
        "steps": [
            {"step": step, "figures": found, "types": _types(definition, step.key)}
            for step, found in zip(definition.in_order, figures.steps, strict=True)
        ],
    }


def _types(definition: Definition, key: str) -> SafeString:
    """What events say of a step."""
    found = definition.by_key[key].types().items()
    return format_html_join(
        mark_safe("<br>"),
        "{}: {}",
        ((labels.role(role), ", ".join(types)) for role, types in found if types),
    )


def definitions_page() -> dict[str, Any]:
    known = versions.in_force()
    return {
        "title": _("Workflow definitions"),
        "definitions": [
            {"definition": each, "address": definition_address(name), "is_offered": known.offers(each)}
            for name, each in sorted(known.shown.items())
        ],
    }
