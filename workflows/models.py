"""Workflow runs, their facts, and the queues of the tracker."""

from __future__ import annotations

import json
from datetime import datetime

from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField, WordField
from webhookhub.ids import new_uid

from . import state
from .state import IN_PROGRESS

EVENT_TYPE_LENGTH = 100


class InstanceQuerySet(models.QuerySet["Instance"]):
    def due(self, status: str, now: datetime) -> InstanceQuerySet:
        """Runs of an open status whose deadline has passed, the longest overdue first."""
        return self.filter(status=status, deadline__lte=now).order_by("deadline", "id")


class Instance(models.Model):
    """A run of a workflow. The row stores what its facts fold to."""

    id = models.BigAutoField(primary_key=True)
    saga_id = models.UUIDField(unique=True, default=new_uid, editable=False)
    saga_type = ExactTextField(max_length=30)
    definition_version = models.PositiveSmallIntegerField()
    correlation_key = ExactTextField(max_length=200)
    aggregate_id = ExactTextField(max_length=200, null=True, blank=True)
    current_step = ExactTextField(max_length=28, blank=True, default="")
    status = WordField(words=state.STATUSES, default=IN_PROGRESS)
    started_at = models.DateTimeField(db_default=UtcNow())
    completed_at = models.DateTimeField(null=True, blank=True)
    error_message = ExactTextField(max_length=500, blank=True, default="")
    compensation_started_at = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(null=True, blank=True)
    # The state of each step as JSON: {"payment": "done", …}.
    steps = models.TextField(default="{}")
    anomaly = ExactTextField(max_length=500, blank=True, default="")
    needs_operator = models.BooleanField(default=False)
    by_hand = models.BooleanField(default=False)
    # Incremented by each write: a write based on older facts is refused.
    version = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(db_default=UtcNow())

    objects = InstanceQuerySet.as_manager()

    class Meta:
        db_table = "saga_instances"
        verbose_name = _("workflow")
        verbose_name_plural = _("workflows")
        constraints = [
            models.UniqueConstraint(fields=["saga_type", "correlation_key"], name="uniq_instance_correlation"),
        ]
        indexes = [
            models.Index(fields=["status", "deadline"], name="idx_instance_due"),
            models.Index(fields=["aggregate_id"], name="idx_instance_aggregate"),
            # Lists, newest first: with the id at the end, a page is read without a sort.
            models.Index(fields=["status", "id"], name="idx_instance_status"),
            models.Index(fields=["saga_type", "status", "id"], name="idx_instance_type"),
            models.Index(fields=["saga_type", "current_step", "status", "id"], name="idx_instance_step"),
            models.Index(fields=["needs_operator", "id"], name="idx_instance_operator"),
            models.Index(fields=["started_at"], name="idx_instance_started"),
        ]
        permissions = [
            ("retry_step", "Can retry the delivery of a step of a workflow"),
            ("mark_compensated", "Can mark a workflow's step as compensated"),
            ("close_workflow", "Can close a workflow"),
        ]

    def __str__(self) -> str:
        return f"{self.saga_type} {self.saga_id}"

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of every log line about the run."""
        return {
            "correlation_id": self.correlation_key,
            "saga_id": str(self.saga_id),
            "saga_type": self.saga_type,
            "delivery_status": self.status,
        }

    @property
    def step_states(self) -> dict[str, str]:
        """Step → state; empty if the column holds anything else, which only SQL can have written."""
        try:
            states = json.loads(self.steps)
        except (ValueError, RecursionError):
            return {}
        return states if isinstance(states, dict) else {}

    @property
    def steps_to_undo(self) -> list[str]:
        undoing = (state.UNDOING, state.UNDO_FAILED)
        return [step for step, step_state in self.step_states.items() if step_state in undoing]

    # Whether an operator may act on the run.

    @property
    def can_be_retried(self) -> bool:
        return bool(self.status != state.COMPLETED)

    @property
    def can_be_marked(self) -> bool:
        return self.status not in (IN_PROGRESS, state.COMPLETED) and bool(self.steps_to_undo)

    @property
    def can_be_closed(self) -> bool:
        return self.status in state.OPEN or self.needs_operator


class Fact(models.Model):
    """Something observed, decided or published about a run. Append-only.

    Also the record of processed events: the same event again is the same fact.
    """

    id = models.BigAutoField(primary_key=True)
    instance = models.ForeignKey(Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="facts")
    event = models.ForeignKey(
        "events.Event", models.DO_NOTHING, db_constraint=False, db_index=False, null=True, related_name="+"
    )
    step = ExactTextField(max_length=28, blank=True, default="")
    role = WordField(words=state.ROLES)
    origin = WordField(words=state.ORIGINS)
    # For facts from services and operators: the same key again is the same fact.
    idempotency_key = ExactTextField(max_length=200, null=True, blank=True)
    # For decisions: of two concurrent decisions, one is refused.
    decision_no = models.PositiveSmallIntegerField(null=True, blank=True)
    actor = ExactTextField(max_length=150, blank=True, default="")
    reason = ExactTextField(max_length=500, blank=True, default="")
    detail = models.TextField(blank=True, default="")
    aggregate_id = ExactTextField(max_length=200, null=True, blank=True)
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField(db_default=UtcNow())

    class Meta:
        db_table = "saga_facts"
        verbose_name = "workflow fact"
        constraints = [
            models.UniqueConstraint(fields=["instance", "event", "step", "role"], name="uniq_fact_event"),
            models.UniqueConstraint(fields=["instance", "idempotency_key"], name="uniq_fact_key"),
            models.UniqueConstraint(fields=["instance", "decision_no"], name="uniq_fact_decision"),
        ]
        indexes = [models.Index(fields=["event"], name="idx_fact_event")]

    def __str__(self) -> str:
        return f"{self.step or 'run'} {self.role}"


class WorkflowInbox(models.Model):
    """Events of tracked types that no tracker has processed. Filled by a trigger on `events`."""

    event_id = models.BigIntegerField(primary_key=True)
    # Until then a tracker works on it; after that, another tracker takes over.
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "workflow_inbox"

    def __str__(self) -> str:
        return f"event {self.event_id}"


class WorkflowTouched(models.Model):
    """Facts from services and operators whose run has to be folded. Filled by a trigger."""

    fact_id = models.BigIntegerField(primary_key=True)
    instance_id = models.BigIntegerField()

    class Meta:
        db_table = "workflow_touched"

    def __str__(self) -> str:
        return f"fact {self.fact_id}"


class TrackedType(models.Model):
    """An event type that a definition listens to. The trigger on `events` reads this table."""

    event_type = ExactTextField(max_length=EVENT_TYPE_LENGTH, primary_key=True)
    tracked_since = models.DateTimeField(db_default=UtcNow())
    # Earlier events, and those whose transaction was open at that time, have been fetched.
    caught_up = models.BooleanField(default=False)

    class Meta:
        db_table = "workflow_event_types"

    def __str__(self) -> str:
        return str(self.event_type)


class UsedDefinition(models.Model):
    """A version that runs were created with: it can no longer change."""

    id = models.BigAutoField(primary_key=True)
    name = ExactTextField(max_length=30)
    version = models.PositiveSmallIntegerField()
    fingerprint = ExactTextField(max_length=64)
    document = models.TextField()
    first_used_at = models.DateTimeField(db_default=UtcNow())

    class Meta:
        db_table = "workflow_definitions"
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="uniq_definition_version")]

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"
