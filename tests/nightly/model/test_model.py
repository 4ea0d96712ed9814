"""The protocol, as the code orders its statements, keeps its promises in every state it can come to; and each of its
guards is needed, or known to be a second one."""

from __future__ import annotations

import pytest

from .configurations import GUARDS, SECOND_LINE, TESTED, without
from .explore import explore

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("name", TESTED)
def test_no_order_of_statements_and_crashes_breaks_a_rule_and_every_state_can_end(name):
    outcome = explore(TESTED[name])

    assert outcome.broken is None, str(outcome)
    assert outcome.states > 1000


@pytest.mark.parametrize("guards", GUARDS)
def test_without_a_guard_a_rule_is_broken(guards):
    configuration, rule = GUARDS[guards]

    assert explore(without(guards, configuration)).broken == rule


@pytest.mark.parametrize("guards", SECOND_LINE)
def test_without_a_guard_of_the_second_line_the_others_still_hold(guards):
    outcome = explore(without(guards, SECOND_LINE[guards]))

    assert outcome.broken is None, str(outcome)
