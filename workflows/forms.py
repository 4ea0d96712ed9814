"""What a person is asked: which workflows to list, and why they step into one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from webhookhub.console.forms import ReasonField
from webhookhub.ids import new_token

from .badges import WORDS
from .words import STATUSES

# value: what it says, and how old a workflow is at least or at most
AGES: dict[str, tuple[Any, timedelta | None, timedelta | None]] = {
    "hour": (_("begun in the last hour"), None, timedelta(hours=1)),
    "day": (_("begun in the last day"), None, timedelta(days=1)),
    "week": (_("begun in the last week"), None, timedelta(days=7)),
    "over-hour": (_("older than an hour"), timedelta(hours=1), None),
    "over-day": (_("older than a day"), timedelta(days=1), None),
    "over-week": (_("older than a week"), timedelta(days=7), None),
}
ANY = ("", _("any"))


class ListForm(forms.Form):
    """The filters of the list; a step is offered once a type is chosen."""

    q = forms.CharField(
        max_length=200,
        required=False,
        label=_("Saga id, correlation id or aggregate id"),
        widget=UnfoldAdminTextInputWidget,
    )
    saga_type = forms.ChoiceField(required=False, label=_("Workflow"), widget=UnfoldAdminSelectWidget)
    status = forms.ChoiceField(
        required=False,
        choices=[ANY, *((status, WORDS[status]) for status in STATUSES)],
        label=_("Status"),
        widget=UnfoldAdminSelectWidget,
    )
    step = forms.ChoiceField(required=False, label=_("Step"), widget=UnfoldAdminSelectWidget)
    age = forms.ChoiceField(
        required=False,
        choices=[ANY, *((value, says) for value, (says, _least, _most) in AGES.items())],
        label=_("Age"),
        widget=UnfoldAdminSelectWidget,
    )
    operator = forms.ChoiceField(
        required=False,
        choices=[ANY, ("1", _("waits for an operator"))],
        label=_("Operator"),
        widget=UnfoldAdminSelectWidget,
    )

    def __init__(self, data: Any, types: Sequence[tuple[str, str]], steps: Sequence[tuple[str, str]]) -> None:
        super().__init__(data, use_required_attribute=False)
        for name, choices in (("saga_type", types), ("step", steps)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [ANY, *choices]


class ActionForm(forms.Form):
    """Of whichever action: the token makes a form that is sent twice one deed."""

    token = forms.RegexField(r"\A[0-9a-f]{32}\Z", widget=forms.HiddenInput)
    step = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": _("%(value)s cannot be chosen, or no longer. Look at the workflow again.")},
    )
    delivery = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    reason = ReasonField(
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Kept with the workflow, with your name and the time."),
        missing=_("Say why."),
    )

    def __init__(self, data: Any, steps: Sequence[tuple[str, str]] | None, *, whole: bool, initial: Any = None) -> None:
        """`steps`: those that can be named, None if none ever is. `whole`: it may be done to the workflow as a whole,
        without naming a step."""
        super().__init__(data, initial={"token": new_token(), **(initial or {})})
        field = self.fields["step"]
        assert isinstance(field, forms.ChoiceField)
        field.required = not whole
        if steps is None:
            del self.fields["step"]
        else:
            # Even if there is none: what names a step that was there when the page was opened means not the whole.
            field.choices = [*([("", _("all of it"))] if whole else []), *steps]

    def send_anew(self, why: str) -> None:
        """Say why it was not taken, and make what is sent next a deed of its own."""
        self.data = {**dict(self.data.items()), "token": new_token()}
        self.add_error(None, why)
