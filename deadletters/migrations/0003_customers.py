"""A dead letter carries the customer of its saga, and so does the saga of a requeue."""

from django.db import migrations, models

import webhookhub.db.fields
from webhookhub.db.triggers import (
    Insert,
    Refusal,
    ReplaceTriggers,
    Required,
    Rule,
    WithTriggersAside,
    earlier,
    made_by,
)

before = earlier("deadletters", "0002_triggers")
CREATED = [
    *before.CREATED,
    Required(["customer_key"]),
    Rule(
        "customer",
        "A dead letter has the customer of its saga: INSERT refused",
        unless_exists="SELECT 1 FROM webhook_delivery_sagas saga WHERE saga.id = NEW.saga_id "
        "AND saga.customer_key = NEW.customer_key",
    ),
]
TRIGGERS = [
    Refusal("trg_dead_created", "dead_letters", "INSERT", CREATED),
    *before.immutable("dead", "dead_letters", "A dead letter", [*before.LETTER, "customer_key"]),
    Insert(
        "trg_requeue_saga",
        "dead_letter_requeues",
        "webhook_delivery_sagas",
        [*before.NEXT_GENERATION, ("customer_key", "dead.customer_key")],
        before.DEAD,
    ),
]
NAMES = {trigger.name for trigger in TRIGGERS}


class Migration(migrations.Migration):
    dependencies = [
        ("deadletters", "0002_triggers"),
        ("events", "0005_customers"),
        ("sagas", "0003_customers"),
        ("subscriptions", "0004_customers"),
    ]

    operations = [
        WithTriggersAside(
            [
                migrations.AddField(
                    model_name="deadletter",
                    name="customer_key",
                    field=webhookhub.db.fields.ExactTextField(
                        blank=True, db_default="", default="", max_length=100, verbose_name="customer"
                    ),
                ),
                migrations.AddIndex(
                    model_name="deadletter",
                    index=models.Index(fields=["customer_key", "failed_at"], name="idx_dead_customer"),
                ),
            ]
        ),
        ReplaceTriggers(TRIGGERS, [trigger for trigger in made_by(before.Migration) if trigger.name in NAMES]),
    ]
