"""An API key may be bound to a customer."""

from django.db import migrations

import webhookhub.db.fields


class Migration(migrations.Migration):
    dependencies = [("api", "0002_apikey_networks")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="customer_key",
            field=webhookhub.db.fields.ExactTextField(
                blank=True,
                db_default="",
                default="",
                help_text="The customer that the key is bound to: it sees and manages only what belongs to this "
                "customer. Empty: no restriction.",
                max_length=100,
                verbose_name="customer",
            ),
        ),
    ]
