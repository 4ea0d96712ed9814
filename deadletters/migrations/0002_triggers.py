"""Dead letters and the record of who requeued them are immutable; a dead letter belongs to a saga that ends with it.

A record of a requeue creates the next generation of its dead letter's saga.
"""

from django.db import migrations

from sagas.conditions import ending_saga
from webhookhub.db import vendors
from webhookhub.db.triggers import (
    Check,
    Copied,
    CreateTriggers,
    Insert,
    NotBlank,
    RealTimes,
    Refusal,
    Required,
    Rule,
    schedule_checks,
)

LETTER = ["id", "saga_id", "event_id", "subscription_id", "final_error_code", "failed_at", "payload_snapshot"]
REQUEUE = ["id", "dead_letter_id", "requested_by", "requested_at", "reason", "request_token", "max_retry_limit"]
REQUEUE += ["base_delay", "retry_delays"]
# The saga of a new record's dead letter, once it has ended.
DEAD = (
    "FROM webhook_delivery_sagas dead WHERE dead.status = 'DeadLettered' "
    "AND dead.id = (SELECT saga_id FROM dead_letters WHERE id = NEW.dead_letter_id)"
)
NEXT_GENERATION = (
    ("event_id", "dead.event_id"),
    ("subscription_id", "dead.subscription_id"),
    ("generation", "dead.generation + 1"),
    ("status", "'Pending'"),
    ("attempt_count", "0"),
    ("next_attempt_at", "NEW.requested_at"),
    ("max_retry_limit", "NEW.max_retry_limit"),
    ("base_delay", "NEW.base_delay"),
    ("retry_delays", "NEW.retry_delays"),
    ("created_at", "NEW.requested_at"),
    ("updated_at", "NEW.requested_at"),
)
CREATED = [
    Required(LETTER[1:]),
    Rule(
        "created",
        "A dead letter needs a saga of its event whose last attempt has failed or that is abandoned: INSERT refused",
        unless_exists=ending_saga("NEW"),
        locks=True,
    ),
    Copied(
        "payload_snapshot",
        table="events",
        source="payload",
        key="event_id",
        message="A dead letter has the payload of its event: INSERT refused",
    ),
    Check("chk_dead_payload", ["payload_snapshot"], vendors.is_json_sql),
    Check("chk_dead_failed_at", ["failed_at"], vendors.is_time_sql),
]
REQUEUED = [
    Required([column for column in REQUEUE[1:] if column != "retry_delays"]),
    RealTimes(["requested_at"]),
    Rule(
        "requeued",
        "A requeue needs a dead letter whose saga is DeadLettered: INSERT refused",
        unless_exists=f"SELECT 1 {DEAD}",
        locks=True,
    ),
    NotBlank(
        ["requested_by", "reason", "request_token"],
        "A requeue has the name of its author, a reason and a token: INSERT refused",
    ),
    Rule("limit", "A requeued saga has at least one attempt: INSERT refused", when="NEW.max_retry_limit < 1"),
    *schedule_checks("requeue"),
]


def immutable(prefix, table, noun, columns):
    return [
        Refusal(
            f"trg_{prefix}_no_update",
            table,
            "UPDATE",
            [Rule("immutable", f"{noun} is immutable: UPDATE refused", protects=columns)],
        ),
        Refusal(f"trg_{prefix}_no_delete", table, "DELETE", [Rule("deleted", f"{noun} is immutable: DELETE refused")]),
    ]


class Migration(migrations.Migration):
    dependencies = [("deadletters", "0001_initial"), ("sagas", "0002_triggers")]

    operations = [
        CreateTriggers(
            [
                Refusal("trg_dead_created", "dead_letters", "INSERT", CREATED),
                *immutable("dead", "dead_letters", "A dead letter", LETTER),
                *immutable("requeue", "dead_letter_requeues", "The record of a requeue", REQUEUE),
                Refusal("trg_requeue_created", "dead_letter_requeues", "INSERT", REQUEUED),
                Insert(
                    "trg_requeue_saga",
                    "dead_letter_requeues",
                    "webhook_delivery_sagas",
                    NEXT_GENERATION,
                    DEAD,
                ),
            ]
        )
    ]
