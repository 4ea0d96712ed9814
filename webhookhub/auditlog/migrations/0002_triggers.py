"""The audit log is append-only."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal, Rule

COLUMNS = ["id", "at", "actor", "via", "action", "object_type", "object_id", "object_name", "reason", "details"]


class Migration(migrations.Migration):
    dependencies = [("auditlog", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal(
                    "trg_trail_no_update",
                    "audit_log_entries",
                    "UPDATE",
                    [Rule("immutable", "The audit log is only added to: UPDATE refused", protects=COLUMNS)],
                ),
                Refusal(
                    "trg_trail_no_delete",
                    "audit_log_entries",
                    "DELETE",
                    [Rule("deleted", "The audit log is only added to: DELETE refused")],
                ),
            ]
        )
    ]
