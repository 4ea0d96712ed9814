"""What a grant is about, as the servers write it."""

from __future__ import annotations

import pytest

from webhookhub.db import grants


@pytest.mark.parametrize(
    ("on", "database"),
    [
        ("*.*", "hub"),
        ("`hub`.*", "hub"),
        ("`hub_a`.*", "hub_a"),
        ("`hub_a`.*", "hubba"),
        (r"`hub\_a`.*", "hub_a"),
        (r"`test\_%`.*", "test_hub"),
        ("`%`.*", "hub"),
        ("`hub`.`events`", "hub"),
    ],
)
def test_a_grant_reaches_the_databases_that_its_pattern_names(on: str, database: str):
    assert grants.reaches(on, database)


@pytest.mark.parametrize(
    ("on", "database"),
    [
        ("`hub`.*", "hub_a"),
        (r"`hub\_a`.*", "hubba"),
        (r"`test\_%`.*", "testing"),
        ("`h.b`.*", "hub"),
        ("`hub_a`.`events`", "hubba"),
        ("PROCEDURE `hub`.`p`", "hub"),
    ],
)
def test_a_grant_reaches_no_other_database(on: str, database: str):
    assert not grants.reaches(on, database)


def test_a_privilege_on_a_table_or_its_columns_is_none_on_the_database():
    held = grants.parse(["GRANT TRIGGER, UPDATE (`a`) ON `hub`.`events` TO `u`@`%`", "GRANT DROP ON *.* TO PUBLIC"])

    assert grants.may(held, "TRIGGER", "hub", "events")
    assert not grants.may(held, "TRIGGER", "hub")
    assert not grants.may(held, "TRIGGER", "hub", "jobs")
    assert not grants.may(held, "UPDATE", "hub", "events")
    assert grants.may(held, "DROP", "hub", "jobs")
