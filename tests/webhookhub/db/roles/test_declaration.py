"""The declaration speaks of tables and columns that exist, and the documentation says what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.apps import apps
from django.db import connection

from subscriptions.models import Subscription
from webhookhub.db import roles_table
from webhookhub.db.roles import BY_NAME, HUB, ROLES, WORDS

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "roles.md"
SECRETS = {"secret", "previous_secret", "custom_headers"}


@pytest.mark.django_db
def test_every_table_and_column_of_the_declaration_exists():
    with connection.cursor() as cursor:
        columns = {
            name: {column.name for column in connection.introspection.get_table_description(cursor, name)}
            for name in connection.introspection.table_names(cursor)
        }

    for role in ROLES:
        for each in role.privileges("hub"):
            name = each.object.removeprefix("`hub`.").strip("`")
            assert each.name in WORDS, (role.name, each)
            assert each.column in {*columns[name], ""}, (role.name, each)


def test_every_word_of_the_declaration_is_understood():
    for role in ROLES:
        for name, may in role.tables.items():
            understood = sum(len(role.columns(word, name)) for word in WORDS)
            assert understood == len(may.replace("(", ",").split(",")) - may.count("("), (role.name, name)


def test_the_console_and_the_auditor_read_every_table_of_the_hub():
    own = {model._meta.db_table for model in apps.get_models() if not model.__module__.startswith("django")}

    assert set(HUB) == own
    for name in ("console", "auditor"):
        assert {table for table in own if BY_NAME[name].may("SELECT", table)} == own


def test_an_auditor_writes_nothing():
    assert {each.name for each in BY_NAME["auditor"].privileges("hub")} == {"SELECT"}


def test_all_but_the_encrypted_columns_of_a_subscription_are_its_facts():
    columns = {field.column for field in Subscription._meta.concrete_fields}

    assert BY_NAME["router_worker"].columns("SELECT", "subscriptions") == columns - SECRETS


def test_only_those_who_sign_show_or_audit_read_secrets():
    readers = {role.name for role in ROLES if any(role.may("SELECT", "subscriptions", c) for c in SECRETS)}

    assert readers == {"worker", "console", "auditor"}


def test_the_documented_table_is_the_declaration():
    assert roles_table.markdown() in DOCUMENT.read_text()
