"""Words of the look that it brings in English only, and Django's translations do not know."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

WORDS = (
    _("Add row"),
    _("After you've created a user, you’ll be able to edit more user options."),
    _("All applications"),
    _("Apply Filters"),
    _("Apply filters"),
    _("Dark"),
    _("Date"),
    _("Expand row"),
    _("False"),
    _("Filters"),
    _("General"),
    _("Go back"),
    _("Light"),
    _("Loading more results..."),
    _("More actions"),
    _("Next"),
    _("No data"),
    _("No recent searches"),
    _("No results found"),
    _("No results matching your query"),
    _("Previous"),
    _(
        "Raw passwords are not stored, so there is no way to see this user’s password, but you can change the password "
        'using <a href="{}" class="text-primary-600 dark:text-primary-500">this form</a>.'
    ),
    _("Recent searches"),
    _("Reset filters"),
    _("Return to site"),
    _("Run"),
    _("Search apps and models..."),
    _("Select action"),
    _("Select action to run"),
    _("Select all rows"),
    _("Select record"),
    _("Select value"),
    _("Show all"),
    _("System"),
    _("This item will be deleted."),
    _("Time"),
    _("Toggle password visibility"),
    _("True"),
    _("Type to search"),
    _("Welcome"),
    _("Welcome back to"),
    _("You have been successfully logged out from the administration"),
)
