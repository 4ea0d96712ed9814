"""The tables that grow with every event. A migration must not lock one of them for longer than a second."""

GROWING = frozenset(
    {
        "events",
        "routing_inbox",
        "webhook_delivery_sagas",
        "webhook_delivery_jobs",
        "dead_letters",
        "dead_letter_requeues",
        "saga_instances",
        "saga_facts",
        "workflow_inbox",
        "workflow_touched",
        "audit_log_entries",
    }
)
