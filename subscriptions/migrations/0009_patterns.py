"""A subscription may be to a pattern of event types. The column stays as it is."""

import django.core.validators
from django.db import migrations

import webhookhub.db.fields


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0008_endpoints")]

    operations = [
        migrations.AlterField(
            model_name="subscription",
            name="event_type",
            field=webhookhub.db.fields.ExactTextField(
                help_text="One event type, order.* for all that begin with “order.”, or * for all.",
                max_length=100,
                validators=[
                    django.core.validators.RegexValidator(
                        "\\A(?:\\*|[A-Za-z0-9_.-]{1,98}\\.\\*|[A-Za-z0-9_.-]{1,100})\\Z",
                        "An event type has 1 to 100 letters, digits, dots, dashes and underscores. "
                        "At the end, .* stands for any rest.",
                    )
                ],
                verbose_name="event type",
            ),
        ),
    ]
