"""What a row is called at the head of its page, in the viewer's language; in the trail and in logs it is English."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.translation import gettext as _

from webhookhub.console import format

register = template.Library()


@register.filter
def called(row: Any) -> str:
    match getattr(getattr(row, "_meta", None), "label_lower", ""):
        case "sagas.saga":
            return _("delivery %(number)s") % {"number": row.pk}
        case "deadletters.deadletter":
            return _("dead letter %(number)s") % {"number": row.pk}
        case "jobs.job":
            return _("attempt %(number)s of delivery %(delivery)s") % {
                "number": row.attempt_no,
                "delivery": row.saga_id,
            }
    return format.visible(str(row))
