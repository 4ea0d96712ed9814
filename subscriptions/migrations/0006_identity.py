"""A subscription keeps its id, to which its deliveries refer; no row uses up the ids of the next ones."""

from django.db import migrations

from webhookhub.db.triggers import IDS_LEFT, Refusal, ReplaceTriggers, Rule, earlier, made_by

before = earlier("subscriptions", "0004_customers")
BEFORE = {trigger.name: trigger for module in (before.before, before) for trigger in made_by(module.Migration)}
CHANGED = [
    *before.CHANGED,
    Rule("identity", "A subscription keeps its id: UPDATE refused", protects_values=["id"]),
]
TRIGGERS = [
    Refusal("trg_sub_changed", "subscriptions", "UPDATE", CHANGED),
    *(
        Refusal(name, BEFORE[name].table, "INSERT", [*BEFORE[name].rules, IDS_LEFT])
        for name in ("trg_sub_created", "trg_rate_created", "trg_customer_created")
    ),
]


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0005_credentials")]

    operations = [ReplaceTriggers(TRIGGERS, [BEFORE[trigger.name] for trigger in TRIGGERS])]
