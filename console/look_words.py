"""Words of the look that it brings in English only, and Django's translations do not know."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

WORDS = (
    _("Apply filters"),
    _("Dark"),
    _("Date"),
    _("Filters"),
    _("Light"),
    _("No results found"),
    _("Reset filters"),
    _("Run"),
    _("Select action"),
    _("Select record"),
    _("Select value"),
    _("Show all"),
    _("System"),
    _("This page yielded into no results. Create a new item or reset your filters."),
    _("Time"),
    _("Type to search"),
    _("Welcome back to"),
)
