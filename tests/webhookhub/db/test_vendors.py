"""What the vendors' messages say."""

from __future__ import annotations

import pytest
from django.db import DatabaseError

from webhookhub.db import vendors


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
