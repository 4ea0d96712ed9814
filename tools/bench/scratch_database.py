"""A scratch database on the server of DATABASE_URL, created at the start and dropped at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tools.demo.folders import SAMPLE_WORKFLOWS
from webhookhub.crypto import new_key


@contextmanager
def scratch_database(*, keep: bool = False) -> Iterator[None]:
    """Sets Django up and migrates the database. An existing database of that name is dropped first."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    os.environ.setdefault("WEBHOOKHUB_SECRET_KEY", "a scratch database needs no secret")
    os.environ.setdefault("WEBHOOKHUB_ENCRYPTION_KEYS", new_key())
    os.environ.setdefault("WEBHOOKHUB_WORKFLOW_DEFINITIONS", str(SAMPLE_WORKFLOWS))
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    _drop()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {connection.settings_dict['NAME']} CHARACTER SET utf8mb4")
    call_command("migrate", verbosity=0)
    try:
        yield
    finally:
        if not keep:
            _drop()


def execute(sql: str, *parameters: str | int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)


def _drop() -> None:
    from django.db import connection

    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {connection.settings_dict['NAME']}")
