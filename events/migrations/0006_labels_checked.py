"""The labels of an event are a JSON object, also in the event of a program that inserts it by SQL."""

from dataclasses import replace

from django.db import migrations

from webhookhub.db.triggers import OnServers, ReplaceTriggers, Rule, earlier

before = earlier("events", "0005_customers")
LABELS = Rule(
    "labels",
    "The labels of an event are a JSON object: INSERT refused",
    when="NEW.labels IS NOT NULL",
    unless=["JSON_VALID(NEW.labels) AND JSON_TYPE(NEW.labels) = 'OBJECT'"],
)
CORRELATION = replace(before.CORRELATION, rules=[*before.CORRELATION.rules, OnServers(LABELS)])


class Migration(migrations.Migration):
    dependencies = [("events", "0005_customers")]

    operations = [ReplaceTriggers([CORRELATION], [before.CORRELATION])]
