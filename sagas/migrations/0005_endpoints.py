"""A saga names the endpoint of its subscription. An event is delivered to an endpoint once.

Sagas from before, and those of a router from before, name none: they are once per subscription.
"""

from dataclasses import replace

import django.db.models.deletion
from django.db import migrations, models

from sagas import conditions
from webhookhub.db.triggers import Refusal, ReplaceTriggers, WithTriggersAside, earlier, made_by

first = earlier("sagas", "0002_triggers")
before = earlier("sagas", "0004_quicker_rules")


def changed(rules, name, **values):
    assert name in {getattr(rule, "name", "") for rule in rules}
    return [replace(rule, **values) if getattr(rule, "name", "") == name else rule for rule in rules]


CREATED = changed(
    before.CREATED,
    "customer",
    message="A saga goes to a subscription of its customer or of none, and to its endpoint: INSERT refused",
    unless_exists=conditions.SAME_ENDPOINT,
)
CREATED = changed(
    CREATED,
    "generation",
    unless_exists=f"{first.PREVIOUS} AND {conditions.PREVIOUS_ENDPOINT} AND ({first.ENDED})",
)
CHANGED = changed(
    before.CHANGED,
    "identity",
    message="A saga keeps its event, subscription, endpoint, customer, generation and policy: UPDATE refused",
    protects_values=[*first.IDENTITY, "endpoint_id"],
)
TRIGGERS = [
    Refusal("trg_saga_created", first.TABLE, "INSERT", CREATED),
    Refusal("trg_saga_changed", first.TABLE, "UPDATE", CHANGED),
]


class Migration(migrations.Migration):
    dependencies = [("sagas", "0004_quicker_rules"), ("subscriptions", "0008_endpoints")]

    operations = [
        WithTriggersAside(
            [
                migrations.AddField(
                    model_name="saga",
                    name="endpoint",
                    field=models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="sagas",
                        to="subscriptions.endpoint",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="saga",
                    constraint=models.UniqueConstraint(
                        fields=("event", "endpoint", "generation"), name="uniq_saga_event_endpoint"
                    ),
                ),
            ]
        ),
        ReplaceTriggers(TRIGGERS, made_by(before.Migration)),
    ]
