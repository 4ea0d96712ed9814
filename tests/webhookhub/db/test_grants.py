"""What the servers say of an account's grants, in data."""

from __future__ import annotations

from webhookhub.db.grants import Held, Privilege, parse

# As MySQL 9.7 and MariaDB 10.11 write it.
ONE = [
    "GRANT SELECT ON *.* TO `u`@`%` WITH GRANT OPTION",
    "GRANT SELECT (`a`), UPDATE, UPDATE (`b`, `c`) ON `hub`.`jobs` TO `u`@`%`",
    "GRANT `r`@`%`,`s`@`localhost` TO `u`@`%`",
    "GRANT `t`@`%` TO `u`@`%` WITH ADMIN OPTION",
]
OTHER = [
    "GRANT `r` TO `u`@`%`",
    "GRANT USAGE ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*B69027D44F6E5EDC07F1AEAD1477967B16F28227'",
    "GRANT EXECUTE ON PROCEDURE `hub`.`p` TO `u`@`%`",
    "GRANT CREATE TEMPORARY TABLES, DELETE HISTORY ON `hub`.* TO `u`@`%`",
    "GRANT SELECT ON `hub`.`events` TO `r`",
    "GRANT ALL PRIVILEGES ON `test\\_%`.* TO PUBLIC",
    "SET DEFAULT ROLE `r` FOR `u`@`%`",
]


def test_privileges_columns_and_roles_are_told_apart():
    assert parse(ONE, "`u`@`%`") == Held(
        frozenset(
            {
                Privilege("*.*", "SELECT"),
                Privilege("*.*", "GRANT OPTION"),
                Privilege("`hub`.`jobs`", "SELECT", "a"),
                Privilege("`hub`.`jobs`", "UPDATE"),
                Privilege("`hub`.`jobs`", "UPDATE", "b"),
                Privilege("`hub`.`jobs`", "UPDATE", "c"),
            }
        ),
        frozenset({"`r`", "`s`@`localhost`", "`t`"}),
        frozenset({"`t`"}),
    )


def test_only_what_the_account_holds_itself_counts():
    assert parse(OTHER, "`u`@`%`") == Held(
        frozenset(
            {
                Privilege("PROCEDURE `hub`.`p`", "EXECUTE"),
                Privilege("`hub`.*", "CREATE TEMPORARY TABLES"),
                Privilege("`hub`.*", "DELETE HISTORY"),
            }
        ),
        frozenset({"`r`"}),
    )
    assert parse(OTHER, "`r`") == Held(frozenset({Privilege("`hub`.`events`", "SELECT")}))
    assert parse(OTHER, "`u`@`localhost`") == Held()


def test_with_no_account_named_roles_in_force_count_too():
    assert Privilege("`hub`.`events`", "SELECT") in parse(OTHER).privileges
