"""A result comes from a lease and is whole."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_triggers")]

    operations = [
        CreateTriggers(
            [
                Refusal(
                    "trg_job_result",
                    "webhook_delivery_jobs",
                    "UPDATE",
                    "A result comes from a lease, has its time, and an error code only if it failed: UPDATE refused",
                    when="OLD.status IN ('Pending', 'Leased') AND NEW.status IN ('Completed', 'Failed') AND ("
                    "OLD.status = 'Pending' OR NEW.finished_at IS NULL "
                    "OR (NEW.status = 'Failed' AND NEW.error_code IS NULL) "
                    "OR (NEW.status = 'Completed' AND NEW.error_code IS NOT NULL))",
                ),
            ]
        )
    ]
