"""An index by which the deliveries of one subscription are listed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sagas", "0002_triggers")]

    operations = [
        migrations.AddIndex(
            model_name="saga",
            index=models.Index(fields=["subscription"], name="idx_saga_subscription"),
        ),
    ]
