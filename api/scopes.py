"""The scopes of API keys."""

from django.utils.translation import gettext_noop as _

EVENTS_WRITE = "events:write"
SUBSCRIPTIONS_WRITE = "subscriptions:write"
CUSTOMERS_WRITE = "customers:write"
EVENT_TYPES_WRITE = "event-types:write"
ENDPOINTS_VOUCH = "endpoints:vouch"
READ = "read"
REQUEUE = "deadletters:requeue"
DELIVERIES_SEND = "deliveries:send"
DELIVERIES_ABANDON = "deliveries:abandon"
SAGAS_WRITE = "sagas:write"
SAGAS_OPERATE = "sagas:operate"

SCOPES = {
    EVENTS_WRITE: _("send events"),
    SUBSCRIPTIONS_WRITE: _("create, change, verify and backfill subscriptions; only for a key without a source"),
    ENDPOINTS_VOUCH: _("vouch for endpoints; only for a key without a source and a customer"),
    CUSTOMERS_WRITE: _("create, rename and disable customers; only for a key without a source and a customer"),
    EVENT_TYPES_WRITE: _("declare and delete event types; only for a key without a source"),
    READ: _("read events, deliveries, dead letters, subscriptions and workflows"),
    REQUEUE: _("requeue dead letters"),
    DELIVERIES_SEND: _("send waiting deliveries now, and ended ones again"),
    DELIVERIES_ABANDON: _("abandon deliveries"),
    SAGAS_WRITE: _("report the progress of a workflow without sending an event"),
    SAGAS_OPERATE: _("act on a workflow as an operator; only for a key without a source"),
}
# Not for a key that is bound to a source.
HUB_WIDE = (SUBSCRIPTIONS_WRITE, ENDPOINTS_VOUCH, CUSTOMERS_WRITE, EVENT_TYPES_WRITE, SAGAS_OPERATE)
# Not for a key that is bound to a customer: a workflow may run over the events of several customers.
NOT_OF_CUSTOMER = (CUSTOMERS_WRITE, ENDPOINTS_VOUCH, EVENT_TYPES_WRITE, SAGAS_WRITE, SAGAS_OPERATE)
