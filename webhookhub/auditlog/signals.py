"""Record changes of users, groups and permissions, which Django's own code makes.

Changes are recorded before they happen, so that none is without an entry. A new user or group has its id only after
the insert; it is recorded then if the entry is part of the same transaction, as in the console and `create_staff`.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save

from . import actions
from .record import MAX_LISTED, changes, record

# A log-in does not change what a user may do.
IGNORED = {"id", "last_login", "date_joined"}
PASSWORD = "password"  # noqa: S105


def connect() -> None:
    from django.contrib.auth.models import Group, User

    for model in (User, Group):
        name = model.__name__.lower()
        pre_save.connect(_before_save, sender=model, dispatch_uid=f"auditlog.{name}.save")
        post_save.connect(_after_save, sender=model, dispatch_uid=f"auditlog.{name}.saved")
        pre_delete.connect(_before_delete, sender=model, dispatch_uid=f"auditlog.{name}.delete")
    for through in (User.groups.through, User.user_permissions.through, Group.permissions.through):
        m2m_changed.connect(_before_m2m_change, sender=through, dispatch_uid=f"auditlog.{through.__name__}")


def _before_save(sender: Any, instance: Any, raw: bool, update_fields: Any, **kwargs: Any) -> None:
    if raw or (update_fields is not None and set(update_fields) <= IGNORED):
        return
    columns = [column for column in _columns(sender) if update_fields is None or column in update_fields]
    before = sender._default_manager.filter(pk=instance.pk).values(*columns).first() if instance.pk else None
    if before is None:
        if not connection.in_atomic_block:
            _record_created(sender, instance)
        return
    after = {column: getattr(instance, column) for column in columns}
    password = after.pop(PASSWORD, None)
    changed = changes(before, after)
    if changed:
        record(actions.CHANGE_USER if _is_user(sender) else actions.CHANGE_GROUP, instance, details=changed)
    if password is not None and before[PASSWORD] != password and not _is_rehashed(instance, update_fields):
        record(actions.CHANGE_PASSWORD, instance)


def _after_save(sender: Any, instance: Any, created: bool, raw: bool, **kwargs: Any) -> None:
    if created and not raw and connection.in_atomic_block:
        _record_created(sender, instance)


def _record_created(sender: Any, instance: Any) -> None:
    values = {column: getattr(instance, column) for column in _columns(sender) if column != PASSWORD}
    record(actions.CREATE_USER if _is_user(sender) else actions.CREATE_GROUP, instance, details=changes({}, values))


def _before_delete(sender: Any, instance: Any, **kwargs: Any) -> None:
    """Includes the memberships and permissions that are deleted too, without signals of their own."""
    if _is_user(sender):
        lost = {"groups": instance.groups.all(), "permissions": instance.user_permissions.all()}
    else:
        lost = {"users": instance.user_set.all(), "permissions": instance.permissions.all()}
    details = {name: names for name, rows in lost.items() if (names := sorted(map(_name, rows[:MAX_LISTED])))}
    record(actions.DELETE_USER if _is_user(sender) else actions.DELETE_GROUP, instance, details=details)


def _before_m2m_change(
    sender: Any, instance: Model, action: str, reverse: bool, model: Any, pk_set: Any, **kwargs: Any
) -> None:
    verb = {"pre_add": "added", "pre_remove": "removed", "pre_clear": "removed"}.get(action)
    if verb is None:
        return
    pks = _related_pks(sender, instance, model) if pk_set is None else pk_set
    if not pks:
        return
    names = sorted(map(_name, model._default_manager.filter(pk__in=pks)))
    record(
        actions.CHANGE_RIGHTS if _is_user(instance) or _is_user(model) else actions.CHANGE_GROUP_RIGHTS,
        instance,
        details={f"{model._meta.model_name}s_{verb}": names},
    )


def _name(row: Any) -> str:
    """A permission as `app.codename`; a user or group by name."""
    return f"{row.content_type.app_label}.{row.codename}" if row._meta.model_name == "permission" else str(row)


def _columns(model: Any) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields if field.attname not in IGNORED]


def _is_user(model: Any) -> bool:
    return bool(model._meta.model_name == "user")


def _is_rehashed(user: Any, update_fields: Any) -> bool:
    """Whether a log-in upgraded the password's hash. Django clears the plain password before this save."""
    return update_fields is not None and set(update_fields) == {PASSWORD} and user._password is None


def _related_pks(through: Any, instance: Model, model: Any) -> list[int]:
    column = {field.related_model: field.attname for field in through._meta.concrete_fields if field.is_relation}
    rows = through._default_manager.filter(**{column[type(instance)]: instance.pk})
    return list(rows.values_list(column[model], flat=True))
