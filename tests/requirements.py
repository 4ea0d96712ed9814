"""`python -m tests.requirements` writes docs/conformance.md: the requirements of the specification and their tests.

The requirements are the data of requirements.toml. A test names those that it holds:

    @pytest.mark.requirement("R1-7.2a", "R1-7.2b")
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "requirements.toml"
PAGE = ROOT / "docs" / "conformance.md"
MARK = "pytest.mark.requirement"
NOTICE = "<!-- Written by `python -m tests.requirements`: change tests/requirements.toml or the marks on the tests. -->"


class InvalidMark(Exception):
    """A mark that cannot be read, or is not on a test function."""


@dataclass(frozen=True)
class Requirement:
    text: str
    same_as: str = ""


@dataclass(frozen=True)
class Document:
    title: str
    requirements: Mapping[str, Requirement]
    note: str = ""


@dataclass(frozen=True)
class Settlement:
    """A contradiction and its solution, or the reason why requirements have no test."""

    requirements: Sequence[str]
    reason: str
    title: str = ""


@dataclass(frozen=True)
class Specification:
    introduction: str
    documents: Sequence[Document]
    settled: Sequence[Settlement]
    untested: Sequence[Settlement]

    @property
    def requirements(self) -> dict[str, Requirement]:
        return {number: each for document in self.documents for number, each in document.requirements.items()}


@dataclass(frozen=True, order=True)
class MarkedTest:
    file: str
    name: str


Marks = Mapping[str, Sequence[MarkedTest]]


def read(text: str) -> Specification:
    data = tomllib.loads(text)
    documents = [
        Document(
            title=each["title"],
            requirements={number: _requirement(value) for number, value in each["requirements"].items()},
            note=each.get("note", "").strip(),
        )
        for each in data["documents"]
    ]
    settled = [Settlement(**each) for each in data["settled"]]
    untested = [Settlement(**each) for each in data["untested"]]
    return Specification(data["introduction"].strip(), documents, settled, untested)


def _requirement(value: str | dict[str, str]) -> Requirement:
    return Requirement(value) if isinstance(value, str) else Requirement(**value)


def collect(folder: Path = ROOT / "tests") -> Marks:
    """Requirement → the tests that are marked with it, without running them."""
    found: dict[str, list[MarkedTest]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text()
        if MARK in text:
            file = path.relative_to(ROOT).as_posix()
            for name, number in marks_in(text, file):
                found.setdefault(number, []).append(MarkedTest(file, name))
    return found


def marks_in(text: str, file: str) -> Iterator[tuple[str, str]]:
    """(test, requirement) of each mark."""
    tree = ast.parse(text)
    misplaced = [node for node in ast.walk(tree) if _is_mark(node)]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _is_mark(decorator.func):
                    misplaced.remove(decorator.func)
                    yield from ((node.name, number) for number in _numbers(decorator, file))
    if misplaced:
        raise InvalidMark(f"{file}:{misplaced[0].lineno}: the mark must decorate a test function")


def _is_mark(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "requirement" and ast.unparse(node) == MARK


def _numbers(mark: ast.Call, file: str) -> list[str]:
    numbers = [each.value for each in mark.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if not numbers or len(numbers) < len(mark.args) + len(mark.keywords):
        raise InvalidMark(f"{file}:{mark.lineno}: the mark must name requirements, each as a string")
    return numbers


def problems(specification: Specification, marks: Marks) -> list[str]:
    """References to requirements that do not exist, and marks that are not allowed."""
    known = specification.requirements
    found = [
        f"{tests[0].file}: there is no requirement {number}" for number, tests in marks.items() if number not in known
    ]
    for number, requirement in known.items():
        if requirement.same_as and (requirement.same_as not in known or known[requirement.same_as].same_as):
            found.append(f"{number} repeats {requirement.same_as}, which is no requirement with tests of its own")
        if requirement.same_as and number in marks:
            found.append(f"{marks[number][0].file}: {number} repeats {requirement.same_as}; mark that one")
    for settlement in (*specification.settled, *specification.untested):
        found += [
            f"a reason is given for {each}, which does not exist"
            for each in settlement.requirements
            if each not in known
        ]
    excused = [number for each in specification.untested for number in each.requirements]
    return found + [f"{number} has a test, and a reason for having none" for number in excused if number in marks]


def without_tests(specification: Specification, marks: Marks) -> list[str]:
    """Requirements that no test is marked with and that have no reason for it."""
    excused = {number for each in specification.untested for number in each.requirements}
    own = [number for number, requirement in specification.requirements.items() if not requirement.same_as]
    return [number for number in own if number not in marks and number not in excused]


def page(specification: Specification, marks: Marks) -> str:
    lines = ["# Conformance", "", NOTICE, "", specification.introduction]
    for document in specification.documents:
        lines += ["", f"## {document.title}", ""]
        if document.note:
            lines += [document.note, ""]
        lines += ["| number | requirement | tests |", "|---|---|---|"]
        for number, requirement in document.requirements.items():
            held_by = "; ".join([*_tests(requirement, marks.get(number, ())), *_reasons(specification, number)])
            lines.append(f"| {number} | {requirement.text} | {held_by} |")
    lines += ["", "## Settled contradictions"]
    for position, each in enumerate(specification.settled, 1):
        lines += [
            "",
            f"### S{position}",
            "",
            f"**{each.title}** ({', '.join(each.requirements)}).",
            each.reason.strip(),
        ]
    lines += ["", "## Requirements without a test"]
    for position, each in enumerate(specification.untested, 1):
        lines += ["", f"### U{position}", "", f"{', '.join(each.requirements)}: {each.reason.strip()}"]
    return "\n".join(lines) + "\n"


def _tests(requirement: Requirement, tests: Sequence[MarkedTest]) -> Iterator[str]:
    if requirement.same_as:
        yield f"as {requirement.same_as}"
    by_file: dict[str, list[str]] = {}
    for test in sorted(tests):
        by_file.setdefault(test.file, []).append(f"`{test.name}`")
    for file, names in by_file.items():
        yield f"[{file}](../{file}) {', '.join(names)}"


def _reasons(specification: Specification, number: str) -> Iterator[str]:
    sections: list[tuple[str, Sequence[Settlement]]] = [("S", specification.settled), ("U", specification.untested)]
    for letter, settlements in sections:
        for position, each in enumerate(settlements, 1):
            if number in each.requirements:
                yield f"[{letter}{position}](#{letter.lower()}{position})"


def main() -> None:
    PAGE.write_text(page(read(DATA.read_text()), collect()))


if __name__ == "__main__":
    main()
