"""The groups of people at the console, made by `migrate`.

What is declared here is given to the groups at every `migrate` and nothing is taken from them: who wants another cut
makes a group of their own.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.apps import apps as all_apps
from django.contrib.auth.management import create_permissions

VIEW = {
    "events.view_event",
    "sagas.view_saga",
    "jobs.view_job",
    "deadletters.view_deadletter",
    "subscriptions.view_subscription",
    "webhookhub.view_process",
    "workflows.view_instance",
}
# Who did what: for those who look over others' shoulders, and for those who have to know what was changed.
TRAIL = {"auditlog.view_entry"}
SUPPORT = VIEW | {"deadletters.requeue_deadletter", "workflows.retry_step"}
OPERATIONS = (
    SUPPORT
    | TRAIL
    | {
        "deadletters.bulk_requeue_deadletter",
        "subscriptions.add_subscription",
        "subscriptions.change_subscription",
        "subscriptions.verify_subscription",
        "subscriptions.reveal_secret",
        "workflows.mark_compensated",
        "workflows.close_workflow",
    }
)
GROUPS = {"support": SUPPORT, "operations": OPERATIONS, "auditors": VIEW | TRAIL}


def give_permissions(app_config: AppConfig, using: str, apps: Any = all_apps, **kwargs: Any) -> None:
    """After an app is migrated: its permissions, to the groups that have them."""
    wanted = {group: _codenames(permissions, app_config.label) for group, permissions in GROUPS.items()}
    if not any(wanted.values()) or not _exist(apps):
        return
    # Django makes them after the same signal, perhaps after this.
    create_permissions(app_config, verbosity=0, using=using, apps=apps)
    permissions = apps.get_model("auth", "Permission").objects.using(using)
    for name, codenames in wanted.items():
        group, _ = apps.get_model("auth", "Group").objects.using(using).get_or_create(name=name)
        group.permissions.add(*permissions.filter(content_type__app_label=app_config.label, codename__in=codenames))


def _codenames(permissions: set[str], app: str) -> set[str]:
    return {codename for label, codename in (each.split(".") for each in permissions) if label == app}


def _exist(apps: Any) -> bool:
    """Not if the migrations of users and groups were taken back."""
    try:
        apps.get_model("auth", "Group")
    except LookupError:
        return False
    return True
