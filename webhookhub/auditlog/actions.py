"""The recorded actions, and the interfaces they come through."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

CONSOLE, API, COMMAND = "console", "api", "command"
VIAS = {CONSOLE: _("console"), API: _("API"), COMMAND: _("command line")}

REQUEUE = "deadletter.requeue"
REQUEUE_MANY = "deadletter.requeue_many"
REQUEUE_MATCHING = "deadletter.requeue_matching"
SEND_NOW = "saga.send_now"
ABANDON = "saga.abandon"
SEND_AGAIN = "saga.send_again"
SUBSCRIBE = "subscription.create"
EDIT = "subscription.edit"
PAUSE = "subscription.pause"
RESUME = "subscription.resume"
ENABLE = "subscription.enable"
VERIFY = "subscription.verify"
TEST = "subscription.test"
ROTATE = "subscription.rotate_secret"
REVEAL = "subscription.reveal_secret"
SET_CERTIFICATE = "subscription.set_client_certificate"
REMOVE_CERTIFICATE = "subscription.remove_client_certificate"
SET_OAUTH2 = "subscription.set_oauth2_client"
REMOVE_OAUTH2 = "subscription.remove_oauth2_client"
REENCRYPT = "subscription.reencrypt"
BACKFILL = "subscription.backfill"
CREATE_ENDPOINT = "endpoint.create"
EDIT_ENDPOINT = "endpoint.edit"
PAUSE_ENDPOINT = "endpoint.pause"
RESUME_ENDPOINT = "endpoint.resume"
DELETE_ENDPOINT = "endpoint.delete"
VOUCH = "endpoint.vouch"
CREATE_CUSTOMER = "customer.create"
EDIT_CUSTOMER = "customer.edit"
DISABLE_CUSTOMER = "customer.disable"
ENABLE_CUSTOMER = "customer.enable"
CREATE_KEY = "apikey.create"
REVOKE_KEY = "apikey.revoke"
DECLARE_EVENT_TYPE = "eventtype.declare"
CHANGE_EVENT_TYPE = "eventtype.change"
DELETE_EVENT_TYPE = "eventtype.delete"
RETRY_STEP = "workflow.retry"
MARK_COMPENSATED = "workflow.mark_compensated"
CLOSE_WORKFLOW = "workflow.close"
LOG_IN = "user.log_in"
LOG_IN_FAILED = "user.log_in_failed"
LINK_IDENTITY = "user.link_identity"
ADD_SECOND_FACTOR = "user.second_factor_add"
REMOVE_SECOND_FACTOR = "user.second_factor_remove"
RESET_SECOND_FACTOR = "user.second_factor_reset"
NEW_RECOVERY_CODES = "user.recovery_codes"
CREATE_USER = "user.create"
CHANGE_USER = "user.change"
CHANGE_PASSWORD = "user.password"  # noqa: S105
DELETE_USER = "user.delete"
CHANGE_RIGHTS = "user.rights"
CREATE_GROUP = "group.create"
CHANGE_GROUP = "group.change"
DELETE_GROUP = "group.delete"
CHANGE_GROUP_RIGHTS = "group.rights"

ACTIONS = {
    REQUEUE: _("requeued a dead letter"),
    REQUEUE_MANY: _("requeued selected dead letters"),
    REQUEUE_MATCHING: _("requeued dead letters by filter"),
    SEND_NOW: _("requested to send waiting deliveries now"),
    ABANDON: _("requested to abandon deliveries"),
    SEND_AGAIN: _("requested to send a delivery again"),
    SUBSCRIBE: _("created a subscription"),
    EDIT: _("edited a subscription"),
    PAUSE: _("paused a subscription"),
    RESUME: _("resumed a subscription"),
    ENABLE: _("enabled a disabled endpoint"),
    VERIFY: _("requested a verification"),
    TEST: _("sent a test event"),
    ROTATE: _("replaced a signing secret"),
    REVEAL: _("viewed a signing secret"),
    SET_CERTIFICATE: _("set a client certificate"),
    REMOVE_CERTIFICATE: _("removed a client certificate"),
    SET_OAUTH2: _("set an OAuth2 client"),
    REMOVE_OAUTH2: _("removed an OAuth2 client"),
    REENCRYPT: _("re-encrypted the stored secrets"),
    BACKFILL: _("delivered past events"),
    CREATE_ENDPOINT: _("created an endpoint"),
    EDIT_ENDPOINT: _("edited an endpoint"),
    PAUSE_ENDPOINT: _("paused an endpoint"),
    RESUME_ENDPOINT: _("resumed an endpoint"),
    DELETE_ENDPOINT: _("deleted an endpoint"),
    VOUCH: _("vouched for an endpoint"),
    CREATE_CUSTOMER: _("created a customer"),
    EDIT_CUSTOMER: _("renamed a customer"),
    DISABLE_CUSTOMER: _("disabled a customer"),
    ENABLE_CUSTOMER: _("enabled a customer"),
    CREATE_KEY: _("created an API key"),
    REVOKE_KEY: _("revoked an API key"),
    DECLARE_EVENT_TYPE: _("declared an event type"),
    CHANGE_EVENT_TYPE: _("changed the declaration of an event type"),
    DELETE_EVENT_TYPE: _("deleted the declaration of an event type"),
    RETRY_STEP: _("redelivered a workflow's event"),
    MARK_COMPENSATED: _("marked a workflow as compensated"),
    CLOSE_WORKFLOW: _("closed a workflow"),
    LOG_IN: _("logged in"),
    LOG_IN_FAILED: _("failed to log in"),
    LINK_IDENTITY: _("linked a user to single sign-on"),
    ADD_SECOND_FACTOR: _("added a second factor"),
    REMOVE_SECOND_FACTOR: _("removed a second factor"),
    RESET_SECOND_FACTOR: _("reset a user's second factors"),
    NEW_RECOVERY_CODES: _("created recovery codes"),
    CREATE_USER: _("created a user"),
    CHANGE_USER: _("changed a user"),
    CHANGE_PASSWORD: _("changed a password"),
    DELETE_USER: _("deleted a user"),
    CHANGE_RIGHTS: _("changed a user's groups or permissions"),
    CREATE_GROUP: _("created a group"),
    CHANGE_GROUP: _("changed a group"),
    DELETE_GROUP: _("deleted a group"),
    CHANGE_GROUP_RIGHTS: _("changed a group's permissions"),
}
