"""Which processes are put together: each configuration small enough to be gone through to its last state."""

from __future__ import annotations

from dataclasses import replace

from .protocol import Protocol

TESTED = {
    "two orchestrators": Protocol(orchestrators=2),
    "two workers": Protocol(workers=2),
    "switched on and off": Protocol(orchestrators=2, limit=1, switching=True),
    "two people who requeue": Protocol(people=2, generations=2, limit=1),
    "two routers": Protocol(routers=2, limit=1, switching=True),
    "abandoned, with retries": Protocol(abandoning=True),
    "abandoned, switched on and off": Protocol(orchestrators=2, limit=1, abandoning=True, switching=True),
    "disabled by a 410": Protocol(orchestrators=2, limit=1, gone=True),
}
LARGE = {
    "two orchestrators, three attempts": Protocol(orchestrators=2, limit=3),
    "two of each, one attempt": Protocol(orchestrators=2, workers=2, cleaners=2, limit=1),
    "two orchestrators and two workers": Protocol(orchestrators=2, workers=2),
    "switched on and off, with retries": Protocol(orchestrators=2, switching=True),
    "abandoned by two orchestrators, with retries": Protocol(orchestrators=2, abandoning=True),
    "requeued twice, with retries": Protocol(people=1, generations=3),
    "from the producer to the second generation": Protocol(routers=2, people=1, generations=2, limit=1, switching=True),
}

# Guard taken away (or two of them) → where that is seen, and which rule it breaks.
GUARDS = {
    "report token": ("two workers", "a result from a worker that had lost its lease"),
    "attempt key": ("two orchestrators", "two jobs of one attempt"),
    "insert if unchanged": ("two orchestrators", "an orchestrator that is refused a job"),
    "start count": ("two orchestrators, three attempts", "an orchestrator that is refused a transition"),
    "start count + saga trigger": ("two orchestrators, three attempts", "InProgress and nothing will move it"),
    "apply status": ("two orchestrators", "a saga goes from Pending to Completed"),
    "apply count": ("two orchestrators", "an orchestrator that is refused a transition"),
    "apply count + saga trigger": ("two orchestrators", "a result applied twice"),
    "follow": ("switched on and off", "a state that cannot end"),
    "letter first": ("two orchestrators", "DeadLettered without a dead letter"),
    "letter key": ("two orchestrators", "two dead letters of one saga"),
    "clean status": ("two workers", "a finished job has changed"),
    "admission": ("switched on and off", "a state that cannot end"),
    "not abandoned": ("abandoned, switched on and off", "an orchestrator that is refused a transition"),
    "abandon mark": ("abandoned, switched on and off", "an orchestrator that is refused a transition"),
    "abandon mark + saga trigger": ("abandoned, switched on and off", "DeadLettered without a dead letter"),
    "abandon job": ("abandoned, switched on and off", "an orchestrator that is refused a transition"),
    "abandon job + abandon letter": ("abandoned, switched on and off", "ended with an active job"),
    "gone first": ("disabled by a 410", "a 410 that nobody has noticed"),
    "saga key": ("two people who requeue", "two sagas of one generation"),
    "generation": ("two people who requeue", "a requeue that makes no saga"),
    "births first + routing transaction": ("two routers", "an event has left the inbox and has no saga"),
    "requeue key": ("two people who requeue", "two records of one requeue"),
    "inbox trigger": ("two routers", "an event that leaves its way"),
    "committed": ("two routers", "an event that leaves its way"),
    "committed + routing transaction": ("two routers", "a delivery of an event that is not committed"),
    "success": ("two orchestrators", "an orchestrator that is refused a transition"),
    "success + saga trigger": ("two orchestrators", "a 2xx that does not complete"),
    "patience": ("two orchestrators", "an orchestrator that is refused a dead letter"),
    "patience + letter trigger + saga trigger": ("two orchestrators", "buried before the limit"),
    "limit": ("two orchestrators", "an attempt beyond the limit"),
}
# Taken away alone, these break nothing: others hold the line behind them.
SECOND_LINE = {
    "active key": "two orchestrators",
    "begun": "switched on and off",
    "abandon status": "abandoned, switched on and off",
    "abandon letter": "abandoned, switched on and off",
    "settled if applied": "two orchestrators",
    "job trigger": "two orchestrators",
    "letter trigger": "two orchestrators",
    "saga trigger": "two orchestrators",
    "insert if unchanged + job trigger": "two orchestrators",
    "start status": "two orchestrators",
    "report status": "two workers",
    "release status": "switched on and off",
    "inbox lock": "two routers",
    "routing transaction": "two routers",
    "inbox lock + routing transaction": "two routers",
}


def named(name: str) -> Protocol:
    return {**TESTED, **LARGE}[name]


def without(guards: str, configuration: str) -> Protocol:
    return replace(named(configuration), without=frozenset(guards.split(" + ")))
