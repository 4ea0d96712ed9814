"""The saga of a requeue has the endpoint of the dead one."""

from django.db import migrations

from webhookhub.db.triggers import Insert, ReplaceTriggers, earlier, made_by

first = earlier("deadletters", "0002_triggers")
before = earlier("deadletters", "0003_customers")
REQUEUE = "trg_requeue_saga"
COLUMNS = [*first.NEXT_GENERATION, ("customer_key", "dead.customer_key"), ("endpoint_id", "dead.endpoint_id")]


class Migration(migrations.Migration):
    dependencies = [("deadletters", "0003_customers"), ("sagas", "0005_endpoints")]

    operations = [
        ReplaceTriggers(
            [Insert(REQUEUE, "dead_letter_requeues", "webhook_delivery_sagas", COLUMNS, first.DEAD)],
            [trigger for trigger in made_by(before.Migration) if trigger.name == REQUEUE],
        )
    ]
