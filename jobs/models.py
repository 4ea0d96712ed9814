"""An attempt: leased by a worker, sent, reported, settled by the orchestrator."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Case, Count, F, When
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField, WordField
from webhookhub.egress.messages import SNIPPET_LENGTH

from . import states
from .states import ACTIVE, LEASED, PENDING


class JobQuerySet(models.QuerySet["Job"]):
    def ready(self, now: datetime | UtcNow) -> JobQuerySet:
        """Jobs that a worker may lease, the longest waiting first."""
        return self.filter(status=PENDING, lease_until__lte=now).order_by("lease_until", "id")

    def expired(self, now: datetime) -> JobQuerySet:
        """Jobs whose lease has expired."""
        return self.filter(status=LEASED, lease_until__lt=now).order_by("lease_until", "id")

    def unsettled(self, status: str, after_id: int = 0) -> JobQuerySet:
        """Finished jobs of one status whose result no saga has applied yet."""
        return self.filter(settled_at__isnull=True, status=status, id__gt=after_id).order_by("id")

    def open_by_subscription(self) -> dict[int, int]:
        """The number of ready and leased jobs of each subscription."""
        rows = self.filter(status__in=ACTIVE).values("saga__subscription_id").order_by()
        return dict(rows.annotate(count=Count("id")).values_list("saga__subscription_id", "count"))


class Job(models.Model):
    id = models.BigAutoField(_("ID"), primary_key=True)
    saga = models.ForeignKey("sagas.Saga", models.DO_NOTHING, db_constraint=False, db_index=False, related_name="jobs")
    attempt_no = models.PositiveIntegerField(_("attempt"), help_text="1 for the first attempt.")
    status = WordField(_("status"), words=states.STATUSES, default=PENDING)
    # Leased: when the lease expires. Pending: when a worker may lease it.
    lease_until = models.DateTimeField(null=True, blank=True)
    attempt_at = models.DateTimeField(_("due at"), help_text="When the attempt was due; later than the attempt before.")
    response_status = models.IntegerField(_("response status"), null=True, blank=True)
    error_code = ExactTextField(max_length=100, null=True, blank=True)
    worker_id = ExactTextField(max_length=150, default="", db_default="")
    # Replaced by each lease and never cleared: a worker that lost its lease finds another token.
    lease_token = ExactTextField(max_length=32, default="", db_default="")
    lease_resets = models.PositiveIntegerField(default=0, db_default=0)
    retry_after = models.DateTimeField(null=True, blank=True, help_text="The earliest time the endpoint asked for.")
    duration_ms = models.PositiveIntegerField(_("duration (ms)"), null=True, blank=True)
    response_snippet = ExactTextField(max_length=SNIPPET_LENGTH, default="", db_default="")
    finished_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    # The saga's id while the job is active, else NULL. Unique, so a saga has at most one active job.
    active_saga_id = models.GeneratedField(
        expression=Case(When(status__in=ACTIVE, then=F("saga_id")), default=None),
        output_field=models.BigIntegerField(null=True),
        db_persist=True,
    )

    objects = JobQuerySet.as_manager()

    class Meta:
        db_table = "webhook_delivery_jobs"
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        indexes = [
            models.Index(fields=["saga"], name="idx_job_saga"),
            models.Index(fields=["status", "lease_until"], name="idx_job_status_lease"),
            models.Index(fields=["settled_at", "status"], name="idx_job_settled"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["saga", "attempt_at"], name="uniq_job_saga_attempt"),
            models.UniqueConstraint(fields=["saga", "attempt_no"], name="uniq_job_saga_attempt_no"),
            models.UniqueConstraint(fields=["active_saga_id"], name="uniq_job_active_saga"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.attempt_no} of delivery {self.saga_id}"
