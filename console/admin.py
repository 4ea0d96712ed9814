"""People and groups, in the console's look."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from trail.admin import Trailed
from webhookhub.console.bases import ModelAdmin

admin.site.unregister(User)
admin.site.unregister(Group)


class Checkboxes:
    """Groups and permissions to tick: nobody has to know how several lines of a list are chosen."""

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs)  # type: ignore[misc]
        field.widget = UnfoldAdminCheckboxSelectMultipleWidget(choices=field.widget.choices)
        field.help_text = ""
        return field


@admin.register(User)
class UserAdmin(Trailed, Checkboxes, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    filter_horizontal = ()


@admin.register(Group)
class GroupAdmin(Trailed, Checkboxes, DjangoGroupAdmin, ModelAdmin):  # type: ignore[type-arg]
    filter_horizontal = ()
