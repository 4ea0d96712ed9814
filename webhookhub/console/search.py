"""The search over all apps: each kind of row is found by its own index."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Prefetch, Q, prefetch_related_objects

from deadletters import filters
from deadletters.models import DeadLetter
from events import lookup
from events.models import Event
from sagas.models import Saga
from subscriptions.models import Customer, Subscription
from webhookhub.search_terms import parse_error_code, parse_host, parse_id
from workflows import lookup as workflow_lookup
from workflows.models import Instance

MAX_RESULTS = 20
MAX_LENGTH = 500
HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+|\[[0-9a-f:.]+\]|localhost")


@dataclass
class Results:
    """The newest rows of each kind, at most MAX_RESULTS."""

    deliveries: list[Saga] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    customers: list[Customer] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    workflows: list[Instance] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not any(vars(self).values())


def find(term: str, user: Any) -> Results:
    """Finds rows that match the whole term and that the user may see."""
    term = term.strip()
    results = Results()
    if not term or len(term) > MAX_LENGTH or "\0" in term:
        return results
    may = user.has_perm
    code = parse_error_code(term)
    if code and may("deadletters.view_deadletter"):
        results.letters = _letters(code)
    host = host_of(term)
    if host and may("subscriptions.view_subscription"):
        results.subscriptions = _subscriptions(host)
    if may("subscriptions.view_customer"):
        results.customers = list(Customer.objects.filter(customer_key=term))
    event_ids = sorted(lookup.find(term), reverse=True)[:MAX_RESULTS]
    if may("events.view_event"):
        results.events = list(Event.objects.filter(id__in=event_ids).defer("payload").order_by("-id"))
    if may("sagas.view_saga"):
        results.deliveries = _deliveries(event_ids, parse_id(term))
    if may("workflows.view_instance"):
        results.workflows = workflow_lookup.find(term, MAX_RESULTS)
    return results


def host_of(term: str) -> str | None:
    """The whole host that a term names, as it is stored."""
    host = parse_host(term)
    return host if HOST.fullmatch(host) else None


def _deliveries(event_ids: list[int], id: int | None) -> list[Saga]:
    of_events = Saga.objects.filter(event_id__in=event_ids).order_by("-id").values_list("id", flat=True)
    ids = [*of_events[:MAX_RESULTS], *([] if id is None else [id])]
    # Prefetched instead of joined: in a join the database may start from the other table.
    sagas = Saga.objects.filter(id__in=ids).order_by("-id")
    return list(sagas.prefetch_related(Prefetch("event", Event.objects.defer("payload")), "subscription"))


def _subscriptions(host: str) -> list[Subscription]:
    # No index: there are few subscriptions.
    start = f"https://{host}"
    at_host = Q(callback_url=start) | Q(callback_url__startswith=f"{start}/") | Q(callback_url__startswith=f"{start}:")
    return list(Subscription.objects.filter(at_host).order_by("-id")[:MAX_RESULTS])


def _letters(code: str) -> list[DeadLetter]:
    letters = filters.DeadLetterFilter(error_code=code).newest_first(None, MAX_RESULTS)
    prefetch_related_objects(letters, "subscription")
    return letters
