"""What people choose dead letters by in the console. One window of the table is looked at, however long it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from webhookhub.console import format
from webhookhub.console.forms import MomentField
from webhookhub.egress.errors import MEANING
from webhookhub.search_terms import MAX_ID
from webhookhub.search_terms import parse_error_code as known_code

from .filters import EVENT_TYPE, Choice, Position, newest_first, position
from .models import DeadLetter, Requeue

MOST_LISTED = 500
MOST_EXAMINED = 2000
NOT_YET, BEFORE = "no", "yes"
# Come by a link from another page, and are shown where they are given.
NARROWING = ("event", "saga")
CODES = (*MEANING, *(f"http_{status}" for status in (400, 401, 403, 404, 410, 429, 500, 502, 503, 504)))


def _text(**attributes: str) -> Any:
    return UnfoldAdminTextInputWidget(attrs={"spellcheck": "false", "autocomplete": "off", **attributes})


def _number(label: Any, invalid: Any, too_large: Any) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        required=False,
        min_value=1,
        max_value=MAX_ID,
        widget=_text(inputmode="numeric"),
        error_messages={"invalid": invalid, "min_value": invalid, "max_value": too_large},
    )


class FilterForm(forms.Form):
    """Everything in the list's address that says what it shows, the search included."""

    error_code = forms.CharField(
        label=_("Error code"), required=False, max_length=100, widget=_text(list="hub-error-codes")
    )
    subscription = _number(
        _("Subscription number"),
        _("A subscription's number is a whole number, such as 12."),
        _("There is no subscription with this number."),
    )
    event_type = forms.RegexField(
        EVENT_TYPE,
        label=_("Event type"),
        required=False,
        widget=_text(),
        error_messages={"invalid": _("An event type has letters, digits, dots, dashes and underscores.")},
    )
    since = MomentField(_("Failed since"), required=False)
    until = MomentField(_("Failed until"), required=False)
    requeued = forms.ChoiceField(
        label=_("Requeued"),
        required=False,
        choices=[("", _("either way")), (NOT_YET, _("not yet")), (BEFORE, _("already"))],
        widget=UnfoldAdminSelectWidget,
    )
    event = _number(
        _("Event number"),
        _("An event's number is a whole number, such as 12."),
        _("There is no event with this number."),
    )
    saga = _number(
        _("Delivery number"),
        _("A delivery's number is a whole number, such as 12."),
        _("There is no delivery with this number."),
    )
    q = forms.CharField(required=False, widget=forms.HiddenInput)
    # Where to look further back: of those that failed at the very moment `until`, the ones up to this number.
    upto = forms.IntegerField(required=False, min_value=1, max_value=MAX_ID - 1, widget=forms.HiddenInput)

    def clean_error_code(self) -> str:
        """`HTTP_404` and `404` are what is stored as `http_404`."""
        given: str = self.cleaned_data["error_code"]
        return known_code(given) or known_code(f"{format.HTTP}{given}") or given

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if given.get("since") and given.get("until") and given["until"] < given["since"]:
            self.add_error("until", _("This lies before the time since which they failed."))
        return given

    @property
    def is_given(self) -> bool:
        return bool(self.query)

    @property
    def offered(self) -> list[forms.BoundField]:
        """The fields to be filled in."""
        return [field for field in self.visible_fields() if field.name not in NARROWING or self.data.get(field.name)]

    @property
    def query(self) -> dict[str, str]:
        """What is given, as the address has it."""
        return {name: self.data[name] for name in self.fields if self.data.get(name, "").strip()}

    @property
    def list_address(self) -> str:
        """The list that this is the filter of."""
        return format.listing(DeadLetter, urlencode(self.query))

    def start(self) -> Position | None:
        """Behind which position the list begins; None at the newest."""
        until, upto = self.cleaned_data["until"], self.cleaned_data["upto"]
        return Position(until, upto + 1) if until and upto else None

    def choice(self) -> Choice:
        given = self.cleaned_data
        return Choice(
            error_code=given["error_code"] or None,
            subscription_id=given["subscription"],
            event_type=given["event_type"] or None,
            since=given["since"],
            until=given["until"],
            event_id=given["event"],
            saga_id=given["saga"],
            search=given["q"] or None,
        )


NAMES = tuple(FilterForm.base_fields)


@dataclass
class Found:
    """The newest that match, of those looked at; `older` is the first of those further back, if there are any."""

    letters: list[DeadLetter] = field(default_factory=list)
    older: Position | None = None


def find(choice: Choice, requeued: str = "", after: Position | None = None) -> Found:
    """One window of the table, in the order of failure, and what matches in it."""
    if choice.is_indexed and not requeued:
        return _bounded(newest_first(choice, after, MOST_LISTED + 1), MOST_LISTED)
    window = _bounded(newest_first(choice, after, MOST_EXAMINED + 1), MOST_EXAMINED)
    kept = choice.keep(window.letters)
    if requeued:
        # By the record of the request, which is made before the delivery: one that was cut short in between counts.
        asked = set(Requeue.objects.filter(dead_letter__in=kept).values_list("dead_letter_id", flat=True))
        kept = [letter for letter in kept if (letter.id in asked) == (requeued == BEFORE)]
    return Found(kept, window.older)


def _bounded(letters: list[DeadLetter], most: int) -> Found:
    return Found(letters[:most], position(letters[most]) if len(letters) > most else None)
