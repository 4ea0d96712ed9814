"""An event may belong to a customer; the routing inbox carries the customer's key."""

from dataclasses import replace

from django.db import migrations, models

import webhookhub.db.fields
from webhookhub.db.triggers import Copy, Refusal, ReplaceTriggers, Required, Rule, WithTriggersAside, earlier, made_by

before = earlier("events", "0002_triggers")
COLUMNS = [*before.COLUMNS, "customer_key"]
CORRELATION = replace(before.CORRELATION, rules=[*before.CORRELATION.rules, Required(["customer_key"])])
TRIGGERS = [
    CORRELATION,
    Copy(
        "trg_event_inbox",
        "events",
        "routing_inbox",
        [("event_id", "id"), ("event_type", "event_type"), ("customer_key", "customer_key")],
    ),
    Refusal(
        "trg_event_no_update",
        "events",
        "UPDATE",
        [Rule("immutable", "An event is immutable: UPDATE refused", protects=COLUMNS, allows=CORRELATION)],
    ),
]
NAMES = {trigger.name for trigger in TRIGGERS}


class Migration(migrations.Migration):
    dependencies = [("events", "0002_triggers")]

    operations = [
        WithTriggersAside(
            [
                migrations.AddField(
                    model_name="event",
                    name="customer_key",
                    field=webhookhub.db.fields.ExactTextField(
                        blank=True, db_default="", default="", max_length=100, verbose_name="customer"
                    ),
                ),
                migrations.AddField(
                    model_name="routinginbox",
                    name="customer_key",
                    field=webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=100),
                ),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(fields=["customer_key", "created_at"], name="idx_event_customer"),
                ),
            ]
        ),
        ReplaceTriggers(TRIGGERS, [trigger for trigger in made_by(before.Migration) if trigger.name in NAMES]),
    ]
