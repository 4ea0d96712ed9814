"""The running processes of the hub."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField


class Process(models.Model):
    """One running loop. It creates the row when it starts, updates it with heartbeats and removes it when it stops."""

    name = ExactTextField(max_length=150, unique=True)
    kind = ExactTextField(max_length=30)
    host = ExactTextField(max_length=100)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField(db_default=UtcNow())
    heartbeat_at = models.DateTimeField(db_default=UtcNow())

    class Meta:
        db_table = "hub_processes"
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return str(self.name)

    def is_alive(self, now: datetime, silence: timedelta) -> bool:
        return self.heartbeat_at >= now - silence
