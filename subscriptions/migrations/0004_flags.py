"""`verified` and `active` are yes or no: by way of a third value, one could become verified without a verification."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal

NEITHER = "NEW.verified NOT IN (0, 1) OR NEW.active NOT IN (0, 1)"


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0003_version")]

    operations = [
        # A row that has such a value by now could not be changed any more. What was not proved is not verified.
        migrations.RunSQL(
            ["UPDATE subscriptions SET verified = 0 WHERE verified NOT IN (0, 1)"], migrations.RunSQL.noop
        ),
        migrations.RunSQL(["UPDATE subscriptions SET active = 1 WHERE active NOT IN (0, 1)"], migrations.RunSQL.noop),
        CreateTriggers(
            [
                Refusal(
                    "trg_sub_flags_insert",
                    "subscriptions",
                    "INSERT",
                    "verified and active of a subscription are 0 or 1, nothing else: INSERT refused",
                    when=NEITHER,
                ),
                Refusal(
                    "trg_sub_flags_update",
                    "subscriptions",
                    "UPDATE",
                    "verified and active of a subscription are 0 or 1, nothing else: UPDATE refused",
                    when=NEITHER,
                ),
            ]
        ),
    ]
