"""Tables of the log-in."""

from __future__ import annotations

from django.db import models

from webhookhub.db.fields import ExactTextField


class Allowance(models.Model):
    """How far a bucket of throttle.py is used up. The buckets are numbered: attackers cannot fill the table."""

    bucket = ExactTextField(max_length=30, primary_key=True)
    # The time until which the allowance is used up, in microseconds since 1970.
    spent_until = models.BigIntegerField(default=0)

    class Meta:
        db_table = "log_in_allowances"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.bucket)
