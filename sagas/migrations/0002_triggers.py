"""The state machine of a saga: how it is created, how it changes, and that it is never deleted.

The transitions are those of sagas.transitions; a change of that table needs a migration that creates the trigger again.
"""

from django.db import migrations

from sagas.transitions import IN_PROGRESS, LEGAL, PENDING
from webhookhub.db.triggers import CreateTriggers, Refusal

POLICY = ["max_retry_limit", "base_delay", "retry_delays"]
IDENTITY = ["id", "event_id", "subscription_id", "generation", *POLICY, "created_at"]
COLUMNS = [*IDENTITY, "status", "attempt_count", "next_attempt_at", "final_error_code", "updated_at"]

IS_LEGAL = " OR ".join(f"OLD.status = '{before}' AND NEW.status = '{after}'" for before, after in LEGAL)
RESULTS = f"(OLD.status = '{IN_PROGRESS}' AND NEW.status <> '{IN_PROGRESS}')"
PREVIOUS = (
    "SELECT 1 FROM webhook_delivery_sagas previous WHERE previous.event_id = NEW.event_id "
    "AND previous.subscription_id = NEW.subscription_id AND previous.generation = NEW.generation - 1 "
    "AND previous.status IN ('Completed', 'DeadLettered')"
)


class Migration(migrations.Migration):
    dependencies = [("sagas", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal(
                    "trg_saga_created",
                    "webhook_delivery_sagas",
                    "INSERT",
                    "A saga is created Pending, without attempts, first or after an ended generation: INSERT refused",
                    when=f"NEW.status <> '{PENDING}' OR NEW.attempt_count <> 0 "
                    f"OR (NEW.generation <> 0 AND NOT EXISTS ({PREVIOUS}))",
                ),
                Refusal(
                    "trg_saga_terminal",
                    "webhook_delivery_sagas",
                    "UPDATE",
                    "A Completed or DeadLettered saga is final: UPDATE refused",
                    when="OLD.status IN ('Completed', 'DeadLettered')",
                    protects=COLUMNS,
                ),
                Refusal(
                    "trg_saga_transition",
                    "webhook_delivery_sagas",
                    "UPDATE",
                    "A saga changes its status by a legal transition, and counts each result once: UPDATE refused",
                    when=f"(OLD.status <> NEW.status AND NOT ({IS_LEGAL})) "
                    f"OR NEW.attempt_count <> OLD.attempt_count + {RESULTS}",
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
