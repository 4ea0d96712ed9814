"""Dead letters and the requests to requeue them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.conditions import IsJSON, IsTime, schedule_constraints
from webhookhub.db.fields import ExactTextField, JSONTextField, SecondsListField


class DeadLetter(models.Model):
    """A delivery that failed for good. Triggers refuse changes and deletes."""

    id = models.BigAutoField(_("ID"), primary_key=True)
    saga = models.ForeignKey(
        "sagas.Saga", models.DO_NOTHING, db_constraint=False, db_index=False, related_name="dead_letters"
    )
    event = models.ForeignKey("events.Event", models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+")
    subscription = models.ForeignKey(
        "subscriptions.Subscription", models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    # The event's customer; empty for none.
    customer_key = ExactTextField(_("customer"), max_length=100, blank=True, default="", db_default="")
    final_error_code = ExactTextField(max_length=100)
    failed_at = models.DateTimeField(_("failed at"))
    payload_snapshot = JSONTextField()

    class Meta:
        db_table = "dead_letters"
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
        indexes = [
            models.Index(fields=["saga"], name="idx_dead_saga"),
            models.Index(fields=["event"], name="idx_dead_event"),
            # The filters of the list and of the bulk requeue, in the order of failure.
            models.Index(fields=["failed_at"], name="idx_dead_failed"),
            models.Index(fields=["subscription", "failed_at"], name="idx_dead_subscription"),
            models.Index(fields=["final_error_code", "failed_at"], name="idx_dead_error"),
            models.Index(fields=["customer_key", "failed_at"], name="idx_dead_customer"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["saga"], name="uniq_dead_saga"),
            models.CheckConstraint(condition=IsJSON("payload_snapshot"), name="chk_dead_payload"),
            models.CheckConstraint(condition=IsTime("failed_at"), name="chk_dead_failed_at"),
        ]
        permissions = [
            ("requeue_deadletter", "Can requeue a dead letter"),
            ("bulk_requeue_deadletter", "Can requeue more than one dead letter at a time"),
        ]

    def __str__(self) -> str:
        return f"dead letter {self.pk}"


class Requeue(models.Model):
    """Who requeued a dead letter, when and why. A trigger creates the new saga when this row is inserted.

    So the database role of an operator needs no INSERT on sagas, and can create no other saga.
    """

    id = models.BigAutoField(primary_key=True)
    dead_letter = models.OneToOneField(DeadLetter, models.DO_NOTHING, db_constraint=False, related_name="requeue")
    requested_by = ExactTextField(max_length=150)
    requested_at = models.DateTimeField(db_default=UtcNow())
    reason = ExactTextField(max_length=500)
    # A repeated request has the same token.
    request_token = ExactTextField(max_length=32)
    # The retry policy of the new saga.
    max_retry_limit = models.PositiveIntegerField()
    base_delay = models.DurationField()
    retry_delays = SecondsListField(null=True)

    class Meta:
        db_table = "dead_letter_requeues"
        constraints = schedule_constraints("requeue")

    def __str__(self) -> str:
        return f"requeue of dead letter {self.dead_letter_id}"
