"""The words of the trail: what can be done, and by which way one comes in."""

from __future__ import annotations

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
    REQUEUE: "requeued a dead letter",
    REQUEUE_MANY: "requeued chosen dead letters",
    REQUEUE_MATCHING: "requeued dead letters that match a filter",
    SUBSCRIBE: "made a subscription",
    EDIT: "edited a subscription",
    PAUSE: "paused a subscription",
    RESUME: "resumed a subscription",
    VERIFY: "had a subscription verified",
    TEST: "sent a test event",
    ROTATE: "replaced a signing secret",
    REVEAL: "was shown a signing secret",
    REENCRYPT: "had the stored secrets encrypted anew",
    BACKFILL: "had past events delivered",
    CREATE_KEY: "made an API key",
    REVOKE_KEY: "revoked an API key",
    RETRY_STEP: "had a workflow's event delivered again",
    MARK_COMPENSATED: "marked a workflow as compensated",
    CLOSE_WORKFLOW: "closed a workflow",
    CREATE_USER: "made a user",
    CHANGE_USER: "changed a user",
    CHANGE_PASSWORD: "changed a password",
    DELETE_USER: "deleted a user",
    CHANGE_RIGHTS: "changed a user's groups or permissions",
    CREATE_GROUP: "made a group",
    CHANGE_GROUP: "changed a group",
    DELETE_GROUP: "deleted a group",
    CHANGE_GROUP_RIGHTS: "changed a group's permissions",
}
