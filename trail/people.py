"""Users, groups and permissions are Django's: what happens to them is heard of by its signals.

All of them are sent before the change, so that no change is without its entry.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.db.models.signals import m2m_changed, pre_delete, pre_save

from . import actions
from .record import changes, record

# A log-in is no change of what somebody may do.
IGNORED = {"id", "last_login", "date_joined"}
PASSWORD = "password"  # noqa: S105


def watch() -> None:
    from django.contrib.auth.models import Group, User

    for model in (User, Group):
        name = model.__name__.lower()
        pre_save.connect(_saving, sender=model, dispatch_uid=f"trail.{name}.save")
        pre_delete.connect(_deleting, sender=model, dispatch_uid=f"trail.{name}.delete")
    for through in (User.groups.through, User.user_permissions.through, Group.permissions.through):
        m2m_changed.connect(_joining, sender=through, dispatch_uid=f"trail.{through.__name__}")


def _saving(sender: Any, instance: Any, raw: bool, update_fields: Any, **kwargs: Any) -> None:
    if raw or (update_fields is not None and set(update_fields) <= IGNORED):
        return
    is_user = sender.__name__ == "User"
    columns = [field.attname for field in sender._meta.concrete_fields if field.attname not in IGNORED]
    if update_fields is not None:
        columns = [column for column in columns if column in update_fields]
    before = sender._default_manager.filter(pk=instance.pk).values(*columns).first() if instance.pk else None
    after = {column: getattr(instance, column) for column in columns}
    password = after.pop(PASSWORD, None)
    if before is None:
        record(actions.CREATE_USER if is_user else actions.CREATE_GROUP, instance, details=changes({}, after))
        return
    changed = changes(before, after)
    if changed:
        record(actions.CHANGE_USER if is_user else actions.CHANGE_GROUP, instance, details=changed)
    if is_user and password is not None and before[PASSWORD] != password:
        record(actions.CHANGE_PASSWORD, instance)


def _deleting(sender: Any, instance: Model, **kwargs: Any) -> None:
    record(actions.DELETE_USER if sender.__name__ == "User" else actions.DELETE_GROUP, instance)


def _joining(sender: Any, instance: Model, action: str, reverse: bool, model: Any, pk_set: Any, **kwargs: Any) -> None:
    verb = {"pre_add": "added", "pre_remove": "removed", "pre_clear": "cleared"}.get(action)
    if verb is None or (pk_set is not None and not pk_set):
        return
    others = sorted(str(other) for other in model._default_manager.filter(pk__in=pk_set)) if pk_set else []
    what = model._meta.model_name or ""
    is_user = instance._meta.model_name == "user" or model._meta.model_name == "user"
    record(
        actions.CHANGE_RIGHTS if is_user else actions.CHANGE_GROUP_RIGHTS,
        instance,
        details={"of": what, verb: others or "all"},
    )
