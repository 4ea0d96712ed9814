"""Indexes by which dead letters are chosen: by time, by subscription, by error code."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("deadletters", "0003_bulk_requeue")]

    operations = [
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["failed_at"], name="idx_dead_failed"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["subscription", "failed_at"], name="idx_dead_subscription"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["final_error_code", "failed_at"], name="idx_dead_error"),
        ),
    ]
