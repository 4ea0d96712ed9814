"""What a run of the tests shows of a mutant. Only an assertion that fails, or a rule of the database that is broken,
shows that it is known what is wrong: a time-out, an error on the way to a test or another exception may have any
cause."""

from __future__ import annotations

import re
from dataclasses import dataclass

CAUGHT = "caught"
SURVIVED = "SURVIVED"
NO_END = "NO END"
NO_ASSERTION = "NO ASSERTION FAILED"
RED_ANYWAY = "RED WITHOUT IT TOO"
# pytest's exit codes, and its summary.
ALL_PASSED, SOME_FAILED = 0, 1
LINE = re.compile(r"^(FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - (.*))?$", re.MULTILINE)
ASSERTION = re.compile(r"AssertionError\b|assert |Failed: DID NOT (RAISE|WARN)")
# What the triggers say. The guard makes it rare; where it is taken out, the second line holds.
REFUSED = re.compile(r"django\.db\.utils\.\w+Error: .*\brefused")


@dataclass(frozen=True)
class Outcome:
    kind: str
    test: str = ""
    why: str = ""

    @property
    def green(self) -> bool:
        return self.kind == SURVIVED

    @property
    def caught(self) -> bool:
        return self.kind == CAUGHT

    def __str__(self) -> str:
        said = " - ".join(filter(None, [self.test, self.why]))[:300]
        return said if self.caught else f"{self.kind} {said}".strip()


def read(code: int, output: str) -> Outcome:
    if code == ALL_PASSED:
        return Outcome(SURVIVED)
    found = [(kind, test, why or "") for kind, test, why in LINE.findall(output)]
    for kind, test, why in found:
        if code == SOME_FAILED and kind == "FAILED" and (ASSERTION.match(why) or REFUSED.match(why)):
            return Outcome(CAUGHT, test, why)
    if not found:
        return Outcome(NO_ASSERTION, why=f"pytest ended with {code}: {output[-300:]}")
    _, test, why = found[0]
    return Outcome(NO_ASSERTION, test, why)
