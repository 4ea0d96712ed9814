"""The list of mutants is up to date: each takes out something that is there. `make mutants` runs them."""

from __future__ import annotations

import ast

import pytest

from .mutants import ALL, ROOT, Mutant


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_what_a_mutant_takes_out_is_there(mutant: Mutant):
    source = (ROOT / mutant.file).read_text()

    assert ast.dump(ast.parse(mutant.mutated(source))) != ast.dump(ast.parse(source))
    for tests in mutant.tests:
        assert (ROOT / tests.partition("::")[0]).exists()


def test_no_two_mutants_have_one_name():
    names = [mutant.name for mutant in ALL]
    assert len(set(names)) == len(names)


def test_a_source_that_has_moved_is_said_so():
    with pytest.raises(ValueError, match="holds 0 times, and not once"):
        ALL[0].mutated("")
