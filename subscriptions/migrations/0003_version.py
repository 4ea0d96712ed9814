"""A number that every change of a subscription raises: by it the router knows whether its copy is still true."""

from django.db import migrations, models

from webhookhub.db.triggers import CreateTriggers, Tally


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0002_triggers")]

    operations = [
        migrations.CreateModel(
            name="SubscriptionVersion",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("version", models.BigIntegerField()),
            ],
            options={"db_table": "subscription_version"},
        ),
        CreateTriggers(
            [
                Tally("trg_sub_version_insert", "subscriptions", "INSERT", "subscription_version", "version"),
                Tally("trg_sub_version_update", "subscriptions", "UPDATE", "subscription_version", "version"),
            ]
        ),
    ]
