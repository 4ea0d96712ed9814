"""Deliver events of a run again: dead letters on the way to a step, or a delivery that its receiver lost.

The operator's fact is written first. New deliveries have the unique keys of deliveries: repeating an interrupted
request completes it, and two concurrent requests make one delivery.
"""

from __future__ import annotations

import json
from dataclasses import replace

from django.utils.translation import gettext as _

from sagas.models import Saga
from sagas.redeliver import next_generation, send_again
from sagas.transitions import DEAD_LETTERED, TERMINAL
from webhookhub.ids import new_token

from . import services
from .blockers import causes, sources_of
from .models import Fact, Instance
from .services import Conflict, InvalidFact, KeyConflict, Recorded
from .state import RETRIED
from .timeline import latest_deliveries
from .versions import definition_of

PERMISSION = "workflows.retry_step"


def retry(
    instance: Instance, step: str, *, actor: str, reason: str, idempotency_key: str, delivery: int | None = None
) -> Recorded:
    """Deliver again what the step reacts to: the given delivery, or all dead ones.

    The caller has checked the permission. Raises InvalidFact or Conflict before writing anything.
    """
    before = Fact.objects.filter(instance_id=instance.pk, idempotency_key=idempotency_key, role=RETRIED).first()
    # A repeated request does exactly what the first one chose.
    request = (
        json.loads(before.detail) if before else {"deliveries": _choose(instance, step, delivery), "named": delivery}
    )
    if request.get("named") != delivery:
        raise KeyConflict(idempotency_key)
    recorded = services.act(
        instance,
        RETRIED,
        step,
        idempotency_key=idempotency_key,
        actor=actor,
        reason=reason,
        detail=json.dumps(request),
    )
    sagas = Saga.objects.filter(pk__in=request["deliveries"]).order_by("pk")
    return replace(recorded, deliveries=[_redeliver(saga, actor, reason) for saga in sagas])


def dead_letters(instance: Instance, step: str) -> list[Saga]:
    """Dead deliveries among the latest of the events that the step reacts to."""
    sources = sources_of([instance.pk]).get(instance.pk, {})
    state = instance.step_states.get(step, "")
    deliveries = latest_deliveries(causes(definition_of(instance), step, state, sources))
    return [saga for of_event in deliveries.values() for saga in of_event if saga.status == DEAD_LETTERED]


def _choose(instance: Instance, step: str, delivery: int | None) -> list[int]:
    services.require_allowed(instance, RETRIED, step, services.ACTIONS)
    if delivery is None:
        dead = [saga.pk for saga in dead_letters(instance, step)]
        if not dead:
            why = _("step %(step)s waits for no dead letter; to repeat a completed delivery, give its number")
            raise Conflict(why % {"step": step})
        return dead
    events = set(Fact.objects.filter(instance_id=instance.pk, event_id__isnull=False).values_list("event", flat=True))
    latest = {saga.pk: saga for of_event in latest_deliveries(events).values() for saga in of_event}
    if delivery not in latest:
        why = _("%(number)s is not the latest delivery of an event of this run") % {"number": delivery}
        raise InvalidFact("delivery", why)
    if latest[delivery].status not in TERMINAL:
        values = {"number": delivery, "status": latest[delivery].status}
        raise Conflict(_("delivery %(number)s is %(status)s: it has not ended yet") % values)
    return [delivery]


def _redeliver(saga: Saga, actor: str, reason: str) -> int:
    send_again(saga, by=actor, reason=reason, token=new_token())
    new = next_generation(saga)
    assert new is not None
    return new
