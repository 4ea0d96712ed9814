"""Only a verification sets `verified`, and a changed URL clears it; every change raises the version.

A disabled endpoint disables its subscriptions."""

from django.db import migrations

from webhookhub.db.triggers import (
    Check,
    CreateTriggers,
    Mirror,
    RealTimes,
    Refusal,
    Required,
    Reset,
    Rule,
    Tally,
    schedule_checks,
)

# By way of a third value, a subscription could become verified without a verification.
NOT_BOOLEAN = "NEW.verified NOT IN (0, 1) OR NEW.active NOT IN (0, 1)"


def callback_https(connection, callback_url):
    return f"{callback_url} >= 'https://' AND {callback_url} < 'https:/0'"


def limit_positive(connection, max_retry_limit):
    return f"{max_retry_limit} IS NULL OR {max_retry_limit} >= 1"


def rate_positive(connection, rate_limit):
    return f"{rate_limit} IS NULL OR {rate_limit} >= 1"


def one_schedule(connection, retry_delays, max_retry_limit, base_delay):
    return f"{retry_delays} IS NULL OR {max_retry_limit} IS NULL AND {base_delay} IS NULL"


CHECKS = [
    Check("chk_sub_callback_https", ["callback_url"], callback_https),
    Check("chk_sub_limit_positive", ["max_retry_limit"], limit_positive),
    Check("chk_sub_rate_positive", ["rate_limit"], rate_positive),
    Check("chk_sub_one_schedule", ["retry_delays", "max_retry_limit", "base_delay"], one_schedule),
    *schedule_checks("sub"),
]

REQUIRED = Required(
    [
        "event_type",
        "callback_url",
        "active",
        "verified",
        "verification_result",
        "signing_scheme",
        "secret",
        "previous_secret",
        "custom_headers",
        "description",
        "created_at",
        "updated_at",
    ]
)
CREATED = [
    REQUIRED,
    Rule("unverified", "A new subscription is not verified: INSERT refused", when="NEW.verified = 1"),
    Rule(
        "flags",
        "verified and active of a subscription are 0 or 1, nothing else: INSERT refused",
        when=NOT_BOOLEAN,
    ),
    *CHECKS,
]
CHANGED = [
    REQUIRED,
    RealTimes(["verification_at"], changed=True),
    Rule(
        "verified",
        "Only a verification, recorded in verification_at, sets verified: UPDATE refused",
        when="OLD.verified = 0 AND NEW.verified = 1",
        unless_changed=["verification_at"],
    ),
    Rule(
        "verified at",
        "A verification has its time: UPDATE refused",
        when="OLD.verified = 0 AND NEW.verified = 1 AND NEW.verification_at IS NULL",
    ),
    Rule(
        "flags",
        "verified and active of a subscription are 0 or 1, nothing else: UPDATE refused",
        when=NOT_BOOLEAN,
    ),
    *CHECKS,
]
RATE = [Required(["callback_url", "free_at"]), RealTimes(["free_at"])]
HEALTH = [
    Required(
        [
            "callback_url",
            "failing_since",
            "last_error_code",
            "recovered_by",
            "disabled_reason",
            "stage",
            "announced",
            "updated_at",
        ]
    ),
    RealTimes(["failing_since"]),
]
# The key, the column that is copied when it changes, and the column that is copied with it.
DISABLED = ("callback_url", "disabled_at", "updated_at")
DELETED = [Rule("deleted", "A subscription is switched off and never deleted: DELETE refused")]


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                # First of all, so that the refusal below sees what it has set.
                Reset("trg_sub_other_url", "subscriptions", "callback_url", "verified", "0"),
                Reset("trg_sub_other_url_enabled", "subscriptions", "callback_url", "disabled_at", "NULL"),
                Refusal("trg_sub_created", "subscriptions", "INSERT", CREATED),
                Refusal("trg_sub_changed", "subscriptions", "UPDATE", CHANGED),
                Refusal("trg_sub_no_delete", "subscriptions", "DELETE", DELETED),
                # The router compares the version with that of its cached subscriptions.
                Tally("trg_sub_version_insert", "subscriptions", "INSERT", "subscription_version", "version"),
                Tally("trg_sub_version_update", "subscriptions", "UPDATE", "subscription_version", "version"),
                Refusal("trg_rate_created", "endpoint_rates", "INSERT", RATE),
                Refusal("trg_rate_changed", "endpoint_rates", "UPDATE", RATE),
                Refusal("trg_health_complete_insert", "endpoint_health", "INSERT", HEALTH),
                Refusal("trg_health_complete_update", "endpoint_health", "UPDATE", HEALTH),
                # No index of sagas or jobs leads to an endpoint, and the orchestrator may not write subscriptions.
                Mirror("trg_health_created", "endpoint_health", "INSERT", "subscriptions", *DISABLED),
                Mirror("trg_health_changed", "endpoint_health", "UPDATE", "subscriptions", *DISABLED),
                Tally("trg_health_version_insert", "endpoint_health", "INSERT", "subscription_version", "health"),
                Tally("trg_health_version_update", "endpoint_health", "UPDATE", "subscription_version", "health"),
            ]
        )
    ]
