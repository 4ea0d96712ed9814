"""A version of a workflow: its steps, the event types that report on them, and time limits. Immutable."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from .state import DONE, FAILURE, STARTED, UNDO_FAILED, UNDONE

CORRELATION_ID = "correlation_id"


@dataclass(frozen=True)
class Step:
    """`done`, `failed` and so on are event types. A step without `compensated` cannot be undone."""

    key: str
    done: tuple[str, ...]
    failed: tuple[str, ...] = ()
    compensated: tuple[str, ...] = ()
    compensation_failed: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    timeout: timedelta | None = None
    # The run completes without it, and does not fail with it.
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
    # The parsed TOML, for the fingerprint and for storage.
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    # Empty for a definition read from the database.
    file: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.version

    @property
    def label(self) -> str:
        return label(self.name, self.version)

    @property
    def label_with_file(self) -> str:
        return label(self.name, self.version, self.file)

    @cached_property
    def by_key(self) -> dict[str, Step]:
        return {step.key: step for step in self.steps}

    @cached_property
    def required(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.optional)

    @cached_property
    def roles(self) -> dict[str, list[tuple[str, str]]]:
        """Event type → the (step, role) pairs that an event of this type reports."""
        roles: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for step in self.steps:
            for role, types in step.types().items():
                for event_type in types:
                    roles[event_type].append((step.key, role))
        for event_type in self.starts:
            # If a step reports the start event, that fact also marks the start.
            if event_type not in roles:
                roles[event_type].append(("", STARTED))
        return dict(roles)

    @cached_property
    def start_facts(self) -> frozenset[tuple[str, str]]:
        """The (step, role) pairs any of which shows that the start of the run was seen."""
        pairs = {pair for event_type in self.starts for pair in self.roles[event_type]}
        return frozenset(pairs | {("", STARTED)})

    @cached_property
    def ancestors(self) -> dict[str, frozenset[str]]:
        """Step → all steps that must be done before it."""
        ancestors: dict[str, frozenset[str]] = {}
        for step in self.in_order:
            ancestors[step.key] = frozenset(step.after).union(*(ancestors[key] for key in step.after))
        return ancestors

    @cached_property
    def in_order(self) -> tuple[Step, ...]:
        """Steps in topological order; ties keep the order of the file."""
        return sort_steps(self.steps)[0]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all rules. Titles and descriptions are left out: they may change at any time."""
        rules = _without_texts(dict(self.document))
        return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()


def sort_steps(steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps in topological order, and the steps that cannot be ordered because they wait for each other."""
    ordered: list[Step] = []
    left, keys = list(steps), set[str]()
    while step := next((step for step in left if keys.issuperset(step.after)), None):
        left.remove(step)
        ordered.append(step)
        keys.add(step.key)
    return tuple(ordered), tuple(left)


def label(name: str, version: int, file: str = "") -> str:
    """The name in messages; with the file if that has to be fixed."""
    return f"{name} version {version} ({file})" if file else f"{name} version {version}"


def _without_texts(document: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in document.items() if name not in ("title", "description")}
    kept["steps"] = [
        {name: value for name, value in step.items() if name != "title"} for step in document.get("steps", [])
    ]
    return kept
