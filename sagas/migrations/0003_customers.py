"""A saga carries the customer of its event, and goes only to a subscription of that customer or of none."""

from django.db import migrations, models

import webhookhub.db.fields
from sagas import conditions
from webhookhub.db.triggers import Refusal, ReplaceTriggers, Required, Rule, WithTriggersAside, earlier, made_by

before = earlier("sagas", "0002_triggers")
CREATED = [
    *before.CREATED,
    Required(["customer_key"]),
    Rule(
        "customer",
        "A saga has the customer of its event, which is that of its subscription if it has one: INSERT refused",
        unless_exists=conditions.SAME_CUSTOMER,
    ),
]
CHANGED = [
    *before.CHANGED,
    Rule("same customer", "A saga keeps its customer: UPDATE refused", protects=["customer_key"]),
]
TRIGGERS = [
    Refusal("trg_saga_created", before.TABLE, "INSERT", CREATED),
    Refusal("trg_saga_changed", before.TABLE, "UPDATE", CHANGED),
]
NAMES = {trigger.name for trigger in TRIGGERS}


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0005_customers"),
        ("sagas", "0002_triggers"),
        ("subscriptions", "0004_customers"),
    ]

    operations = [
        WithTriggersAside(
            [
                migrations.AddField(
                    model_name="saga",
                    name="customer_key",
                    field=webhookhub.db.fields.ExactTextField(
                        blank=True, db_default="", default="", max_length=100, verbose_name="customer"
                    ),
                ),
                migrations.AddIndex(
                    model_name="saga",
                    index=models.Index(fields=["customer_key"], name="idx_saga_customer"),
                ),
            ]
        ),
        ReplaceTriggers(TRIGGERS, [trigger for trigger in made_by(before.Migration) if trigger.name in NAMES]),
    ]
