"""Only a verification sets `verified`, and another address takes it away."""

from django.db import migrations

from webhookhub.db.triggers import CreateTriggers, Refusal, Reset


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                # First of all, so that the refusal below sees what it has set.
                Reset("trg_sub_other_url", "subscriptions", "callback_url", "verified", "0"),
                Refusal(
                    "trg_sub_born_verified",
                    "subscriptions",
                    "INSERT",
                    "A new subscription is not verified: INSERT refused",
                    when="NEW.verified = 1",
                ),
                Refusal(
                    "trg_sub_verified",
                    "subscriptions",
                    "UPDATE",
                    "Only a verification, recorded in verification_at, sets verified: UPDATE refused",
                    when="OLD.verified = 0 AND NEW.verified = 1",
                    unless_changed=["verification_at"],
                ),
                Refusal(
                    "trg_sub_no_delete",
                    "subscriptions",
                    "DELETE",
                    "A subscription is switched off and never deleted: DELETE refused",
                ),
            ]
        )
    ]
