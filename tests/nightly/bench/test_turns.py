"""Measuring installations in turns, and comparing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tools.bench import turns
from tools.bench.context import Budget, Options
from tools.bench.endpoint import Arrival
from tools.bench.installation import Checkout, Delivered, RunningHub
from tools.bench.producer import Posted
from tools.bench.turns import Run, order


class FakeInstallation:
    def __init__(self, label: str, folder: str) -> None:
        self.label = label
        self.checkout = Checkout(Path(folder))

    @contextmanager
    def running(self) -> Iterator[str]:
        yield self.label


class FakeContext(Budget):
    def __init__(self, *installations: FakeInstallation, rounds: int | None = None) -> None:
        super().__init__(600)
        self.allow(1)
        self.options = Options(rounds=rounds)
        self.installations = list(installations)


def measure(context: FakeContext, *figures: dict[str, float]) -> tuple[Any, dict[str, list[Run]], list[str]]:
    """Returns the result, the runs and the labels in the order in which they were measured."""
    remaining, labels = list(figures), []

    def run(label: Any) -> Run:
        labels.append(label)
        return Run(remaining.pop(0))

    result, runs = turns.measure(context, "endtoend", run)  # type: ignore[arg-type]
    return result, runs, labels


def test_each_second_round_is_reversed():
    assert [order("AB", number) for number in range(4)] == [["A", "B"], ["B", "A"], ["A", "B"], ["B", "A"]]
    assert order(["old", "new", "newer"], 1) == ["newer", "new", "old"]


def test_two_checkouts_are_measured_in_the_order_abba_and_compared_within_a_round():
    context = FakeContext(FakeInstallation("old", "/a"), FakeInstallation("new", "/b"))
    name = "single posts: deliveries/s"

    # A disturbance has slowed both runs of the second round.
    result, runs, labels = measure(context, {name: 500}, {name: 1000}, {name: 100}, {name: 50})

    assert labels == ["old", "new", "new", "old"]
    assert {label: turns.values(each, name) for label, each in runs.items()} == {"old": [500, 50], "new": [1000, 100]}
    ratio = result.data["ratios"]["new"][name]
    assert (ratio["median"], ratio["runs"]) == (2, 2)
    assert [line.value for line in result.lines] == ["old", "new", "275 · 550; ÷ first: 2 (2 to 2, 2 runs)"]


@pytest.mark.parametrize(
    ("name", "value", "reached"),
    [
        ("single posts: deliveries/s", 91, True),
        ("single posts: deliveries/s", 89, False),
        ("single posts: deliveries/s", 200, True),
        ("single posts: µs of CPU per delivery", 109, True),
        ("single posts: µs of CPU per delivery", 111, False),
        ("single posts: µs of CPU per delivery", 10, True),
    ],
)
def test_stored_rows_may_worsen_a_figure_by_a_tenth(name: str, value: float, reached: bool):
    context = FakeContext(FakeInstallation("empty", "/a"), FakeInstallation("full", "/a"), rounds=1)

    result, _, _ = measure(context, {name: 100}, {name: value})

    assert result.lines[-1].reached is reached


def test_a_figure_of_zero_has_no_ratio():
    context = FakeContext(FakeInstallation("old", "/a"), FakeInstallation("new", "/b"), rounds=1)

    result, _, _ = measure(context, {"idle: % of a core": 0}, {"idle: % of a core": 1})

    assert result.lines[-1].value == "0 · 1"


def test_one_installation_is_measured_once():
    result, _, labels = measure(FakeContext(FakeInstallation("own", "/a")), {"MB": 150})

    assert labels == ["own"]
    assert [(line.name, line.value) for line in result.lines] == [("MB", "150 (one run)")]
    assert not result.failed


def test_lost_deliveries_fail_the_benchmark():
    context = FakeContext(FakeInstallation("own", "/a"))

    result, _ = turns.measure(context, "endtoend", lambda hub: Run({"MB": 1}, faults=1))  # type: ignore[arg-type]

    assert result.failed


def test_the_first_arrival_counts_from_the_time_at_which_the_event_was_due():
    posted = [Posted(["a"], 10.0, 10.3), Posted(["b"], 11.0, 11.1)]
    arrivals = [
        Arrival(10.5, 1, "a"),
        Arrival(10.6, 2, "a"),
        Arrival(12.0, 1, "a"),
        Arrival(12.0, 1, "b"),
        Arrival(99.0, 1, "of an earlier part"),
    ]

    delivered = Delivered(posted, arrivals, width=2)

    assert sorted(delivered.latencies) == pytest.approx([0.5, 0.6, 1.0])
    assert delivered.responses == pytest.approx([0.3, 0.1])
    assert (delivered.expected, delivered.received, delivered.duplicates) == (4, 3, 1)
    assert delivered.faults == 2
    assert delivered.rate == pytest.approx(3 / 2)


def running_hub(monkeypatch: pytest.MonkeyPatch, *cpu: float) -> tuple[RunningHub, list[float]]:
    """A hub whose CPU seconds are read in this order, and the list of those that are left."""
    remaining = list(cpu)
    monkeypatch.setattr("tools.bench.installation.IDLE_SECONDS", 0.01)
    monkeypatch.setattr("tools.bench.installation.BUSY_SECONDS", 0.5)
    monkeypatch.setattr("tools.bench.machine.tree_cpu", lambda pid: {"hub": remaining.pop(0)})
    hub = object.__new__(RunningHub)
    hub.pid = 1
    monkeypatch.setattr(hub, "check_alive", lambda: None)
    return hub, remaining


def test_a_seeded_hub_is_awaited_until_it_is_idle(monkeypatch: pytest.MonkeyPatch):
    hub, remaining = running_hub(monkeypatch, 1.0, 2.0, 2.5, 2.5001, 99.0)

    hub.wait_until_idle()

    assert remaining == [99.0]


def test_a_hub_that_stays_busy_is_reported(monkeypatch: pytest.MonkeyPatch):
    hub, _ = running_hub(monkeypatch, *range(1000))

    with pytest.raises(RuntimeError, match="still busy"):
        hub.wait_until_idle()
