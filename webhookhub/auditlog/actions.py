"""The words of the trail: what can be done, and by which way one comes in."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

CONSOLE, API, COMMAND = "console", "api", "command"
VIAS = (CONSOLE, API, COMMAND)

REQUEUE = "deadletter.requeue"
REQUEUE_MANY = "deadletter.requeue_many"
REQUEUE_MATCHING = "deadletter.requeue_matching"
SUBSCRIBE = "subscription.create"
EDIT = "subscription.edit"
PAUSE = "subscription.pause"
RESUME = "subscription.resume"
VERIFY = "subscription.verify"
TEST = "subscription.test"
ROTATE = "subscription.rotate_secret"
REVEAL = "subscription.reveal_secret"
REENCRYPT = "subscription.reencrypt"
BACKFILL = "subscription.backfill"
CREATE_KEY = "apikey.create"
REVOKE_KEY = "apikey.revoke"
RETRY_STEP = "workflow.retry"
MARK_COMPENSATED = "workflow.mark_compensated"
CLOSE_WORKFLOW = "workflow.close"
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
    REQUEUE_MANY: _("requeued chosen dead letters"),
    REQUEUE_MATCHING: _("requeued dead letters that match a filter"),
    SUBSCRIBE: _("made a subscription"),
    EDIT: _("edited a subscription"),
    PAUSE: _("paused a subscription"),
    RESUME: _("resumed a subscription"),
    VERIFY: _("asked for a subscription to be verified"),
    TEST: _("sent a test event"),
    ROTATE: _("replaced a signing secret"),
    REVEAL: _("was shown a signing secret"),
    REENCRYPT: _("had the stored secrets encrypted anew"),
    BACKFILL: _("had past events delivered"),
    CREATE_KEY: _("made an API key"),
    REVOKE_KEY: _("revoked an API key"),
    RETRY_STEP: _("had a workflow's event delivered again"),
    MARK_COMPENSATED: _("marked a workflow as compensated"),
    CLOSE_WORKFLOW: _("closed a workflow"),
    CREATE_USER: _("made a user"),
    CHANGE_USER: _("changed a user"),
    CHANGE_PASSWORD: _("changed a password"),
    DELETE_USER: _("deleted a user"),
    CHANGE_RIGHTS: _("changed a user's groups or permissions"),
    CREATE_GROUP: _("made a group"),
    CHANGE_GROUP: _("changed a group"),
    DELETE_GROUP: _("deleted a group"),
    CHANGE_GROUP_RIGHTS: _("changed a group's permissions"),
}
