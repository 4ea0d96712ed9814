"""Requeueing more than one dead letter at a time is a permission of its own."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("deadletters", "0002_triggers")]

    operations = [
        migrations.AlterModelOptions(
            name="deadletter",
            options={
                "permissions": [
                    ("requeue_deadletter", "Can requeue a dead letter"),
                    ("bulk_requeue_deadletter", "Can requeue more than one dead letter at a time"),
                ]
            },
        ),
    ]
