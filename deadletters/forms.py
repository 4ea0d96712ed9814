"""What a person is asked before dead letters are delivered anew."""

from __future__ import annotations

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from webhookhub.console.reason_field import ReasonField
from webhookhub.search_terms import parse_id

MOST_AT_ONCE = 1000
TOO_MANY = format_lazy(_("At most {number} dead letters can be requeued at once; choose fewer."), number=MOST_AT_ONCE)
ONE_AT_A_TIME = _("You may requeue one dead letter at a time; choose one.")


class RequeueForm(forms.Form):
    # One field for all of them: Django refuses a form of more than a thousand.
    ids = forms.CharField(widget=forms.HiddenInput, error_messages={"required": _("No dead letter is chosen.")})
    reason = ReasonField(
        help_text=_("Kept with the dead letter, with your name and the time."),
        missing=_("Give the reason for the requeue."),
    )

    def clean_ids(self) -> list[int]:
        return read_ids(self.cleaned_data["ids"])


def read_ids(text: str) -> list[int]:
    """The numbers of the chosen dead letters from `1,2,3`; ValidationError if it is anything else."""
    numbers = [parse_id(part) for part in text.split(",")]
    ids = sorted({id for id in numbers if id is not None})
    if None in numbers:
        raise forms.ValidationError(_("The choice of dead letters cannot be read."))
    if len(ids) > MOST_AT_ONCE:
        raise forms.ValidationError(TOO_MANY)
    return ids
