from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Process",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", webhookhub.db.fields.ExactTextField(max_length=150, unique=True, verbose_name="name")),
                ("kind", webhookhub.db.fields.ExactTextField(max_length=30, verbose_name="kind")),
                ("host", webhookhub.db.fields.ExactTextField(max_length=100, verbose_name="host")),
                ("pid", models.PositiveIntegerField(verbose_name="pid")),
                (
                    "started_at",
                    models.DateTimeField(db_default=webhookhub.db.clock.UtcNow(), verbose_name="started at"),
                ),
                (
                    "heartbeat_at",
                    models.DateTimeField(db_default=webhookhub.db.clock.UtcNow(), verbose_name="heartbeat at"),
                ),
            ],
            options={
                "verbose_name": "process",
                "verbose_name_plural": "processes",
                "db_table": "hub_processes",
            },
        ),
    ]
