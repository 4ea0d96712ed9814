"""What a person is asked before dead letters are delivered anew."""

from __future__ import annotations

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from webhookhub.console.search import number

from .requeue import REASON_LENGTH

MOST_AT_ONCE = 1000
TOO_MANY = f"At most {MOST_AT_ONCE} dead letters can be requeued at once; choose fewer."
ONE_AT_A_TIME = "You may requeue one dead letter at a time; choose one."


class RequeueForm(forms.Form):
    # One field for all of them: Django refuses a form of more than a thousand.
    ids = forms.CharField(widget=forms.HiddenInput, error_messages={"required": "No dead letter is chosen."})
    reason = forms.CharField(
        max_length=REASON_LENGTH,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text="Kept with the dead letter, with your name and the time.",
        error_messages={
            "required": "Give the reason for the requeue.",
            "max_length": f"The reason may have at most {REASON_LENGTH} characters.",
        },
    )

    def clean_ids(self) -> list[int]:
        return read_ids(self.cleaned_data["ids"])


def read_ids(text: str) -> list[int]:
    """The numbers of the chosen dead letters from `1,2,3`; ValidationError if it is anything else."""
    numbers = [number(part) for part in text.split(",")]
    ids = sorted({id for id in numbers if id is not None})
    if None in numbers:
        raise forms.ValidationError("The choice of dead letters cannot be read.")
    if len(ids) > MOST_AT_ONCE:
        raise forms.ValidationError(TOO_MANY)
    return ids
