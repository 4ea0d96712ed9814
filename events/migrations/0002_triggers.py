"""A new event is completed and added to the routing inbox; events are immutable."""

from django.db import migrations

from webhookhub.db import vendors
from webhookhub.db.triggers import Check, Copy, CreateTriggers, Fill, Refusal, Required, Rule

COLUMNS = ["id", "uid", "event_type", "source", "external_id", "correlation_id", "payload", "created_at"]
# For events that another program inserts without a correlation id.
CORRELATION = Fill(
    "trg_event_correlation",
    "events",
    "correlation_id",
    "uid",
    [
        Required(["uid", "event_type", "source", "payload", "created_at"]),
        Check("chk_event_uid", ["uid"], vendors.is_uid_sql),
        Check("chk_event_correlation_id", ["correlation_id"], vendors.has_no_controls_sql),
        Check("chk_event_payload", ["payload"], vendors.is_json_sql),
        Check("chk_event_created_at", ["created_at"], vendors.is_time_sql),
    ],
)


class Migration(migrations.Migration):
    dependencies = [("events", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                CORRELATION,
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
                    [
                        Rule(
                            "immutable",
                            "An event is immutable: UPDATE refused",
                            protects=COLUMNS,
                            allows=CORRELATION,
                        )
                    ],
                ),
                Refusal(
                    "trg_event_no_delete",
                    "events",
                    "DELETE",
                    [Rule("deleted", "An event is immutable: DELETE refused")],
                ),
            ]
        )
    ]
