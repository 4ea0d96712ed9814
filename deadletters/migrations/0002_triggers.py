"""Dead letters and the record of who requeued them are immutable; a saga is DeadLettered only with its dead letter."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal

LETTER = ["id", "saga_id", "event_id", "subscription_id", "final_error_code", "failed_at", "payload_snapshot"]
REQUEUE = ["id", "dead_letter_id", "requested_by", "requested_at", "reason", "request_token"]


def immutable(prefix, table, noun, columns):
    return [
        Refusal(
            f"trg_{prefix}_no_update",
            table,
            "UPDATE",
            f"{noun} is immutable: UPDATE refused",
            protects=columns,
        ),
        Refusal(f"trg_{prefix}_no_delete", table, "DELETE", f"{noun} is immutable: DELETE refused"),
    ]


class Migration(migrations.Migration):
    dependencies = [("deadletters", "0001_initial"), ("sagas", "0002_triggers")]

    operations = [
        CreateTriggers(
            [
                *immutable("dead", "dead_letters", "A dead letter", LETTER),
                *immutable("requeue", "dead_letter_requeues", "The record of a requeue", REQUEUE),
                Refusal(
                    "trg_saga_dead_letter",
                    "webhook_delivery_sagas",
                    "UPDATE",
                    "A saga is DeadLettered only with its dead letter: UPDATE refused",
                    when="NEW.status = 'DeadLettered' AND OLD.status <> 'DeadLettered' "
                    "AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE saga_id = NEW.id)",
                ),
            ]
        )
    ]
