"""Users, groups and permissions are Django's: what happens to them is heard of by its signals.

They are heard before the change, so that no change is without its entry; but a new one has its number only afterwards,
and is told then where the entry is part of the same transaction, as it is in the console and in `create_staff`.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save

from . import actions
from .permissions import told
from .record import MOST_LISTED, changes, record

# A log-in is no change of what somebody may do.
IGNORED = {"id", "last_login", "date_joined"}
PASSWORD = "password"  # noqa: S105


def watch() -> None:
    from django.contrib.auth.models import Group, User

    for model in (User, Group):
        name = model.__name__.lower()
        pre_save.connect(_saving, sender=model, dispatch_uid=f"auditlog.{name}.save")
        post_save.connect(_saved, sender=model, dispatch_uid=f"auditlog.{name}.saved")
        pre_delete.connect(_deleting, sender=model, dispatch_uid=f"auditlog.{name}.delete")
    for through in (User.groups.through, User.user_permissions.through, Group.permissions.through):
        m2m_changed.connect(_joining, sender=through, dispatch_uid=f"auditlog.{through.__name__}")


def _saving(sender: Any, instance: Any, raw: bool, update_fields: Any, **kwargs: Any) -> None:
    if raw or (update_fields is not None and set(update_fields) <= IGNORED):
        return
    columns = _columns(sender)
    if update_fields is not None:
        columns = [column for column in columns if column in update_fields]
    before = sender._default_manager.filter(pk=instance.pk).values(*columns).first() if instance.pk else None
    if before is None:
        if not connection.in_atomic_block:
            _tell_new(sender, instance)
        return
    after = {column: getattr(instance, column) for column in columns}
    password = after.pop(PASSWORD, None)
    changed = changes(before, after)
    if changed:
        record(actions.CHANGE_USER if _is_user(sender) else actions.CHANGE_GROUP, instance, details=changed)
    if password is not None and before[PASSWORD] != password and not _is_rehashed(instance, update_fields):
        record(actions.CHANGE_PASSWORD, instance)


def _saved(sender: Any, instance: Any, created: bool, raw: bool, **kwargs: Any) -> None:
    if created and not raw and connection.in_atomic_block:
        _tell_new(sender, instance)


def _tell_new(sender: Any, instance: Any) -> None:
    given = {column: getattr(instance, column) for column in _columns(sender) if column != PASSWORD}
    record(actions.CREATE_USER if _is_user(sender) else actions.CREATE_GROUP, instance, details=changes({}, given))


def _columns(model: Any) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields if field.attname not in IGNORED]


def _is_user(model: Any) -> bool:
    return bool(model._meta.model_name == "user")


def _is_rehashed(user: Any, update_fields: Any) -> bool:
    """The same password, stored in a newer way when its owner logs in: Django forgets the text before it saves."""
    return update_fields is not None and set(update_fields) == {PASSWORD} and user._password is None


def _deleting(sender: Any, instance: Any, **kwargs: Any) -> None:
    """With what goes with it: nobody is told of that by a signal of its own."""
    if _is_user(sender):
        lost = {"groups": instance.groups.all(), "permissions": instance.user_permissions.all()}
    else:
        lost = {"users": instance.user_set.all(), "permissions": instance.permissions.all()}
    details = {name: names for name, rows in lost.items() if (names := sorted(map(told, rows[:MOST_LISTED])))}
    record(actions.DELETE_USER if _is_user(sender) else actions.DELETE_GROUP, instance, details=details)


def _joining(sender: Any, instance: Model, action: str, reverse: bool, model: Any, pk_set: Any, **kwargs: Any) -> None:
    verb = {"pre_add": "added", "pre_remove": "removed", "pre_clear": "removed"}.get(action)
    if verb is None:
        return
    chosen = _joined(sender, instance, model) if pk_set is None else pk_set
    if not chosen:
        return
    others = sorted(map(told, model._default_manager.filter(pk__in=chosen)))
    record(
        actions.CHANGE_RIGHTS if _is_user(instance) or _is_user(model) else actions.CHANGE_GROUP_RIGHTS,
        instance,
        details={"of": model._meta.model_name, verb: others},
    )


def _joined(through: Any, instance: Model, model: Any) -> list[int]:
    """All that are joined to it now."""
    column = {field.related_model: field.attname for field in through._meta.concrete_fields if field.is_relation}
    rows = through._default_manager.filter(**{column[type(instance)]: instance.pk})
    return list(rows.values_list(column[model], flat=True))
