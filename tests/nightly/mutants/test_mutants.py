"""How a run of the tests is read."""

from __future__ import annotations

import pytest

from . import outcome
from .mutants import ALL


def test_every_mutant_is_watched_by_tests_of_the_default_suite():
    for mutant in ALL:
        assert mutant.tests
        assert not any(test.startswith("tests/nightly") for test in mutant.tests), mutant.name


def test_no_two_mutants_have_one_name():
    names = [mutant.name for mutant in ALL]
    assert len(set(names)) == len(names)


def test_a_snippet_that_is_gone_is_reported():
    with pytest.raises(ValueError, match="holds 0 times, and not once"):
        ALL[0].mutated("")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("FAILED tests/a.py::test_b[x y-1] - AssertionError: assert 1 == 2", outcome.CAUGHT),
        ("FAILED tests/a.py::test_b - assert 1 == 2", outcome.CAUGHT),
        ("FAILED tests/a.py::test_b - Failed: DID NOT RAISE <class 'ValueError'>", outcome.CAUGHT),
        (
            "FAILED tests/a.py::test_b - django.db.utils.IntegrityError: A Failed job is final: UPDATE refused",
            outcome.CAUGHT,
        ),
        ("FAILED tests/a.py::test_b - django.db.utils.IntegrityError: UNIQUE constraint failed", outcome.NO_ASSERTION),
        ("FAILED tests/a.py::test_b - Failed: Timeout (>100.0s) from pytest-timeout.", outcome.NO_ASSERTION),
        ("FAILED tests/a.py::test_b - django.db.utils.OperationalError: (1205, 'Lock')", outcome.NO_ASSERTION),
        ("ERROR tests/a.py::test_b - AssertionError: in a fixture", outcome.NO_ASSERTION),
        ("ERROR tests/a.py - ImportError: cannot import name 'x'", outcome.NO_ASSERTION),
    ],
)
def test_only_an_assertion_or_a_rule_of_the_database_shows_that_a_mutant_was_caught(line: str, kind: str):
    output = f"=== short test summary info ===\n{line}\n1 failed in 2.00s"

    assert outcome.read(1, output).kind == kind
    assert outcome.read(0, "1 passed").kind == outcome.SURVIVED
    assert outcome.read(2, output).kind == outcome.NO_ASSERTION


def test_an_assertion_behind_another_failure_counts_by_its_own_name():
    found = outcome.read(1, "FAILED tests/a.py::test_a - KeyError: 1\nFAILED tests/a.py::test_b[x y] - assert False\n")

    assert (found.kind, found.test) == (outcome.CAUGHT, "tests/a.py::test_b[x y]")
