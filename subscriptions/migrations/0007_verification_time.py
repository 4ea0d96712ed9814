"""A verified subscription keeps the time of a verification."""

from django.db import migrations

from webhookhub.db.triggers import Refusal, ReplaceTriggers, Rule, earlier, made_by

before = earlier("subscriptions", "0006_identity")
# One without a time is from before this rule, and can still be changed.
VERIFIED_AT = Rule(
    "verified at",
    "A verification has its time: UPDATE refused",
    when="NEW.verified = 1 AND NEW.verification_at IS NULL AND (OLD.verified = 0 OR OLD.verification_at IS NOT NULL)",
)
CHANGED = [VERIFIED_AT if getattr(rule, "name", None) == VERIFIED_AT.name else rule for rule in before.CHANGED]
TRIGGERS = [Refusal("trg_sub_changed", "subscriptions", "UPDATE", CHANGED)]


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0006_identity")]

    operations = [
        ReplaceTriggers(
            TRIGGERS, [trigger for trigger in made_by(before.Migration) if trigger.name == "trg_sub_changed"]
        )
    ]
