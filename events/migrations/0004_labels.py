"""An event may have labels; the routing inbox carries them."""

from dataclasses import replace

from django.db import migrations

import webhookhub.db.fields
from webhookhub.db.triggers import Refusal, ReplaceTriggers, Rule, earlier, made_by

before = earlier("events", "0002_triggers")
COLUMNS = [*before.COLUMNS, "labels"]
BEFORE = {trigger.name: trigger for trigger in made_by(before.Migration)}
INBOX = BEFORE["trg_event_inbox"]
TRIGGERS = [
    replace(INBOX, columns=[*INBOX.columns, ("labels", "labels")]),
    Refusal(
        "trg_event_no_update",
        "events",
        "UPDATE",
        [Rule("immutable", "An event is immutable: UPDATE refused", protects=COLUMNS, allows=before.CORRELATION)],
    ),
]


class Migration(migrations.Migration):
    dependencies = [("events", "0003_event_types")]

    operations = [
        migrations.AddField(
            model_name="event",
            name="labels",
            field=webhookhub.db.fields.JSONTextField(blank=True, null=True, verbose_name="labels"),
        ),
        migrations.AddField(
            model_name="routinginbox",
            name="labels",
            field=webhookhub.db.fields.JSONTextField(null=True),
        ),
        ReplaceTriggers(TRIGGERS, [BEFORE[trigger.name] for trigger in TRIGGERS]),
    ]
