"""Business sagas, the facts that they are a fold of, and what is still to be looked at."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField, WordField
from webhookhub.ids import new_uid

from . import words
from .words import IN_PROGRESS

EVENT_TYPE_LENGTH = 100


class InstanceQuerySet(models.QuerySet["Instance"]):
    def due(self, status: str, now: datetime) -> InstanceQuerySet:
        """Those of one open status whose deadline has passed, the longest overdue first."""
        return self.filter(status=status, deadline__lte=now).order_by("deadline", "id")


class Instance(models.Model):
    """One run of a workflow. The row is what its facts fold to, kept so that it can be asked for; nothing else."""

    id = models.BigAutoField(primary_key=True)
    saga_id = models.UUIDField(unique=True, default=new_uid, editable=False)
    saga_type = ExactTextField(max_length=30)
    definition_version = models.PositiveSmallIntegerField()
    correlation_key = ExactTextField(max_length=200)
    aggregate_id = ExactTextField(max_length=200, null=True, blank=True)
    current_step = ExactTextField(max_length=28, blank=True, default="")
    status = WordField(words=words.STATUSES, default=IN_PROGRESS)
    started_at = models.DateTimeField(db_default=UtcNow())
    completed_at = models.DateTimeField(null=True, blank=True)
    error_message = ExactTextField(max_length=500, blank=True, default="")
    compensation_started_at = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(null=True, blank=True)
    # What each step has come to, as JSON: {"payment": "done", …}.
    steps = models.TextField(default="{}")
    anomaly = ExactTextField(max_length=500, blank=True, default="")
    needs_operator = models.BooleanField(default=False)
    by_hand = models.BooleanField(default=False)
    # Raised by each write: whoever folded older facts is refused.
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
            # Lists, the latest first: each filter with the key behind it, so that a page is read and not sorted.
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
    def can_be_closed(self) -> bool:
        """Whether the hub still asks something of anybody, or it waits for a person."""
        return self.status in words.OPEN or self.needs_operator


class Fact(models.Model):
    """Something that was observed, decided or published about a saga. Append-only.

    Also the record of which events were processed: the same event again is the same fact.
    """

    id = models.BigAutoField(primary_key=True)
    instance = models.ForeignKey(Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="facts")
    event = models.ForeignKey(
        "events.Event", models.DO_NOTHING, db_constraint=False, db_index=False, null=True, related_name="+"
    )
    step = ExactTextField(max_length=28, blank=True, default="")
    role = WordField(words=words.ROLES)
    origin = WordField(words=words.ORIGINS)
    # Of facts that are told and not read from an event: the same key again is the same fact.
    idempotency_key = ExactTextField(max_length=200, null=True, blank=True)
    # Of decisions: of two who take the next decision at once, one is refused.
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
        return f"{self.step or 'saga'} {self.role}"


class WorkflowInbox(models.Model):
    """Events that some workflow listens to and no tracker has seen yet. Filled by a trigger on `events`."""

    event_id = models.BigIntegerField(primary_key=True)
    # Until then a tracker is at work on it; afterwards it has died, and another takes over.
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "workflow_inbox"

    def __str__(self) -> str:
        return f"event {self.event_id}"


class WorkflowTouched(models.Model):
    """Facts that were told and not read from an event, whose saga is to be folded anew. Filled by a trigger."""

    fact_id = models.BigIntegerField(primary_key=True)
    instance_id = models.BigIntegerField()

    class Meta:
        db_table = "workflow_touched"

    def __str__(self) -> str:
        return f"fact {self.fact_id}"


class TrackedType(models.Model):
    """An event type that some definition listens to. The trigger on `events` asks here."""

    event_type = ExactTextField(max_length=EVENT_TYPE_LENGTH, primary_key=True)
    tracked_since = models.DateTimeField(db_default=UtcNow())
    # Events from before, and those whose transaction was open at that moment, have been fetched.
    caught_up = models.BooleanField(default=False)

    class Meta:
        db_table = "workflow_event_types"

    def __str__(self) -> str:
        return str(self.event_type)


class UsedDefinition(models.Model):
    """A version of a definition that sagas were born with: it can no longer change."""

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
