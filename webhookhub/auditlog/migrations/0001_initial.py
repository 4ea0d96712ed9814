from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow(), verbose_name="when")),
                ("actor", webhookhub.db.fields.ExactTextField(max_length=150, verbose_name="who")),
                ("via", webhookhub.db.fields.WordField(words=["console", "api", "command"])),
                ("action", webhookhub.db.fields.ExactTextField(max_length=50)),
                ("object_type", webhookhub.db.fields.ExactTextField(max_length=30)),
                ("object_id", models.BigIntegerField(blank=True, null=True, verbose_name="object ID")),
                ("object_name", webhookhub.db.fields.ExactTextField(max_length=300)),
                (
                    "reason",
                    webhookhub.db.fields.ExactTextField(blank=True, default="", max_length=500, verbose_name="why"),
                ),
                ("details", webhookhub.db.fields.JSONTextField()),
            ],
            options={
                "verbose_name": "audit log entry",
                "verbose_name_plural": "audit log entries",
                "db_table": "audit_log_entries",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["object_type", "object_id"], name="idx_audit_object"),
                    models.Index(fields=["actor"], name="idx_audit_actor"),
                    models.Index(fields=["action"], name="idx_audit_action"),
                ],
            },
        ),
    ]
