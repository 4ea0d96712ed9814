"""A subscription keeps its id, to which its deliveries refer."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal, Rule

IDENTITY = [Rule("identity", "A subscription keeps its id: UPDATE refused", protects_values=["id"])]


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0005_credentials")]

    operations = [CreateTriggers([Refusal("trg_sub_identity", "subscriptions", "UPDATE", IDENTITY)])]
