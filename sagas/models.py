"""A delivery: one event to one endpoint, by one of its subscriptions; and what people have requested for deliveries."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import models
from django.db.models import Case, F, Q, When
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.conditions import IsJSON, IsUid, schedule_constraints
from webhookhub.db.fields import ExactTextField, JSONTextField, SecondsListField, WordField
from webhookhub.ids import new_uid
from webhookhub.validators import REASON_LENGTH

from . import transitions
from .transitions import PENDING, PENDING_RETRY, WAITING

# The next attempt of a parked saga: never due. Far below the largest year, so that any time zone can show it.
PARKED = datetime(9000, 1, 1, tzinfo=UTC)

SEND_NOW, ABANDON, SEND_AGAIN = "send_now", "abandon", "send_again"
KINDS = (SEND_NOW, ABANDON, SEND_AGAIN)
TOKEN_LENGTH = 32


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
    # The subscription's, when the event was routed. NULL in a saga from before endpoints.
    endpoint = models.ForeignKey(
        "subscriptions.Endpoint",
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="sagas",
    )
    # The event's customer; empty for none. The subscription is that customer's, or has none.
    customer_key = ExactTextField(_("customer"), max_length=100, blank=True, default="", db_default="")
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
    # The request that abandons it. No job is created from then on; an attempt in progress may still succeed.
    abandoned_by = models.ForeignKey(
        "DeliveryRequest", models.DO_NOTHING, db_constraint=False, db_index=False, null=True, related_name="+"
    )
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
            models.Index(fields=["customer_key"], name="idx_saga_customer"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["event", "subscription", "generation"], name="uniq_saga_event_subscription"
            ),
            # Several subscriptions of an endpoint may match an event: one of them delivers it.
            models.UniqueConstraint(fields=["event", "endpoint", "generation"], name="uniq_saga_event_endpoint"),
            models.CheckConstraint(
                condition=~Q(status=PENDING_RETRY) | Q(attempt_count__lt=F("max_retry_limit")),
                name="chk_saga_retry_below_limit",
            ),
            models.CheckConstraint(condition=Q(max_retry_limit__gte=1), name="chk_saga_limit_positive"),
            *schedule_constraints("saga"),
        ]
        permissions = [
            ("send_now", "Can send waiting deliveries now"),
            ("abandon", "Can abandon deliveries"),
            ("send_again", "Can send ended deliveries again"),
            ("bulk_request", "Can send now or abandon more than one delivery at a time"),
        ]

    def __str__(self) -> str:
        return f"delivery {self.pk}"


class DeliveryRequest(models.Model):
    """Send now, abandon or send again: who asked for it, why, and for which deliveries. The orchestrator applies it.

    It is for one delivery (`saga`), or for all that match `conditions` and existed when it was made.
    """

    id = models.BigAutoField(_("ID"), primary_key=True)
    uid = models.UUIDField(unique=True, default=new_uid, editable=False)
    kind = WordField(words=KINDS)
    saga = models.ForeignKey(
        Saga, models.DO_NOTHING, db_constraint=False, db_index=False, null=True, related_name="requests"
    )
    conditions = JSONTextField()
    max_saga_id = models.BigIntegerField()
    requested_by = ExactTextField(_("requested by"), max_length=150)
    requested_at = models.DateTimeField(_("requested at"), db_default=UtcNow())
    reason = ExactTextField(max_length=REASON_LENGTH)
    # A repeated request has the same token.
    request_token = ExactTextField(max_length=TOKEN_LENGTH, unique=True)
    # The progress, which only the orchestrator changes. `due_at` is null when nothing is left to do.
    due_at = models.DateTimeField(null=True, db_default=UtcNow())
    applied_at = models.DateTimeField(null=True)
    # Counts the batches: of two orchestrators with the same batch, the second changes nothing.
    batches = models.PositiveIntegerField(db_default=0)
    # The deliveries up to this id are done, except those from `left_from` on that were in progress.
    scanned_to = models.BigIntegerField(db_default=0)
    left_from = models.BigIntegerField(null=True)
    # Deliveries that it has changed.
    changed = models.PositiveIntegerField(_("changed deliveries"), db_default=0)

    class Meta:
        db_table = "delivery_requests"
        verbose_name = _("request")
        verbose_name_plural = _("requests")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["due_at"], name="idx_request_due"),
            models.Index(fields=["saga"], name="idx_request_saga"),
        ]
        constraints = [
            models.CheckConstraint(condition=IsUid("uid"), name="chk_request_uid"),
            models.CheckConstraint(condition=IsJSON("conditions"), name="chk_request_conditions"),
        ]

    def __str__(self) -> str:
        return f"request {self.uid}"
