"""What the errors of the database servers mean."""

from __future__ import annotations

import threading

import pytest
from django.db import DatabaseError, OperationalError, connection

from webhookhub.db import vendors

CLASSES = (vendors.is_lost, vendors.is_conflict, vendors.is_refused, vendors.is_denied, vendors.is_duplicate)


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (2006, vendors.is_lost),
        (1290, vendors.is_lost),
        (1213, vendors.is_conflict),
        (1045, vendors.is_refused),
        (1142, vendors.is_denied),
        (1062, vendors.is_duplicate),
        (1317, None),
    ],
)
def test_an_error_code_has_one_meaning(code: int, meaning: object):
    error = OperationalError(code, "message")

    assert [is_class for is_class in CLASSES if is_class(error)] == ([meaning] if meaning else [])


@pytest.mark.mysql_family
@pytest.mark.usefixtures("committed")
def test_an_interrupted_statement_is_not_a_lost_database():
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        [number] = cursor.fetchone()
        table = "information_schema.collations"
        other = connection.copy()
        with other.cursor() as killer:
            # Repeated until the statement has begun: at an idle connection, KILL QUERY has no effect.
            ended = threading.Event()

            def interrupt() -> None:
                while not ended.wait(0.05):
                    killer.execute(f"KILL QUERY {number}")

            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                with pytest.raises(OperationalError) as raised:
                    cursor.execute(f"SELECT COUNT(*) FROM {', '.join(f'{table} {name}' for name in 'abcdef')}")
            finally:
                ended.set()
                thread.join()
        other.close()

    assert vendors.error_code(raised.value) == 1317
    assert not any(is_class(raised.value) for is_class in CLASSES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT command denied to user 'u'@'h' for table 'events'", ("INSERT", "u", "events")),
        ("INSERT command denied to user 'u'@'h' for table `hub`.`events`", ("INSERT", "u", "events")),
        ("UPDATE command denied to user 'u'@'%' for column 'id' in table 'events'", ("UPDATE", "u", "events")),
        ("Access denied; you need the SUPER privilege", ("", "", "")),
    ],
)
def test_the_parts_of_a_denial(text: str, expected: tuple[str, str, str]):
    assert vendors.denial(DatabaseError(1142, text)) == expected
