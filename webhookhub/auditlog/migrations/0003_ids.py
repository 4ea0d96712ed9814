"""No entry of the audit log uses up the ids of the next ones."""

from django.db import migrations

from webhookhub.db.triggers import IDS_LEFT, CreateTriggers, Refusal


class Migration(migrations.Migration):
    dependencies = [("auditlog", "0002_triggers")]

    operations = [CreateTriggers([Refusal("trg_trail_created", "audit_log_entries", "INSERT", [IDS_LEFT])])]
