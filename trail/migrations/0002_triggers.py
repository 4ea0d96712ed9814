"""The trail is only ever added to."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal

COLUMNS = ["id", "at", "actor", "via", "action", "object_type", "object_id", "object_name", "reason", "details"]


class Migration(migrations.Migration):
    dependencies = [("trail", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal(
                    "trg_trail_no_update",
                    "trail_entries",
                    "UPDATE",
                    "The audit trail is only added to: UPDATE refused",
                    protects=COLUMNS,
                ),
                Refusal(
                    "trg_trail_no_delete",
                    "trail_entries",
                    "DELETE",
                    "The audit trail is only added to: DELETE refused",
                ),
            ]
        )
    ]
