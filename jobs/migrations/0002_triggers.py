"""A job is created for the next attempt of its saga; a result comes from a lease; a finished job changes only by being
marked as settled, once; no job is deleted."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal, Rule

TABLE = "webhook_delivery_jobs"
IDENTITY = ["id", "saga_id", "attempt_no", "attempt_at"]
RESULT = ["status", "lease_until", "response_status", "lease_resets", "retry_after", "duration_ms", "finished_at"]
RESULT_TEXTS = ["error_code", "worker_id", "lease_token", "response_snippet"]
NEXT_ATTEMPT = (
    "SELECT 1 FROM webhook_delivery_sagas saga WHERE saga.id = NEW.saga_id "
    "AND saga.status NOT IN ('Completed', 'DeadLettered') AND saga.attempt_count + 1 = NEW.attempt_no"
)

CREATED = [
    Rule(
        "created",
        "A job is created Pending, as the next attempt of a saga that has not ended: INSERT refused",
        when=f"NEW.status <> 'Pending' OR NEW.settled_at IS NOT NULL OR NOT EXISTS ({NEXT_ATTEMPT})",
    ),
]
CHANGED = [
    Rule(
        "finished",
        "A Completed or Failed job is final, only settled_at may be set: UPDATE refused",
        when="OLD.status IN ('Completed', 'Failed')",
        protects=RESULT_TEXTS,
        protects_values=[*IDENTITY, *RESULT],
    ),
    Rule(
        "settled",
        "A job is settled once, when it is finished: UPDATE refused",
        when="OLD.settled_at IS NOT NULL OR NEW.status NOT IN ('Completed', 'Failed')",
        protects_values=["settled_at"],
    ),
    Rule("identity", "A job keeps its saga and attempt: UPDATE refused", protects_values=IDENTITY),
    Rule(
        "result",
        "A result comes from a lease, has its time, and an error code only if it failed: UPDATE refused",
        when="NEW.status IN ('Completed', 'Failed') AND OLD.status IN ('Pending', 'Leased')",
        unless=[
            "OLD.status = 'Leased' AND NEW.finished_at IS NOT NULL "
            "AND (NEW.status = 'Failed') = (NEW.error_code IS NOT NULL)"
        ],
    ),
]
DELETED = [Rule("deleted", "A job is never deleted: DELETE refused")]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal("trg_job_created", TABLE, "INSERT", CREATED),
                Refusal("trg_job_changed", TABLE, "UPDATE", CHANGED),
                Refusal("trg_job_no_delete", TABLE, "DELETE", DELETED),
            ]
        )
    ]
