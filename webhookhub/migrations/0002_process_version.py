"""Processes record their version, so that an upgrade can tell whether one of the version before still runs."""

from django.db import migrations

import webhookhub.db.fields


class Migration(migrations.Migration):
    dependencies = [("webhookhub", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="process",
            name="version",
            field=webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=30, verbose_name="version"),
        ),
    ]
