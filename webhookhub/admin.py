"""Running processes in the console."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.db.clock import UtcNow
from webhookhub.runner.registry import silent_after

from .models import Process


@admin.register(Process)
class ProcessAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "state", "host", "pid", "version", "started_at", "heartbeat_at")
    fields = list_display

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # The database's clock, which the heartbeats are written with.
        processes: QuerySet[Any] = super().get_queryset(request).annotate(read_at=UtcNow())
        return processes

    @admin.display(description=_("state"))
    def state(self, process: Any) -> str:
        if process.is_alive(process.read_at, silent_after()):
            return gettext("alive")
        silence = process.read_at - process.heartbeat_at
        return gettext("silent for %(seconds)s s") % {"seconds": int(silence.total_seconds())}
