"""What a transaction costs, and that it is one."""

from __future__ import annotations

import pytest
from django.db import connection

from events.models import RoutingInbox
from webhookhub.db.retry import in_transaction

pytestmark = pytest.mark.usefixtures("committed")


def statements_sent() -> int:
    """By this session, including this query."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Questions'")
        return int(cursor.fetchone()[1])


def insert(event_id: int) -> None:
    RoutingInbox.objects.create(event_id=event_id, event_type="a")


@pytest.mark.mysql_family
def test_a_transaction_takes_two_statements_more_than_its_work():
    in_transaction(lambda: RoutingInbox.objects.exists())
    before = statements_sent()
    in_transaction(lambda: RoutingInbox.objects.exists())
    assert statements_sent() - before == 1 + 3


@pytest.mark.every_engine
def test_a_failed_transaction_is_undone_and_the_next_statement_commits():
    class Failed(Exception):
        pass

    def fail() -> None:
        insert(1)
        raise Failed

    with pytest.raises(Failed):
        in_transaction(fail)
    insert(2)
    connection.close()
    assert list(RoutingInbox.objects.values_list("event_id", flat=True)) == [2]
