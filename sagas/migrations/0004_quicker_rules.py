"""The rules of a saga in an order that reads less, and `updated_at` as a date of the calendar."""

from django.db import migrations

from sagas.transitions import IN_PROGRESS
from webhookhub.db.triggers import Case, Check, OnCalendar, Refusal, ReplaceTriggers, Required, Rule, earlier, made_by

first = earlier("sagas", "0002_triggers")
before = earlier("sagas", "0003_customers")
RULES = {rule.name: rule for rule in [*first.CREATED, *first.CHANGED] if isinstance(rule, Rule)}

# Two look-ups by key are quicker than one that joins both tables.
EVENT = Rule(
    "event",
    "A saga delivers a stored event and has its customer: INSERT refused",
    unless_exists="SELECT 1 FROM events WHERE events.id = NEW.event_id AND events.customer_key = NEW.customer_key",
    locks=True,
)
CUSTOMER = Rule(
    "customer",
    "A saga goes to a subscription of its customer or of none: INSERT refused",
    unless_exists="SELECT 1 FROM subscriptions u WHERE u.id = NEW.subscription_id "
    "AND u.customer_key IN ('', NEW.customer_key)",
)
CREATED = [
    Required([*first.STATE, *first.IDENTITY[1:], "customer_key"]),
    OnCalendar(["next_attempt_at", "created_at", "updated_at"]),
    RULES["created"],
    EVENT,
    CUSTOMER,
    RULES["generation"],
    *(rule for rule in first.CREATED if isinstance(rule, Check)),
]

COUNTED = "A saga counts each result once, and nothing else: UPDATE refused"
COUNTS = Rule("counts", COUNTED, when="NEW.attempt_count <> OLD.attempt_count + 1")
KEEPS = Rule("keeps", COUNTED, when="NEW.attempt_count <> OLD.attempt_count")
TERMINAL = Rule(
    "terminal",
    "A Completed or DeadLettered saga is final: UPDATE refused",
    when="OLD.status IN ('Completed', 'DeadLettered')",
    protects=["final_error_code"],
    protects_values=["next_attempt_at", "updated_at", "abandoned_by_id"],
)
SAME_STATUS = Case("OLD.status = NEW.status", [KEEPS, TERMINAL])
TRANSITIONS = [
    Case(
        f"OLD.status = '{status}' AND NEW.status = '{after}'",
        [COUNTS if status == IN_PROGRESS else KEEPS, *rules],
    )
    for (status, after), rules in first.NEEDS.items()
]
CHANGED = [
    Required(first.STATE),
    OnCalendar(["next_attempt_at", "updated_at"]),
    Rule(
        "identity",
        "A saga keeps its event, subscription, customer, generation and policy: UPDATE refused",
        protects=["retry_delays", "customer_key"],
        protects_values=first.IDENTITY,
    ),
    RULES["abandoned by"],
    Rule(
        "transition",
        "A saga changes its status only by a legal transition: UPDATE refused",
        cases=[SAME_STATUS, *TRANSITIONS],
    ),
    *(rule for rule in first.CHANGED if isinstance(rule, Check)),
]
TRIGGERS = [
    Refusal("trg_saga_created", first.TABLE, "INSERT", CREATED),
    Refusal("trg_saga_changed", first.TABLE, "UPDATE", CHANGED),
]


class Migration(migrations.Migration):
    dependencies = [("sagas", "0003_customers")]

    operations = [ReplaceTriggers(TRIGGERS, made_by(before.Migration))]
