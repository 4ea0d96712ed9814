"""What a key may be allowed to do."""

from django.utils.translation import gettext_noop as _

EVENTS_WRITE = "events:write"
SUBSCRIPTIONS_WRITE = "subscriptions:write"
READ = "read"
REQUEUE = "deadletters:requeue"
SAGAS_WRITE = "sagas:write"
SAGAS_OPERATE = "sagas:operate"

SCOPES = {
    EVENTS_WRITE: _("send events"),
    SUBSCRIPTIONS_WRITE: _("make, change, verify and backfill subscriptions; only for a key of the whole hub"),
    READ: _("look at events, deliveries, dead letters, subscriptions and workflows"),
    REQUEUE: _("have dead letters delivered anew"),
    SAGAS_WRITE: _("tell how far a workflow is, instead of sending an event"),
    SAGAS_OPERATE: _("step into a workflow as an operator; only for a key of the whole hub"),
}
# What concerns the whole hub is not for a key that is bound to one producer.
HUB_WIDE = (SUBSCRIPTIONS_WRITE, SAGAS_OPERATE)
