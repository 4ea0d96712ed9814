"""Events are immutable, and each new one lands in the routing inbox."""

from django.db import migrations

from webhookhub.db.triggers import Copy, CreateTriggers, Refusal

COLUMNS = ["id", "uid", "event_type", "source", "external_id", "correlation_id", "payload", "created_at"]


class Migration(migrations.Migration):
    dependencies = [("events", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Copy(
                    "trg_event_inbox",
                    "events",
                    "routing_inbox",
                    [("event_id", "id"), ("event_type", "event_type")],
                ),
                Refusal(
                    "trg_event_no_update",
                    "events",
                    "UPDATE",
                    "An event is immutable: UPDATE refused",
                    protects=COLUMNS,
                ),
                Refusal("trg_event_no_delete", "events", "DELETE", "An event is immutable: DELETE refused"),
            ]
        )
    ]
