"""Everything stored about one event type, in a form that can be compared between runs.

Ids become names, times become "set" (or "due" and "ahead"), random values become True.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models

from deadletters.models import DeadLetter, Requeue
from events.models import Event, RoutingInbox
from jobs.models import Job
from sagas.models import DeliveryRequest, Saga
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription
from webhookhub.db import clock

State = dict[str, list[dict[str, Any]]]

# The lookup from each table to the event type.
TABLES: dict[type[models.Model], str] = {
    Event: "event_type",
    RoutingInbox: "event_type",
    Subscription: "event_type",
    Saga: "event__event_type",
    Job: "saga__event__event_type",
    DeadLetter: "event__event_type",
    Requeue: "dead_letter__event__event_type",
    DeliveryRequest: "saga__event__event_type",
}
# Columns that hold the id of a row without being relations.
REFERENCES: dict[str, type[models.Model]] = {
    "event_id": Event,
    "active_saga_id": Saga,
    "parked_subscription_id": Subscription,
}
WAITED_FOR = {"next_attempt_at", "lease_until"}
RANDOM = {"uid", "correlation_id", "lease_token", "request_token"}
RANDOM |= {"max_saga_id", "scanned_to", "left_from"}


def state(event_type: str, *, ignoring: frozenset[str] = frozenset()) -> State:
    now = clock.now()
    names = _names(event_type)

    def shown(row: models.Model, field: Any) -> Any:
        value = getattr(row, field.attname)
        if field.is_relation or field.attname in REFERENCES:
            target = REFERENCES.get(field.attname) or field.related_model
            return None if value is None else names[target][value]
        if isinstance(value, datetime):
            return ("due" if value <= now else "ahead") if field.attname in WAITED_FOR else "set"
        if field.attname in RANDOM or "secret" in field.attname:
            return bool(value)
        return value.replace(event_type, "") if isinstance(value, str) else value

    def dump(model: type[models.Model]) -> list[dict[str, Any]]:
        fields = [
            field
            for field in model._meta.concrete_fields
            if (not field.primary_key or model is RoutingInbox) and field.attname not in ignoring
        ]
        rows = [{field.attname: shown(row, field) for field in fields} for row in _rows(model, event_type)]
        return sorted(rows, key=str)

    return {model.__name__: dump(model) for model in TABLES}


def _rows(model: type[models.Model], event_type: str) -> Any:
    return model._default_manager.filter(**{TABLES[model]: event_type})


def _names(event_type: str) -> dict[Any, dict[int, str]]:
    events = {event.id: event.external_id.removeprefix(event_type) for event in _rows(Event, event_type)}
    subscriptions = {row.id: row.callback_url.rpartition("/")[2] for row in _rows(Subscription, event_type)}
    endpoints = {row.endpoint_id: subscriptions[row.id] for row in _rows(Subscription, event_type)}
    sagas = {
        saga.id: f"{events[saga.event_id]}→{subscriptions[saga.subscription_id]}#{saga.generation}"
        for saga in _rows(Saga, event_type)
    }
    letters = {letter.id: sagas[letter.saga_id] for letter in _rows(DeadLetter, event_type)}
    requests = dict(DeliveryRequest.objects.values_list("id", "kind"))
    return {
        Event: events,
        Subscription: subscriptions,
        Endpoint: endpoints,
        Saga: sagas,
        DeadLetter: letters,
        DeliveryRequest: requests,
    }
