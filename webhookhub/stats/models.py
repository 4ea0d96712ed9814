"""Stored counters, so that no page has to count a growing table."""

from __future__ import annotations

from django.db import models

from webhookhub.db.fields import ExactTextField, WordField

from .histogram import DURATION_MS

MINUTE, HOUR = "minute", "hour"
DURATION_COLUMNS = (*(f"within_{bound}_ms" for bound in DURATION_MS), "slower")
# Why attempts failed.
FAILURES = ("failed_4xx", "failed_5xx", "failed_timeout", "failed_connection", "failed_other")
COUNTED = ("attempts", "completed", "dead_lettered", *FAILURES, "duration_ms", *DURATION_COLUMNS)

WORKFLOW_COUNTED = (
    "started",
    "completed",
    "compensated",
    "failed",
    "compensations",
    "by_hand",
    "duration_us",
    "detections",
    "detected_late",
    "detection_us",
)


class Counter(models.Model):
    """A counter since the installation: the sum of its shards."""

    # No id column: a second unique key would cause deadlocks between concurrent writers.
    pk = models.CompositePrimaryKey("name", "label", "shard")
    name = ExactTextField(max_length=40)
    label = ExactTextField(max_length=60)
    shard = models.SmallIntegerField()
    value = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "stats_counters"

    def __str__(self) -> str:
        return f"{self.name} {self.label}".strip()


class Period(models.Model):
    """The attempts of one subscription that finished within a minute, or within an hour after the rollup."""

    pk = models.CompositePrimaryKey("period", "starts_at", "subscription_id", "shard")
    period = WordField(words=(MINUTE, HOUR))
    starts_at = models.DateTimeField()
    # Not a foreign key: it is never joined.
    subscription_id = models.BigIntegerField()
    shard = models.SmallIntegerField()
    attempts = models.BigIntegerField(default=0, db_default=0)
    completed = models.BigIntegerField(default=0, db_default=0)
    dead_lettered = models.BigIntegerField(default=0, db_default=0)
    failed_4xx = models.BigIntegerField(default=0, db_default=0)
    failed_5xx = models.BigIntegerField(default=0, db_default=0)
    failed_timeout = models.BigIntegerField(default=0, db_default=0)
    failed_connection = models.BigIntegerField(default=0, db_default=0)
    failed_other = models.BigIntegerField(default=0, db_default=0)
    duration_ms = models.BigIntegerField(default=0, db_default=0, help_text="Sum over all requests.")
    # Histogram of durations.
    within_10_ms = models.BigIntegerField(default=0, db_default=0)
    within_25_ms = models.BigIntegerField(default=0, db_default=0)
    within_50_ms = models.BigIntegerField(default=0, db_default=0)
    within_100_ms = models.BigIntegerField(default=0, db_default=0)
    within_250_ms = models.BigIntegerField(default=0, db_default=0)
    within_500_ms = models.BigIntegerField(default=0, db_default=0)
    within_1000_ms = models.BigIntegerField(default=0, db_default=0)
    within_2500_ms = models.BigIntegerField(default=0, db_default=0)
    within_5000_ms = models.BigIntegerField(default=0, db_default=0)
    within_10000_ms = models.BigIntegerField(default=0, db_default=0)
    within_30000_ms = models.BigIntegerField(default=0, db_default=0)
    slower = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "stats_periods"
        indexes = [
            models.Index(fields=["subscription_id", "period", "starts_at"], name="idx_period_subscription"),
        ]

    def __str__(self) -> str:
        return f"{self.period} {self.starts_at}, subscription {self.subscription_id}"


class WorkflowPeriod(models.Model):
    """The runs of one workflow that started, failed or ended within an hour."""

    pk = models.CompositePrimaryKey("starts_at", "workflow", "shard")
    starts_at = models.DateTimeField()
    workflow = ExactTextField(max_length=30)
    shard = models.SmallIntegerField()
    started = models.BigIntegerField(default=0, db_default=0)
    completed = models.BigIntegerField(default=0, db_default=0)
    compensated = models.BigIntegerField(default=0, db_default=0)
    failed = models.BigIntegerField(default=0, db_default=0)
    compensations = models.BigIntegerField(default=0, db_default=0)
    by_hand = models.BigIntegerField(default=0, db_default=0)
    duration_us = models.BigIntegerField(default=0, db_default=0, help_text="Sum over the completed runs.")
    detections = models.BigIntegerField(default=0, db_default=0)
    detected_late = models.BigIntegerField(default=0, db_default=0, help_text="After more than a minute.")
    detection_us = models.BigIntegerField(default=0, db_default=0, help_text="Sum over the detections.")

    class Meta:
        db_table = "stats_workflow_periods"

    def __str__(self) -> str:
        return f"{self.starts_at}, {self.workflow}"
