"""What a key may be allowed to do."""

EVENTS_WRITE = "events:write"
SUBSCRIPTIONS_WRITE = "subscriptions:write"
READ = "read"
REQUEUE = "deadletters:requeue"

SCOPES = {
    EVENTS_WRITE: "send events",
    SUBSCRIPTIONS_WRITE: "make, change, verify and backfill subscriptions; only for a key of the whole hub",
    READ: "look at events, deliveries, dead letters and subscriptions",
    REQUEUE: "have dead letters delivered anew",
}
