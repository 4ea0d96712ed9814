"""A subscription may have a filter on the labels of events."""

from django.db import migrations

import subscriptions.fields


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0002_triggers")]

    operations = [
        migrations.AddField(
            model_name="subscription",
            name="label_filter",
            field=subscriptions.fields.LabelFilterField(
                blank=True,
                help_text="Only events whose labels meet all of these conditions, as JSON: "
                '[{"label": "region", "one_of": ["eu", "us"]}, {"not": {"label": "test", "exists": true}}]. '
                "Conditions: equals, one_of, prefix, exists, not. Empty: all events of the type.",
                null=True,
                verbose_name="label filter",
            ),
        ),
    ]
