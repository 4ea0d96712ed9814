"""The console's groups, created by `migrate`.

Each `migrate` adds the permissions below and removes none. For other permissions, create a group of your own.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.apps import apps as all_apps
from django.contrib.auth.management import create_permissions

VIEW = {
    "events.view_event",
    "events.view_eventtype",
    "sagas.view_saga",
    "sagas.view_deliveryrequest",
    "jobs.view_job",
    "deadletters.view_deadletter",
    "subscriptions.view_customer",
    "subscriptions.view_endpoint",
    "subscriptions.view_subscription",
    "webhookhub.view_process",
    "workflows.view_instance",
}
AUDIT_LOG = {"auditlog.view_entry"}
SUPPORT = VIEW | {
    "sagas.send_now",
    "sagas.send_again",
    "deadletters.requeue_deadletter",
    "workflows.retry_step",
}
OPERATIONS = (
    SUPPORT
    | AUDIT_LOG
    | {
        "sagas.abandon",
        "sagas.bulk_request",
        "deadletters.bulk_requeue_deadletter",
        "subscriptions.add_customer",
        "subscriptions.disable_customer",
        "events.add_eventtype",
        "events.change_eventtype",
        "events.delete_eventtype",
        "subscriptions.add_subscription",
        "subscriptions.change_subscription",
        "subscriptions.verify_subscription",
        "subscriptions.vouch_endpoint",
        "subscriptions.reveal_secret",
        "subscriptions.change_credentials",
        "workflows.mark_compensated",
        "workflows.close_workflow",
    }
)
GROUPS = {"support": SUPPORT, "operations": OPERATIONS, "auditors": VIEW | AUDIT_LOG}


def add_permissions(app_config: AppConfig, using: str, apps: Any = all_apps, **kwargs: Any) -> None:
    """After the migration of an app, add its permissions to the groups."""
    wanted = {
        group: {name.partition(".")[2] for name in permissions if name.startswith(f"{app_config.label}.")}
        for group, permissions in GROUPS.items()
    }
    if not any(wanted.values()) or not _groups_exist(apps):
        return
    # Django creates them on the same signal, perhaps later.
    create_permissions(app_config, verbosity=0, using=using, apps=apps)
    rows = apps.get_model("auth", "Permission").objects.using(using).filter(content_type__app_label=app_config.label)
    for name, codenames in wanted.items():
        group, _ = apps.get_model("auth", "Group").objects.using(using).get_or_create(name=name)
        group.permissions.add(*rows.filter(codename__in=codenames))


def _groups_exist(apps: Any) -> bool:
    """False after a backward migration of Django's users and groups."""
    try:
        apps.get_model("auth", "Group")
    except LookupError:
        return False
    return True
