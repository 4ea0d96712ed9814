"""Delivering events of a saga again: what died on its way to a step, or what a service has taken in and lost.

The operator's fact is written first, and says why. The new deliveries are made under the delivery's own keys, so that
a request that was cut short is completed by whoever asks again, and two who ask at once make one delivery.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from django.utils.translation import gettext as _

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from sagas.models import Saga
from sagas.redeliver import redeliver
from sagas.transitions import COMPLETED, DEAD_LETTERED

from . import queries, services
from .blockers import causes, reacted_to
from .models import Fact, Instance
from .services import InvalidFact, KeyConflict, Recorded
from .timeline import Delivery, deliveries_of
from .words import RETRIED

PERMISSION = "workflows.retry_step"


class Operator(Protocol):
    def get_username(self) -> str: ...


@dataclass(frozen=True)
class Retried:
    recorded: Recorded
    deliveries: list[int]


class NothingToRetry(Exception):
    """No delivery is there that could be made again; the message says why."""


def retry(
    instance: Instance, step: str, *, by: Operator, reason: str, idempotency_key: str, delivery: int | None = None
) -> Retried:
    """Deliver again what the step reacts to: one delivery if it is named, else all that died.

    The caller has seen to the permission. Raises InvalidFact, KeyConflict or NothingToRetry before anything is written.
    """
    before = Fact.objects.filter(instance_id=instance.pk, idempotency_key=idempotency_key, role=RETRIED).first()
    # Asked again: exactly what was asked for the first time, whatever has become of it since.
    asked = (
        json.loads(before.detail) if before else {"deliveries": _chosen(instance, step, delivery), "named": delivery}
    )
    if asked.get("named") != delivery:
        raise KeyConflict(idempotency_key)
    ids = asked["deliveries"]
    recorded = services.act(
        instance,
        RETRIED,
        step,
        idempotency_key=idempotency_key,
        actor=by.get_username(),
        reason=reason,
        detail=json.dumps(asked),
    )
    return Retried(recorded, [_again(saga, by, reason) for saga in Saga.objects.filter(pk__in=ids).order_by("pk")])


def retriable(instance: Instance, step: str, state: str) -> list[Delivery]:
    """The latest deliveries of what the step reacts to."""
    said = reacted_to([instance.pk]).get(instance.pk, {})
    events = causes(queries.definition_of(instance), step, state, said)
    return [each for found in deliveries_of(events).values() for each in found]


def _chosen(instance: Instance, step: str, delivery: int | None) -> list[int]:
    keys = queries.definition_of(instance).by_key
    if step not in keys:
        raise InvalidFact("step", f"{step!r} is no step of {instance.saga_type}; there are {', '.join(keys)}")
    if delivery is None:
        state = json.loads(instance.steps).get(step, "")
        found = [each.id for each in retriable(instance, step, state) if each.is_dead]
        if not found:
            why = _(
                "no delivery of what %(step)s reacts to has died; to repeat one that arrived, name it by its number"
            )
            raise NothingToRetry(why % {"step": step})
        return found
    events = set(Fact.objects.filter(instance_id=instance.pk, event_id__isnull=False).values_list("event", flat=True))
    latest = {each.id: each for found in deliveries_of(events).values() for each in found}
    if delivery not in latest:
        raise InvalidFact(
            "delivery", _("%(number)s is not the latest of any event of this workflow") % {"number": delivery}
        )
    if not latest[delivery].is_settled:
        given = {"number": delivery, "status": latest[delivery].status}
        raise NothingToRetry(_("delivery %(number)s is %(status)s: it is still under way") % given)
    return [delivery]


def _again(saga: Saga, by: Operator, reason: str) -> int:
    if saga.status == COMPLETED:
        return redeliver(saga)
    assert saga.status == DEAD_LETTERED
    letter = DeadLetter.objects.only("id").get(saga_id=saga.pk)
    [result] = requeue([letter.pk], by=_Permitted(by), reason=reason)
    return result.saga_id


class _Permitted:
    """Who may retry a step may requeue what died on its way there."""

    def __init__(self, by: Operator) -> None:
        self._by = by

    def get_username(self) -> str:
        return self._by.get_username()

    def has_perm(self, perm: str) -> bool:
        return True
