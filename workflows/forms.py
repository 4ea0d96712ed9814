"""The filters of the list of runs, and the form of an operator's action."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from webhookhub.console.forms import ReasonField
from webhookhub.ids import new_token

from .filters import RunFilter
from .labels import STATUSES
from .registry import Registry

# value → label, minimum and maximum age
AGES: dict[str, tuple[Any, timedelta | None, timedelta | None]] = {
    "hour": (_("started in the last hour"), None, timedelta(hours=1)),
    "day": (_("started in the last day"), None, timedelta(days=1)),
    "week": (_("started in the last week"), None, timedelta(days=7)),
    "over-hour": (_("older than an hour"), timedelta(hours=1), None),
    "over-day": (_("older than a day"), timedelta(days=1), None),
    "over-week": (_("older than a week"), timedelta(days=7), None),
}
ANY = ("", _("any"))


class ListForm(forms.Form):
    """Steps can be chosen once a workflow is chosen."""

    q = forms.CharField(
        max_length=200,
        required=False,
        label=_("Run id, correlation id or aggregate id"),
        widget=UnfoldAdminTextInputWidget,
    )
    saga_type = forms.ChoiceField(required=False, label=_("Workflow"), widget=UnfoldAdminSelectWidget)
    status = forms.ChoiceField(
        required=False,
        choices=[ANY, *((status, label) for status, (_colour, label) in STATUSES.items())],
        label=_("Status"),
        widget=UnfoldAdminSelectWidget,
    )
    step = forms.ChoiceField(required=False, label=_("Step"), widget=UnfoldAdminSelectWidget)
    age = forms.ChoiceField(
        required=False,
        choices=[ANY, *((value, label) for value, (label, _least, _most) in AGES.items())],
        label=_("Age"),
        widget=UnfoldAdminSelectWidget,
    )
    operator = forms.ChoiceField(
        required=False,
        choices=[ANY, ("1", _("needs an operator"))],
        label=_("Operator"),
        widget=UnfoldAdminSelectWidget,
    )

    before = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)

    def __init__(self, data: QueryDict, registry: Registry) -> None:
        versions = [version for version in reversed(registry.all()) if version.name == data.get("saga_type", "")]
        steps = {step.key: step.title for version in versions for step in version.steps}
        if data.get("step", "") not in steps:
            # The form still sends the step of the workflow that was chosen before.
            data = data.copy()
            data.pop("step", None)
        super().__init__(data, use_required_attribute=False)
        types = [(name, definition.title) for name, definition in sorted(registry.shown.items())]
        for name, choices in (("saga_type", types), ("step", steps.items())):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [ANY, *choices]

    def filter(self, now: datetime) -> RunFilter:
        """All conditions except `q` and `before`."""
        values = self.cleaned_data
        _label, at_least, at_most = AGES.get(values["age"], ("", None, None))
        return RunFilter(
            saga_type=values["saga_type"] or None,
            status=values["status"] or None,
            step=values["step"] or None,
            needs_operator=bool(values["operator"]),
            since=None if at_most is None else now - at_most,
            until=None if at_least is None else now - at_least,
        )


class ActionForm(forms.Form):
    """The token is the idempotency key: a form that is sent twice acts once."""

    token = forms.RegexField(r"\A[0-9a-f]{32}\Z", widget=forms.HiddenInput)
    step = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": _("%(value)s cannot be chosen any more. Reload the page of the run.")},
    )
    delivery = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    reason = ReasonField(
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Stored with the run, with your name and the time."),
        missing=_("Say why."),
    )

    def __init__(self, data: Any, steps: Sequence[tuple[str, str]] | None, *, whole: bool, initial: Any = None) -> None:
        """`steps`: the choices, or None for an action without a step. `whole`: the step may be left out."""
        super().__init__(data, initial={"token": new_token(), **(initial or {})})
        field = self.fields["step"]
        assert isinstance(field, forms.ChoiceField)
        field.required = not whole
        if steps is None:
            del self.fields["step"]
        else:
            # Also with no steps: a step that is no longer valid must be an error, and not mean the whole run.
            field.choices = [*([("", _("all steps"))] if whole else []), *steps]

    def renew(self, why: str) -> None:
        """Add an error and a new token, so that the next submission is a new action."""
        self.data = {**dict(self.data.items()), "token": new_token()}
        self.add_error(None, why)
