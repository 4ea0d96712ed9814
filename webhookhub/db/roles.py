"""The database roles and their privileges on each table. The grants, the documentation and the tests use this list.

Everything else is denied. The words are SQL's own; `UPDATE (a, b)` covers these columns only.
A new table goes into HUB, which the console and the auditor may read, and into the roles that work on it; a new process
or program gets a role of its own at the end of ROLES.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

EDIT = "SELECT, INSERT, UPDATE, DELETE"


class Role(NamedTuple):
    """`tables`: table → privileges. The names are the specification's where it has one."""

    name: str
    purpose: str
    tables: Mapping[str, str]


# Everything except the encrypted secrets, which only the worker, the console and the auditor need.
SUBSCRIPTION_COLUMNS = (
    "SELECT (id, customer_key, event_type, callback_url, active, verified, verification_result, verification_at, "
    "signing_scheme, previous_secret_until, description, max_retry_limit, base_delay, retry_delays, rate_limit, "
    "label_filter, disabled_at, customer_disabled_at, certificate_expires_at, created_at, updated_at)"
)

# Without the id: its largest value, once inserted, would leave none for the next row.
EVENT_INSERT = (
    "INSERT (uid, event_type, source, external_id, correlation_id, customer_key, payload, labels, created_at)"
)
# The ingest may create customers on the fly.
CUSTOMER_INSERT = "INSERT (uid, customer_key, name)"
# Without the generation, which is 0: a trigger creates the later ones.
SAGA_COLUMNS = (
    "event_id, subscription_id, customer_key, status, attempt_count, next_attempt_at, max_retry_limit, base_delay, "
    "retry_delays, final_error_code, created_at, updated_at"
)
SAGA_INSERT = f"INSERT ({SAGA_COLUMNS})"
JOB_INSERT = "INSERT (saga_id, attempt_no, status, lease_until, attempt_at)"
DEAD_LETTER_INSERT = (
    "INSERT (saga_id, event_id, subscription_id, customer_key, final_error_code, failed_at, payload_snapshot)"
)
REQUEUE_INSERT = (
    "INSERT (dead_letter_id, requested_by, requested_at, reason, request_token, max_retry_limit, base_delay, "
    "retry_delays)"
)

# What the tracker reads, without the ids: another program may not use them up.
RUN_INSERT = (
    "INSERT (saga_id, saga_type, definition_version, correlation_key, current_step, status, error_message, steps, "
    "anomaly, needs_operator, by_hand, version)"
)
FACT_COLUMNS = (
    "instance_id, step, role, origin, idempotency_key, actor, reason, detail, aggregate_id, occurred_at, recorded_at"
)
DEFINITION_INSERT = "INSERT (name, version, fingerprint, document, first_used_at)"

# Without the progress, which only the orchestrator writes.
REQUEST_INSERT = (
    "INSERT (uid, kind, saga_id, conditions, max_saga_id, requested_by, requested_at, reason, request_token)"
)
HEALTH_INSERT = (
    "INSERT (callback_url, failing_since, last_error_code, disabled_at, disabled_reason, breaker_open_since, stage)"
)
HEALTH_ENDED = "recovered_at, recovered_by, disabled_at, disabled_reason, breaker_open_since, stage, updated_at"

# The hub's own tables, for roles that read everything.
HUB = {
    "events": "SELECT",
    "routing_inbox": "SELECT",
    "customers": "SELECT",
    "event_types": "SELECT",
    "event_type_version": "SELECT",
    "subscriptions": "SELECT",
    "subscription_version": "SELECT",
    "endpoint_rates": "SELECT",
    "endpoint_health": "SELECT",
    "webhook_delivery_sagas": "SELECT",
    "webhook_delivery_jobs": "SELECT",
    "dead_letters": "SELECT",
    "dead_letter_requeues": "SELECT",
    "delivery_requests": "SELECT",
    "hub_processes": "SELECT",
    "stats_counters": "SELECT",
    "stats_periods": "SELECT",
    "stats_workflow_periods": "SELECT",
    "api_keys": "SELECT",
    "saga_instances": "SELECT",
    "saga_facts": "SELECT",
    "workflow_inbox": "SELECT",
    "workflow_touched": "SELECT",
    "workflow_event_types": "SELECT",
    "workflow_definitions": "SELECT",
    "audit_log_entries": "SELECT",
    "log_in_allowances": "SELECT",
    "second_factors": "SELECT",
    "recovery_codes": "SELECT",
    "sso_identities": "SELECT",
}

# For roles that update counters.
COUNTING = {"stats_counters": "SELECT, INSERT, UPDATE"}

# For every loop: check the migrations, register, send heartbeats, unregister.
LOOP = {
    "django_migrations": "SELECT",
    "hub_processes": "SELECT, INSERT (name, kind, host, pid, version, started_at, heartbeat_at), "
    "UPDATE (heartbeat_at), DELETE",
}

ROLES = (
    Role(
        "event_ingest_writer",
        "the API's ingest, and producers that insert events by SQL (a trigger fills the inbox)",
        {
            "events": f"SELECT, {EVENT_INSERT}",
            "customers": f"SELECT, {CUSTOMER_INSERT}",
            "event_types": "SELECT",
            "event_type_version": "SELECT",
            "subscriptions": SUBSCRIPTION_COLUMNS,
        },
    ),
    Role(
        "router_worker",
        "`run_router`: creates the sagas of new events",
        {
            **LOOP,
            **COUNTING,
            "events": "SELECT",
            "routing_inbox": "SELECT, DELETE",
            "subscriptions": SUBSCRIPTION_COLUMNS,
            "subscription_version": "SELECT",
            "webhook_delivery_sagas": f"SELECT, {SAGA_INSERT}",
        },
    ),
    Role(
        "saga_orchestrator",
        "`run_orchestrator`: creates jobs, applies their results, creates dead letters, applies the requests of people",
        {
            **LOOP,
            **COUNTING,
            "stats_periods": "SELECT, INSERT, UPDATE",
            "events": "SELECT",
            "subscriptions": SUBSCRIPTION_COLUMNS,
            "subscription_version": "SELECT",
            "endpoint_rates": "SELECT, INSERT, UPDATE (free_at)",
            "endpoint_health": f"SELECT, {HEALTH_INSERT}, UPDATE (failing_since, last_error_code, {HEALTH_ENDED})",
            "webhook_delivery_sagas": f"SELECT, INSERT ({SAGA_COLUMNS}, generation), "
            "UPDATE (status, attempt_count, next_attempt_at, final_error_code, abandoned_by_id, updated_at)",
            "webhook_delivery_jobs": f"SELECT, {JOB_INSERT}, UPDATE (settled_at)",
            "dead_letters": f"SELECT, {DEAD_LETTER_INSERT}",
            "dead_letter_requeues": f"SELECT, {REQUEUE_INSERT}",
            "delivery_requests": "SELECT, UPDATE (due_at, applied_at, batches, scanned_to, left_from, changed)",
        },
    ),
    Role(
        "worker",
        "`run_worker`: leases jobs, sends them and stores their results",
        {
            **LOOP,
            "events": "SELECT",
            "subscriptions": "SELECT",
            "webhook_delivery_sagas": "SELECT",
            "webhook_delivery_jobs": "SELECT, UPDATE (status, lease_until, lease_token, worker_id, response_status, "
            "error_code, retry_after, duration_ms, response_snippet, finished_at)",
        },
    ),
    Role(
        "lease_cleaner",
        "`run_cleaner`: resets expired leases, removes ended processes, rolls up stats, announces failing endpoints",
        {
            **LOOP,
            **COUNTING,
            "stats_periods": EDIT,  # rolls minutes up into hours and deletes old hours
            "stats_workflow_periods": "SELECT, DELETE",
            # Publishes the hub's own events about endpoints.
            "events": f"SELECT, {EVENT_INSERT}",
            "subscriptions": "SELECT (id, event_type, callback_url)",
            "endpoint_health": "SELECT, UPDATE (announced, updated_at)",
            "webhook_delivery_sagas": "SELECT (id, event_id)",
            "webhook_delivery_jobs": "SELECT, UPDATE (status, lease_until, lease_resets)",
        },
    ),
    Role(
        "dead_letter_operator",
        "requeues dead letters (a trigger creates the new sagas), and requests to send now, abandon or send again",
        {
            **COUNTING,
            "events": "SELECT (id, correlation_id, customer_key, event_type, source)",
            "subscriptions": "SELECT (id, customer_key, active, verified, disabled_at, customer_disabled_at, "
            "max_retry_limit, base_delay, retry_delays)",
            "webhook_delivery_sagas": "SELECT",
            "dead_letters": "SELECT",
            "dead_letter_requeues": f"SELECT, {REQUEUE_INSERT}",
            "delivery_requests": f"SELECT, {REQUEST_INSERT}",
            "audit_log_entries": "SELECT, INSERT",
        },
    ),
    Role(
        "console",
        "the web server (console and API): reads everything, edits subscriptions, API keys and users, requeues dead "
        "letters; its ingest has a role of its own",
        {
            **HUB,
            **COUNTING,
            "django_migrations": "SELECT",
            "api_keys": "SELECT, INSERT, UPDATE",
            "event_types": EDIT,
            "audit_log_entries": "SELECT, INSERT",
            "customers": "SELECT, INSERT, UPDATE",
            "subscriptions": "SELECT, INSERT, UPDATE",
            "endpoint_health": f"SELECT, UPDATE ({HEALTH_ENDED})",
            # The generation: a person may have a Completed delivery delivered again.
            "webhook_delivery_sagas": f"SELECT, INSERT ({SAGA_COLUMNS}, generation)",
            "dead_letter_requeues": f"SELECT, {REQUEUE_INSERT}",
            "delivery_requests": f"SELECT, {REQUEST_INSERT}",
            # Facts of services and operators, and no decisions; run_workflows evaluates them.
            "saga_instances": f"SELECT, {RUN_INSERT}",
            "saga_facts": f"SELECT, INSERT ({FACT_COLUMNS})",
            "workflow_event_types": "SELECT, INSERT",
            "workflow_definitions": f"SELECT, {DEFINITION_INSERT}",
            "log_in_allowances": "SELECT, INSERT, UPDATE",
            "second_factors": EDIT,
            "recovery_codes": EDIT,
            "sso_identities": EDIT,
            "auth_user": EDIT,
            "auth_group": EDIT,
            "auth_user_groups": EDIT,
            "auth_user_user_permissions": EDIT,
            "auth_group_permissions": EDIT,
            "auth_permission": "SELECT",
            "django_content_type": "SELECT",
            "django_session": EDIT,
            "django_admin_log": "SELECT, INSERT, DELETE",  # deleted only together with its user
        },
    ),
    Role(
        "workflow_tracker",
        "`run_workflows`: tracks business workflows by their events and publishes their results",
        {
            **LOOP,
            **COUNTING,
            "stats_workflow_periods": "SELECT, INSERT, UPDATE",
            "events": f"SELECT, {EVENT_INSERT}",
            "webhook_delivery_sagas": "SELECT",
            "saga_instances": f"SELECT, {RUN_INSERT}, "
            "UPDATE (aggregate_id, current_step, status, started_at, completed_at, "
            "error_message, compensation_started_at, deadline, steps, anomaly, needs_operator, by_hand, version, "
            "updated_at)",
            "saga_facts": f"SELECT, INSERT ({FACT_COLUMNS}, event_id, decision_no)",
            "workflow_inbox": "SELECT, INSERT, UPDATE (lease_until), DELETE",
            "workflow_touched": "SELECT, DELETE",
            # No DELETE: an operator ends tracking with `workflows untrack`.
            "workflow_event_types": "SELECT, INSERT, UPDATE (caught_up)",
            "workflow_definitions": f"SELECT, {DEFINITION_INSERT}",
        },
    ),
    Role(
        "auditor",
        "`audit`: reads everything, writes nothing",
        {
            **HUB,
            "django_migrations": "SELECT",
        },
    ),
)
BY_NAME = {role.name: role for role in ROLES}
