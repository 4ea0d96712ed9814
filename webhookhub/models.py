"""The running processes of the hub."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField


class Process(models.Model):
    """One running loop. It creates the row when it starts, updates it with heartbeats and removes it when it stops."""

    name = ExactTextField(_("name"), max_length=150, unique=True)
    kind = ExactTextField(_("kind"), max_length=30)
    host = ExactTextField(_("host"), max_length=100)
    pid = models.PositiveIntegerField(_("pid"))
    # Empty for a process of version 0.1.0.
    version = ExactTextField(_("version"), max_length=30, default="", db_default="")
    started_at = models.DateTimeField(_("started at"), db_default=UtcNow())
    heartbeat_at = models.DateTimeField(_("heartbeat at"), db_default=UtcNow())

    class Meta:
        db_table = "hub_processes"
        verbose_name = _("process")
        verbose_name_plural = _("processes")

    def __str__(self) -> str:
        return str(self.name)

    def is_alive(self, now: datetime, silence: timedelta) -> bool:
        return self.heartbeat_at >= now - silence
