"""A delivery: one event to one subscription."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import models
from django.db.models import Case, F, Q, When
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField, SecondsListField, WordField

from . import transitions
from .transitions import PENDING, PENDING_RETRY, WAITING

# The next attempt of a parked saga: never due. Far below the largest year, so that any time zone can show it.
PARKED = datetime(9000, 1, 1, tzinfo=UTC)


class SagaQuerySet(models.QuerySet["Saga"]):
    def due(self, status: str, now: datetime | UtcNow) -> SagaQuerySet:
        """Sagas of one waiting status whose next attempt is due, the longest waiting first."""
        return self.filter(status=status, next_attempt_at__lte=now).order_by("next_attempt_at", "id")


class Saga(models.Model):
    id = models.BigAutoField(_("ID"), primary_key=True)
    # No database constraints: they would lock the parent row at every insert, and parents are never deleted.
    event = models.ForeignKey(
        "events.Event", models.DO_NOTHING, db_constraint=False, db_index=False, related_name="sagas"
    )
    subscription = models.ForeignKey(
        "subscriptions.Subscription",
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="sagas",
    )
    generation = models.PositiveIntegerField(default=0, db_default=0, help_text="0 when routed; each requeue adds one.")
    status = WordField(_("status"), words=transitions.STATUSES, default=PENDING)
    attempt_count = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(db_default=UtcNow())
    # Copied at creation: a decision that is repeated after a crash must be the same.
    max_retry_limit = models.PositiveIntegerField()
    base_delay = models.DurationField()
    retry_delays = SecondsListField(null=True, blank=True)
    # Kept on success: it explains why the delivery was late.
    final_error_code = ExactTextField(max_length=100, null=True, blank=True)
    created_at = models.DateTimeField(db_default=UtcNow())
    updated_at = models.DateTimeField(db_default=UtcNow())
    # The subscription's id while the saga is parked, else NULL: the park is an index, and cannot disagree with the row.
    parked_subscription_id = models.GeneratedField(
        expression=Case(When(status__in=WAITING, next_attempt_at__gte=PARKED, then=F("subscription_id")), default=None),
        output_field=models.BigIntegerField(null=True),
        db_persist=True,
    )

    objects = SagaQuerySet.as_manager()

    class Meta:
        db_table = "webhook_delivery_sagas"
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        indexes = [
            models.Index(fields=["event", "subscription"], name="idx_saga_event"),
            models.Index(fields=["status", "next_attempt_at"], name="idx_saga_status_retry"),
            models.Index(fields=["status"], name="idx_saga_status"),
            # For the console's list by endpoint. The column never changes, so it costs one index insert per saga.
            models.Index(fields=["subscription"], name="idx_saga_subscription"),
            models.Index(fields=["parked_subscription_id", "id"], name="idx_saga_parked"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["event", "subscription", "generation"], name="uniq_saga_event_subscription"
            ),
            models.CheckConstraint(
                condition=~Q(status=PENDING_RETRY) | Q(attempt_count__lt=F("max_retry_limit")),
                name="chk_saga_retry_below_limit",
            ),
            models.CheckConstraint(condition=Q(max_retry_limit__gte=1), name="chk_saga_limit_positive"),
        ]

    def __str__(self) -> str:
        return f"delivery {self.pk}"
