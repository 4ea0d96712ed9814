"""Scenario `scale`: more of each loop side by side, and the proof that nothing is lost or done twice by it."""

from __future__ import annotations

from dataclasses import asdict

from tools.bench import drain
from tools.bench.context import Context
from tools.bench.result import Result
from tools.bench.spread import Spread

SETS: dict[str, dict[str, int]] = {
    "1 worker": {},
    "2 workers": {"worker": 2},
    "4 workers": {"worker": 4},
    "2 orchestrators": {"orchestrator": 2},
    "2 routers": {"router": 2},
    "2 of each": {"router": 2, "orchestrator": 2, "worker": 2, "cleaner": 2},
}


def run(context: Context) -> Result:
    result = Result("scale")
    alone = 0.0
    for name, counts in context.within(SETS.items()):
        found = drain.run(context, context.sizes.scale, counts=counts)
        # On what this very run has left behind.
        audit = context.call("manage.py", "audit", url=context.database().url)
        alone = alone or found.rate
        clean = "audit clean" if audit.returncode == 0 else f"AUDIT FAILED:\n{audit.stdout}{audit.stderr}"
        times = f"× {found.rate / alone:.2f}"
        result.say(f"deliveries/s, {name}", f"{Spread.of([found.rate])}, {times}, {found.duplicates} twice, {clean}")
        result.data[name] = asdict(found) | {"audit_clean": audit.returncode == 0}
    faults = sum(not entry["audit_clean"] for entry in result.data.values())
    twice = sum(entry["duplicates"] for entry in result.data.values())
    result.wrong = bool(faults + twice)
    result.at_most("lost, double or inconsistent", faults + twice, faults + twice, 0)
    return result
