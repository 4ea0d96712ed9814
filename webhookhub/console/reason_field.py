"""The field in which a page asks why."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminTextareaWidget

from webhookhub.validators import REASON_LENGTH, InvalidReason, clean_reason

from .sentences import capital

KEPT = gettext_lazy("Kept in the audit log, with your name and the time.")
GIVE_IT = gettext_lazy("Give the reason.")


class ReasonField(forms.CharField):
    """Trimmed and checked as a reason is everywhere; what is wrong with it is said beside it."""

    def __init__(self, *, missing: Any = GIVE_IT, **options: Any) -> None:
        given = {"label": gettext_lazy("Reason"), "help_text": KEPT, "max_length": REASON_LENGTH}
        given["widget"] = UnfoldAdminTextareaWidget(attrs={"rows": 2})
        super().__init__(**{**given, "error_messages": {"required": missing}, **options})

    def to_python(self, value: Any) -> str:
        text = super().to_python(value) or ""
        if not text:
            return ""
        try:
            return clean_reason(text)
        except InvalidReason as error:
            raise ValidationError(_("%(sentence)s.") % {"sentence": capital(str(error))}, code="invalid") from None
