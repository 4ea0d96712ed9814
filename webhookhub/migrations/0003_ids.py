"""No process uses up the ids of the next ones."""

from django.db import migrations

from webhookhub.db.triggers import IDS_LEFT, CreateTriggers, Refusal


class Migration(migrations.Migration):
    dependencies = [("webhookhub", "0002_process_version")]

    operations = [CreateTriggers([Refusal("trg_process_created", "hub_processes", "INSERT", [IDS_LEFT])])]
