"""A saga lived through again without a database: observations as they come, time-outs as they pass.

The decisions are taken by the same rules as the tracker's and the monitor's; used to try a definition on past events,
and to test every definition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from .definition import Definition
from .fold import expire, fold
from .state import Decision, Effect, Fact, State
from .words import EMITTED, HUB


@dataclass
class Simulation:
    definition: Definition
    facts: list[Fact] = field(default_factory=list)
    # In the order in which they were published.
    published: list[Effect] = field(default_factory=list)

    def observe(self, fact: Fact) -> None:
        """A fact comes in at its own time; what was due before that has happened before."""
        self.pass_time(fact.at)
        self.facts.append(fact)
        self._settle(fact.at)

    def pass_time(self, now: datetime) -> None:
        while self.facts and (decision := self._expired(now)) is not None:
            due = self.state.due
            assert due is not None
            self._decide(decision, due.at)
            self._settle(due.at)

    @property
    def state(self) -> State:
        return fold(self.definition, self.facts)

    def _expired(self, now: datetime) -> Decision | None:
        return expire(self.definition, self.facts, now)

    def _settle(self, now: datetime) -> None:
        while (decision := self.state.next) is not None:
            self._decide(decision, now)
        for effect in self.state.effects:
            self.published.append(effect)
            self.facts.append(Fact(EMITTED, effect.step, now, HUB, effect.kind))

    def _decide(self, decision: Decision, now: datetime) -> None:
        no = self.state.decisions + 1
        self.facts.append(Fact(decision.role, decision.step, now, HUB, decision.detail(), decision_no=no))


def simulate(definition: Definition, observations: Iterable[Fact], until: datetime) -> Simulation:
    run = Simulation(definition)
    for fact in observations:
        run.observe(fact)
    run.pass_time(until)
    return run
