"""The declaration matches the specification's permission sections, which are written out here by hand.

(With test_matrix.py, which shows that the server's grants are the declaration: what the specification denies, the
server denies.)
"""

from __future__ import annotations

import pytest

from webhookhub.db.roles import BY_NAME

from .declaration import columns

# The specification's permission sections. (role, privilege, table): the tables of the spec by its own names.
EVENTS, SUBSCRIPTIONS, SAGAS, JOBS, LETTERS = (
    "events",
    "subscriptions",
    "webhook_delivery_sagas",
    "webhook_delivery_jobs",
    "dead_letters",
)
SPECIFIED = (EVENTS, SUBSCRIPTIONS, SAGAS, JOBS, LETTERS)
# "Create a saga from a dead letter, through the service only": a trigger on this table creates it.
REQUEUES = "dead_letter_requeues"
WRITES = ("INSERT", "UPDATE", "DELETE")

ALLOW = {
    "event_ingest_writer": {("INSERT", EVENTS), ("SELECT", EVENTS), ("SELECT", SUBSCRIPTIONS)},
    "router_worker": {("SELECT", EVENTS), ("SELECT", SUBSCRIPTIONS), ("INSERT", SAGAS)},
    "saga_orchestrator": {
        ("SELECT", SAGAS),
        ("INSERT", SAGAS),
        ("UPDATE", SAGAS),
        ("INSERT", JOBS),
        ("UPDATE", JOBS),
        ("SELECT", EVENTS),
        ("SELECT", SUBSCRIPTIONS),
    },
    "worker": {
        ("SELECT", JOBS),
        ("UPDATE", JOBS),
        ("SELECT", EVENTS),
        ("SELECT", SUBSCRIPTIONS),
        ("SELECT", SAGAS),
    },
    "dead_letter_operator": {("SELECT", LETTERS), ("INSERT", REQUEUES)},
}
DENY = {
    "event_ingest_writer": {
        ("UPDATE", EVENTS),
        ("DELETE", EVENTS),
        *((word, table) for word in WRITES for table in (SAGAS, JOBS, LETTERS)),
    },
    # "Create jobs; change saga status."
    "router_worker": {("INSERT", JOBS), ("UPDATE", SAGAS)},
    "saga_orchestrator": {
        ("DELETE", SAGAS),
        *((word, table) for word in WRITES for table in (EVENTS, SUBSCRIPTIONS)),
    },
    "worker": {
        # r02: "INSERT saga, DELETE saga, write to dead_letters"; r04: "workers must never update saga records" either.
        *((word, SAGAS) for word in WRITES),
        *((word, LETTERS) for word in WRITES),
        # r02 2.3: "create new jobs"
        ("INSERT", JOBS),
    },
    "dead_letter_operator": {
        *((word, SAGAS) for word in WRITES),
        ("UPDATE", EVENTS),
        ("UPDATE", SUBSCRIPTIONS),
    },
}
# Needed beyond the specification, with the reasons.
BESIDES = {
    # The engine dead-letters through the deadletters module, and reads the results that it settles.
    "saga_orchestrator": {("INSERT", LETTERS), ("SELECT", LETTERS), ("SELECT", JOBS)},
    # To log and return the saga.
    "router_worker": {("SELECT", SAGAS)},
    "dead_letter_operator": {("SELECT", SAGAS), ("SELECT", EVENTS), ("SELECT", SUBSCRIPTIONS)},
}


@pytest.mark.requirement("R3-1.3b", "R3-3.4a", "R3-3.4b")
@pytest.mark.requirement("R4-8.1b")
@pytest.mark.parametrize("role", sorted(ALLOW))
def test_the_declaration_grants_nothing_that_the_specification_does_not_allow(role: str):
    beyond = {
        (word, table)
        for table in SPECIFIED
        for word in ("SELECT", *WRITES)
        if columns(role, word, table) and (word, table) not in ALLOW[role] | BESIDES.get(role, set())
    }

    assert beyond == set()


@pytest.mark.requirement("R1-4.1e", "R1-4.2b", "R1-4.2c")
@pytest.mark.requirement("R2-2.3f", "R2-2.3g", "R2-2.3h", "R2-2.3j", "R2-4.1c", "R2-4.1d", "R2-4.1e", "R2-4.2f")
@pytest.mark.requirement("R2-4.3b", "R2-4.3c", "R2-4.3d", "R2-4.3e")
@pytest.mark.requirement("R3-3.4c", "R3-3.4d", "R3-4.1c", "R3-4.1d", "R3-4.2c", "R3-4.2d")
@pytest.mark.requirement("R4-8.1a", "R4-8.1c")
@pytest.mark.parametrize("role", sorted(ALLOW))
def test_the_declaration_denies_what_the_specification_denies(role: str):
    assert not DENY[role] & (ALLOW[role] | BESIDES.get(role, set()))
    assert {(word, table) for word, table in DENY[role] if columns(role, word, table)} == set()


@pytest.mark.requirement("R1-9a", "R1-9b", "R1-9c")
@pytest.mark.requirement("R2-4.1a", "R2-4.1b", "R2-4.2c", "R2-4.3a")
@pytest.mark.requirement("R3-4.1a", "R3-4.1b", "R3-4.2a", "R3-4.2b")
@pytest.mark.parametrize("role", sorted(ALLOW))
def test_the_declaration_grants_what_the_specification_allows(role: str):
    assert {(word, table) for word, table in ALLOW[role] if not columns(role, word, table)} == set()


# Every role that may write a table of the specification, and the records of requeues; all other writes are denied.
WRITERS = {
    ("INSERT", EVENTS): {"event_ingest_writer", "workflow_tracker", "lease_cleaner"},
    ("INSERT", SUBSCRIPTIONS): {"console"},
    ("UPDATE", SUBSCRIPTIONS): {"console"},
    # The console delivers past events, and events of workflows again.
    ("INSERT", SAGAS): {"router_worker", "saga_orchestrator", "console"},
    ("UPDATE", SAGAS): {"saga_orchestrator"},
    ("INSERT", JOBS): {"saga_orchestrator"},
    ("UPDATE", JOBS): {"saga_orchestrator", "worker", "lease_cleaner"},
    ("INSERT", LETTERS): {"saga_orchestrator"},
    # The orchestrator, for a person who sends a dead letter again.
    ("INSERT", REQUEUES): {"dead_letter_operator", "console", "saga_orchestrator"},
}


@pytest.mark.requirement("R1-1b", "R1-4.2d", "R1-9d")
@pytest.mark.requirement("R2-2.3j", "R2-4.2c")
@pytest.mark.requirement("R4-4.2d", "R4-8.1a")
def test_of_all_roles_only_these_write_the_tables_of_the_specification():
    writers = {
        (word, table): roles
        for word in WRITES
        for table in (*SPECIFIED, REQUEUES)
        if (roles := {role for role in BY_NAME if columns(role, word, table)})
    }

    assert writers == WRITERS
    assert columns("saga_orchestrator", "UPDATE", JOBS) == {"settled_at"}


def test_no_role_chooses_the_id_of_a_row_of_the_specification():
    """The largest one would leave none for the next row."""
    for role in BY_NAME:
        for table in (EVENTS, SAGAS, JOBS, LETTERS, REQUEUES):
            assert not columns(role, "INSERT", table) & {"", "id"}, (role, table)


@pytest.mark.requirement("R2-2.3i")
@pytest.mark.requirement("R4-8.1b")
def test_workers_and_cleaners_update_neither_the_identity_nor_the_settlement_of_jobs():
    for role in ("worker", "lease_cleaner"):
        kept = {"", "id", "saga_id", "attempt_no", "attempt_at", "settled_at"}
        assert not columns(role, "UPDATE", JOBS) & kept
