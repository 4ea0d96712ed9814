"""The console itself: Django's admin with the look of django-unfold and the hub's own pages."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse

from webhookhub.console.bases import AdminSite


class ConsoleSite(AdminSite):
    # The language, the theme and the password are in the menu beneath the user's name.
    enable_nav_sidebar = True

    def search(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        """The look's search over names of tables; the console has one of its own, over what is in them."""
        raise Http404
