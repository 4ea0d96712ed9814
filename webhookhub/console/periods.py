"""How far back the overview looks, and how finely."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True)
class Span:
    name: str
    title: Any
    length: timedelta
    step: timedelta

    def bounds(self, now: datetime) -> tuple[datetime, datetime]:
        """From the beginning of a step to the end of the one that is under way, counted from midnight UTC."""
        midnight = datetime(1970, 1, 1, tzinfo=UTC)
        until = midnight + ((now - midnight) // self.step + 1) * self.step
        return until - self.length, until


HOUR = Span("hour", _("last hour"), timedelta(hours=1), timedelta(minutes=1))
DAY = Span("day", _("last 24 hours"), timedelta(hours=24), timedelta(hours=1))
WEEK = Span("week", _("last 7 days"), timedelta(days=7), timedelta(hours=6))
ALL = (HOUR, DAY, WEEK)


def named(name: str | None) -> Span:
    return next((span for span in ALL if span.name == name), HOUR)
