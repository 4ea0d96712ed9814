"""What the console's pages are made from: Django's admin in the look of django-unfold.

The look is not typed. To whoever checks types it is the admin that it builds upon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite, ModelAdmin
    from django.contrib.admin.views.main import ChangeList
else:
    from unfold.admin import ModelAdmin
    from unfold.sites import UnfoldAdminSite as AdminSite
    from unfold.views import ChangeList

__all__ = ["AdminSite", "ChangeList", "ModelAdmin"]
