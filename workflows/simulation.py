"""A run simulated without a database: observations arrive, time-outs pass.

Decisions follow the same fold as the tracker's. Used by the backtest and by the generated tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from .definition import Definition
from .fold import expire, fold
from .state import EMITTED, HUB, Decision, Effect, Fact, State


@dataclass
class Simulation:
    definition: Definition
    facts: list[Fact] = field(default_factory=list)
    # In the order of publication.
    published: list[Effect] = field(default_factory=list)

    def observe(self, *facts: Fact) -> None:
        """Add the facts of one event at its time, after all deadlines before it."""
        at = facts[0].at
        self.pass_time(at)
        self.facts += facts
        self._settle(at)

    def pass_time(self, now: datetime) -> None:
        while self.facts and (decision := expire(self.definition, self.facts, now)) is not None:
            due = self.state.due
            assert due is not None
            self._decide(decision, due.at)
            self._settle(due.at)

    @property
    def state(self) -> State:
        return fold(self.definition, self.facts)

    def _settle(self, now: datetime) -> None:
        while (decision := self.state.next) is not None:
            self._decide(decision, now)
        for effect in self.state.effects:
            self.published.append(effect)
            self.facts.append(Fact(EMITTED, effect.step, now, HUB, effect.kind))

    def _decide(self, decision: Decision, now: datetime) -> None:
        no = len(self.state.decisions) + 1
        self.facts.append(Fact(decision.role, decision.step, now, HUB, decision.detail(), decision_no=no))


def simulate(definition: Definition, observations: Iterable[Fact], until: datetime) -> Simulation:
    run = Simulation(definition)
    for fact in observations:
        run.observe(fact)
    run.pass_time(until)
    return run
