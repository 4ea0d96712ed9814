"""The rules of a job in an order that reads less."""

from django.db import migrations

from jobs.states import FINISHED
from webhookhub.db import vendors
from webhookhub.db.triggers import Refusal, ReplaceTriggers, Rule, earlier, made_by

before = earlier("jobs", "0002_triggers")
REPLACED = {
    # A finished job that gets another status breaks the rule of transitions.
    "finished": Rule(
        "finished",
        "A Completed or Failed job is final, only settled_at may be set: UPDATE refused",
        when=f"OLD.status = NEW.status AND OLD.status IN ({vendors.quoted(FINISHED)})",
        protects=before.RESULT_TEXTS,
        protects_values=[column for column in before.RESULT if column != "status"],
    ),
    "settled": Rule(
        "settled",
        "A job is settled once, when it is finished, when its saga has applied the result: UPDATE refused",
        protects_values=["settled_at"],
        unless_exists=f"{before.APPLIED} AND OLD.settled_at IS NULL AND NEW.status IN ({vendors.quoted(FINISHED)})",
        locks=True,
    ),
}
CHANGED = [
    REPLACED.get(rule.name, rule) if isinstance(rule, Rule) else rule
    for rule in before.CHANGED
    if not (isinstance(rule, Rule) and rule.name == "applied")
]
TRIGGERS = [Refusal("trg_job_changed", before.TABLE, "UPDATE", CHANGED)]
NAMES = {trigger.name for trigger in TRIGGERS}


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_triggers")]

    operations = [
        ReplaceTriggers(TRIGGERS, [trigger for trigger in made_by(before.Migration) if trigger.name in NAMES])
    ]
