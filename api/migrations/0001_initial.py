from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key_id", webhookhub.db.fields.ExactTextField(editable=False, max_length=16, unique=True)),
                ("secret_sha256", webhookhub.db.fields.ExactTextField(editable=False, max_length=64)),
                ("name", webhookhub.db.fields.ExactTextField(max_length=100, unique=True)),
                (
                    "scopes",
                    webhookhub.db.fields.ExactTextField(
                        help_text="What the key may do, separated by spaces.", max_length=200
                    ),
                ),
                (
                    "source",
                    webhookhub.db.fields.ExactTextField(
                        blank=True,
                        default="",
                        help_text="The producer that the key is bound to: it sends and reads only events of this source. Empty: no restriction.",
                        max_length=100,
                    ),
                ),
                (
                    "events_per_second",
                    models.PositiveIntegerField(
                        blank=True, help_text="The key's limit. Empty: the hub's default.", null=True
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_by", webhookhub.db.fields.ExactTextField(editable=False, max_length=150)),
                ("created_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow(), editable=False)),
                ("spent_until", models.BigIntegerField(db_default=0, default=0, editable=False)),
            ],
            options={
                "verbose_name": "API key",
                "db_table": "api_keys",
                "permissions": [("revoke_apikey", "Can revoke an API key")],
            },
        ),
    ]
