"""An event may belong to a customer; the routing inbox carries the customer's key."""

from dataclasses import replace

from django.db import migrations, models

import webhookhub.db.fields
from webhookhub.db.triggers import Refusal, ReplaceTriggers, Required, Rule, WithTriggersAside, earlier

first = earlier("events", "0002_triggers")
before = earlier("events", "0004_labels")
COLUMNS = [*before.COLUMNS, "customer_key"]
CORRELATION = replace(first.CORRELATION, rules=[*first.CORRELATION.rules, Required(["customer_key"])])
INBOX = before.TRIGGERS[0]
TRIGGERS = [
    CORRELATION,
    replace(INBOX, columns=[*INBOX.columns, ("customer_key", "customer_key")]),
    Refusal(
        "trg_event_no_update",
        "events",
        "UPDATE",
        [Rule("immutable", "An event is immutable: UPDATE refused", protects=COLUMNS, allows=CORRELATION)],
    ),
]
BEFORE = [first.CORRELATION, *before.TRIGGERS]


class Migration(migrations.Migration):
    dependencies = [("events", "0004_labels")]

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
        ReplaceTriggers(TRIGGERS, BEFORE),
    ]
