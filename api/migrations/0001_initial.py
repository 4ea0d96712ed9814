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
                (
                    "key_id",
                    webhookhub.db.fields.ExactTextField(
                        editable=False, max_length=16, unique=True, verbose_name="key ID"
                    ),
                ),
                ("secret_sha256", webhookhub.db.fields.ExactTextField(editable=False, max_length=64)),
                ("name", webhookhub.db.fields.ExactTextField(max_length=100, unique=True, verbose_name="name")),
                (
                    "scopes",
                    webhookhub.db.fields.ExactTextField(
                        help_text="What the key may do, separated by spaces.", max_length=200, verbose_name="scopes"
                    ),
                ),
                (
                    "source",
                    webhookhub.db.fields.ExactTextField(
                        blank=True,
                        default="",
                        help_text="The producer that the key is bound to: it sends and reads only events of this source. Empty: no restriction.",
                        max_length=100,
                        verbose_name="source",
                    ),
                ),
                (
                    "events_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="The key's limit. Empty: the hub's default.",
                        null=True,
                        verbose_name="events per second",
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires at")),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True, verbose_name="revoked at")),
                (
                    "last_used_at",
                    models.DateTimeField(blank=True, editable=False, null=True, verbose_name="last used at"),
                ),
                (
                    "created_by",
                    webhookhub.db.fields.ExactTextField(editable=False, max_length=150, verbose_name="created by"),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=webhookhub.db.clock.UtcNow(), editable=False, verbose_name="created at"
                    ),
                ),
                ("spent_until", models.BigIntegerField(db_default=0, default=0, editable=False)),
            ],
            options={
                "verbose_name": "API key",
                "verbose_name_plural": "API keys",
                "db_table": "api_keys",
                "permissions": [("revoke_apikey", "Can revoke an API key")],
            },
        ),
    ]
