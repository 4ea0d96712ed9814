"""docs/conformance.md agrees with the list of requirements and with the marks on the tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import requirements
from tests.requirements import Document, InvalidMark, MarkedTest, Requirement, Settlement, Specification

TESTS = [MarkedTest("tests/test_x.py", "test_a")]


@pytest.fixture(scope="module")
def specification() -> Specification:
    return requirements.read(requirements.DATA.read_text())


@pytest.fixture(scope="module")
def marks() -> requirements.Marks:
    return requirements.collect()


def test_marks_and_references_name_requirements(specification: Specification, marks: requirements.Marks):
    assert requirements.problems(specification, marks) == []


def test_every_requirement_has_a_test(specification: Specification, marks: requirements.Marks):
    assert requirements.without_tests(specification, marks) == []


def test_page_is_current(specification: Specification, marks: requirements.Marks):
    current = requirements.page(specification, marks)

    assert requirements.PAGE.read_text() == current, "run `python -m tests.requirements`"


def small(**more: Requirement) -> Specification:
    document = Document("r01", {"R1-1a": Requirement("one"), **more})
    return Specification("", [document], [Settlement(["R1-1a"], "both hold", "A | B")], [])


def test_marks_are_read_from_decorators():
    text = (
        '@pytest.mark.requirement("R1-1a", "R1-1b")\n@pytest.mark.django_db\ndef test_a(): pass\ndef test_b(): pass\n'
    )

    assert list(requirements.marks_in(text, "x")) == [("test_a", "R1-1a"), ("test_a", "R1-1b")]


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.requirement()\ndef test_a(): pass",
        "@pytest.mark.requirement(NUMBER)\ndef test_a(): pass",
        "@pytest.mark.requirement('R1-1a', number='R1-1b')\ndef test_a(): pass",
        "@pytest.mark.requirement\ndef test_a(): pass",
        "@pytest.mark.requirement('R1-1a')\ndef helper(): pass",
        "pytestmark = pytest.mark.requirement('R1-1a')",
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.requirement('R1-1a'))])\ndef test_a(x): pass",
    ],
)
def test_a_mark_that_would_not_be_counted_is_refused(text: str):
    with pytest.raises(InvalidMark, match=r"^x:1: the mark must"):
        list(requirements.marks_in(text, "x"))


def test_unknown_numbers_are_found():
    repeats = small(b=Requirement("two", same_as="R1-1a"), c=Requirement("three", same_as="b"))

    assert requirements.problems(small(), {"R9-1": TESTS}) == ["tests/test_x.py: there is no requirement R9-1"]
    assert requirements.problems(repeats, {"b": TESTS}) == [
        "tests/test_x.py: b repeats R1-1a; mark that one",
        "c repeats b, which is no requirement with tests of its own",
    ]


def test_a_requirement_without_a_test_is_found():
    specification = small(b=Requirement("two", same_as="R1-1a"), c=Requirement("three"))

    assert requirements.without_tests(specification, {}) == ["R1-1a", "c"]
    assert requirements.without_tests(specification, {"R1-1a": TESTS}) == ["c"]


def test_a_requirement_needs_a_test_or_a_reason_and_not_both():
    specification = replace(small(), untested=[Settlement(["R1-1a"], "about people")])

    assert requirements.without_tests(specification, {}) == []
    assert requirements.problems(specification, {}) == []
    assert requirements.problems(specification, {"R1-1a": TESTS}) == ["R1-1a has a test, and a reason for having none"]


def test_a_row_names_the_requirement_its_tests_and_its_settlement():
    shown = requirements.page(small(b=Requirement("two", same_as="R1-1a")), {"R1-1a": TESTS})

    assert "| R1-1a | one | [tests/test_x.py](../tests/test_x.py) `test_a`; [S1](#s1) |" in shown
    assert "| b | two | as R1-1a |" in shown
