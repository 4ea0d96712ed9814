"""The declaration names existing tables and columns, and the documentation shows it."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection

from subscriptions.models import Subscription
from webhookhub.db.roles import BY_NAME, HUB, ROLES

from .declaration import WORDS, columns, may

SECRETS = {"secret", "previous_secret", "custom_headers", "credentials"}


@pytest.mark.django_db
def test_every_table_and_column_of_the_declaration_exists():
    with connection.cursor() as cursor:
        existing = {
            name: {column.name for column in connection.introspection.get_table_description(cursor, name)}
            for name in connection.introspection.table_names(cursor)
        }

    for role in ROLES:
        for table in role.tables:
            for word in WORDS:
                assert columns(role.name, word, table) <= {*existing[table], ""}, (role.name, table, word)


def test_every_word_of_the_declaration_is_parsed():
    for role in ROLES:
        for table, privileges in role.tables.items():
            parsed = sum(len(columns(role.name, word, table)) for word in WORDS)
            assert parsed == len(privileges.replace("(", ",").split(",")) - privileges.count("("), (role.name, table)


def test_the_console_and_the_auditor_read_every_table_of_the_hub():
    own = {model._meta.db_table for model in apps.get_models() if not model.__module__.startswith("django")}

    assert set(HUB) == own
    for name in ("console", "auditor"):
        assert {table for table in own if may(name, "SELECT", table)} == own


def test_an_auditor_writes_nothing():
    assert set(BY_NAME["auditor"].tables.values()) == {"SELECT"}


def test_all_but_the_encrypted_columns_of_a_subscription_are_its_facts():
    existing = {field.column for field in Subscription._meta.concrete_fields}

    assert columns("router_worker", "SELECT", "subscriptions") == existing - SECRETS


def test_only_the_worker_the_console_and_the_auditor_read_secrets():
    readers = {
        role.name for role in ROLES if any(may(role.name, "SELECT", "subscriptions", secret) for secret in SECRETS)
    }

    assert readers == {"worker", "console", "auditor"}
