"""A finished saga never changes, no saga changes what it is about, and none is deleted."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal

IDENTITY = ["id", "event_id", "subscription_id", "generation", "max_retry_limit", "base_delay", "created_at"]
COLUMNS = [*IDENTITY, "status", "attempt_count", "next_attempt_at", "final_error_code", "updated_at"]


class Migration(migrations.Migration):
    dependencies = [("sagas", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal(
                    "trg_saga_terminal",
                    "webhook_delivery_sagas",
                    "UPDATE",
                    "A Completed or DeadLettered saga is final: UPDATE refused",
                    when="OLD.status IN ('Completed', 'DeadLettered')",
                    protects=COLUMNS,
                ),
                Refusal(
                    "trg_saga_identity",
                    "webhook_delivery_sagas",
                    "UPDATE",
                    "A saga keeps its event, subscription, generation and policy: UPDATE refused",
                    protects=IDENTITY,
                ),
                Refusal(
                    "trg_saga_no_delete",
                    "webhook_delivery_sagas",
                    "DELETE",
                    "A saga is never deleted: DELETE refused",
                ),
            ]
        )
    ]
