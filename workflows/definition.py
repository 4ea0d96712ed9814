"""What a workflow is: its steps, what events say of them, and how long everything may take. Immutable."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple

from .words import DONE, FAILURE, STARTED, UNDO_FAILED, UNDONE

CORRELATION_ID = "correlation_id"


@dataclass(frozen=True)
class Step:
    """`done`, `failed` and so on are the event types that say so. A step without `compensated` cannot be undone."""

    key: str
    done: tuple[str, ...]
    failed: tuple[str, ...] = ()
    compensated: tuple[str, ...] = ()
    compensation_failed: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    timeout: timedelta | None = None
    # Neither needed for the saga to complete nor able to make it fail.
    optional: bool = False
    title: str = ""

    @property
    def can_be_undone(self) -> bool:
        return bool(self.compensated)

    def types(self) -> dict[str, tuple[str, ...]]:
        """Role → event types."""
        return {
            DONE: self.done,
            FAILURE: self.failed,
            UNDONE: self.compensated,
            UNDO_FAILED: self.compensation_failed,
        }


class Reading(NamedTuple):
    """Where a definition finds what it takes from an event. Versions that agree on it read each event once."""

    correlation: str
    aggregate: str | None
    error: str


@dataclass(frozen=True)
class Definition:
    """`correlation` and `aggregate` are paths: `correlation_id`, or `payload.order_id`."""

    name: str
    version: int
    starts: tuple[str, ...]
    steps: tuple[Step, ...]
    timeout: timedelta
    compensation_timeout: timedelta
    correlation: str = CORRELATION_ID
    aggregate: str | None = None
    error: str = "payload.reason"
    title: str = ""
    description: str = ""
    # As it was written, for the fingerprint and for whoever keeps it.
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    # Empty of what was read from the database.
    file: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        return label(self.name, self.version)

    @property
    def label_with_file(self) -> str:
        return label(self.name, self.version, self.file)

    @cached_property
    def reading(self) -> Reading:
        return Reading(self.correlation, self.aggregate, self.error)

    @cached_property
    def by_key(self) -> dict[str, Step]:
        return {step.key: step for step in self.steps}

    @cached_property
    def required(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.optional)

    @cached_property
    def roles(self) -> dict[str, list[tuple[str, str]]]:
        """Event type → the (step, role) pairs that an event of this type is a fact of."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for step in self.steps:
            for role, types in step.types().items():
                for event_type in types:
                    found[event_type].append((step.key, role))
        for event_type in self.starts:
            # The first step's own event mostly starts the saga: one fact says it.
            if event_type not in found:
                found[event_type].append(("", STARTED))
        return dict(found)

    @cached_property
    def start_facts(self) -> frozenset[tuple[str, str]]:
        """The (step, role) pairs any of which tells that the saga began while the hub was watching."""
        said = {pair for event_type in self.starts for pair in self.roles[event_type]}
        return frozenset(said | {("", STARTED)})

    @cached_property
    def ancestors(self) -> dict[str, frozenset[str]]:
        """Step → all steps that must have been done before it could begin."""
        found: dict[str, frozenset[str]] = {}
        for step in self.in_order:
            direct = set(step.after)
            found[step.key] = frozenset(direct.union(*(found[key] for key in direct)))
        return found

    @cached_property
    def in_order(self) -> tuple[Step, ...]:
        """Each step behind those it comes after; otherwise as they are written."""
        left, ordered, passed = list(self.steps), [], set[str]()
        while left:
            step = next(step for step in left if passed.issuperset(step.after))
            left.remove(step)
            ordered.append(step)
            passed.add(step.key)
        return tuple(ordered)

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that decides; titles and descriptions may be put right at any time."""
        decisive = _without_words(dict(self.document))
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def label(name: str, version: int, file: str = "") -> str:
    """How people are told of a definition; where its file is at fault, with that."""
    return f"{name} version {version} ({file})" if file else f"{name} version {version}"


def _without_words(document: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in document.items() if name not in ("title", "description")}
    kept["steps"] = [
        {name: value for name, value in step.items() if name != "title"} for step in document.get("steps", [])
    ]
    return kept
