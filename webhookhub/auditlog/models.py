"""The audit log: who did what, when, why, and to which object."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField, JSONTextField, WordField
from webhookhub.validators import REASON_LENGTH

from .actions import ACTIONS, VIAS

NAME_LENGTH = 150
OBJECT_NAME_LENGTH = 300


class Entry(models.Model):
    """One action. Triggers refuse to update or delete it."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(_("when"), db_default=UtcNow())
    actor = ExactTextField(_("who"), max_length=NAME_LENGTH)
    via = WordField(words=tuple(VIAS))
    action = ExactTextField(max_length=50)
    # Not a foreign key: the entry outlives the object.
    object_type = ExactTextField(max_length=30)
    object_id = models.BigIntegerField(_("object ID"), null=True, blank=True)
    object_name = ExactTextField(max_length=OBJECT_NAME_LENGTH)
    reason = ExactTextField(_("why"), max_length=REASON_LENGTH, blank=True, default="")
    details = JSONTextField()

    class Meta:
        db_table = "audit_log_entries"
        verbose_name = _("audit log entry")
        verbose_name_plural = _("audit log entries")
        default_permissions = ("view",)
        indexes = [
            # Each ends with the primary key, and so gives the newest first without sorting.
            models.Index(fields=["object_type", "object_id"], name="idx_audit_object"),
            models.Index(fields=["actor"], name="idx_audit_actor"),
            models.Index(fields=["action"], name="idx_audit_action"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {ACTIONS.get(self.action, self.action)}"
