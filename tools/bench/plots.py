"""Plots of the results as PNG files, if matplotlib is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.bench.results import Result, Spread

OURS, OTHERS, SOFT = "#1f6f8b", "#c8553d", "#8d99ae"
Data = dict[str, dict[str, Any]]


def draw(results: list[Result], folder: Path) -> str:
    """Draws the plots that the results allow. Returns a message."""
    if importlib.util.find_spec("matplotlib") is None:
        return "no plots: matplotlib is not installed (make bench installs it)"
    folder.mkdir(parents=True, exist_ok=True)
    data = {result.name: result.data for result in results if result.data}
    drawn = []
    for name, needs, plot in PLOTS:
        if needs & set(data):
            from matplotlib.figure import Figure

            figure = Figure(figsize=(7, 4), layout="constrained", facecolor="white")
            axes = figure.add_subplot()
            axes.spines[["top", "right"]].set_visible(False)
            plot(axes, data)
            figure.savefig(folder / f"{name}.png", dpi=110)
            drawn.append(f"{name}.png")
    return f"plots in {folder}: {', '.join(drawn)}" if drawn else "nothing to plot"


def _rates(axes: Any, data: Data) -> None:
    bars: list[tuple[str, list[float], str]] = []
    if "floor" in data:
        bars.append(("floor", [run["rate"] for run in data["floor"]["runs"]], SOFT))
    if "drain" in data:
        bars.append(("drain", [run["rate"] for run in data["drain"]["runs"]], OURS))
    if "embedded" in data:
        bars.append(("drain on\nSQLite", data["embedded"]["rates"], OURS))
    if "celery" in data:
        bars.append(("Celery,\nRedis", [run["rate"] for run in data["celery"]["runs"]], OTHERS))
    _bars(axes, bars)
    axes.set_ylabel("deliveries per second")
    axes.set_title("Events already published, until the last delivery ended")


def _cpu(axes: Any, data: Data) -> None:
    bottom = 0.0
    runs = data["drain"]["runs"]
    for kind in runs[0]["cpu"]:
        value = Spread.of([run["cpu"][kind] for run in runs]).median
        axes.bar("drain", value, bottom=bottom, label=f"{kind}: {value:,.0f}", width=0.5)
        bottom += value
    others = []
    if "floor" in data:
        others.append(("floor", Spread.of([run["cpu"] for run in data["floor"]["runs"]]).median, SOFT))
    if "celery" in data:
        others.append(("Celery, Redis", Spread.of([run["cpu"] for run in data["celery"]["runs"]]).median, OTHERS))
    for name, value, colour in others:
        axes.bar_label(axes.bar(name, value, color=colour, width=0.5), fmt="%.0f")
    axes.text(0, bottom, f"{bottom:.0f}", ha="center", va="bottom")
    axes.legend(frameon=False)
    axes.set_ylabel("µs of CPU per delivery")
    axes.set_title("CPU time by kind of process")


def _latency(axes: Any, data: Data) -> None:
    runs = data["latency"]["runs"]
    for number, part in enumerate(("p50", "p95", "p99")):
        places = [place + (number - 1) * 0.27 for place in range(len(runs))]
        bars = axes.bar(places, [run["received"][part] * 1000 for run in runs], width=0.25, label=part)
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set_xticks(range(len(runs)), [f"{run['way']}\n{run['rate']}/s" for run in runs])
    axes.set_ylabel("milliseconds")
    axes.legend(frameon=False)
    axes.set_title("From publishing to the endpoint, at a fixed rate")


def _backlog(axes: Any, data: Data) -> None:
    spreads = {int(stored): Spread.of(rates) for stored, rates in data["backlog"]["rates"].items()}
    medians = [spread.median for spread in spreads.values()]
    below = [spread.median - spread.minimum for spread in spreads.values()]
    above = [spread.maximum - spread.median for spread in spreads.values()]
    axes.errorbar(list(spreads), medians, yerr=[below, above], marker="o", capsize=4, color=OURS)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("stored deliveries, ended or not due")
    axes.set_ylabel("deliveries per second")
    axes.set_title("Drain with a backlog")


def _scale(axes: Any, data: Data) -> None:
    configurations = {name: entry for name, entry in data["scale"].items() if isinstance(entry, dict)}
    _bars(axes, [(name.replace(" ", "\n"), [entry["rate"]], OURS) for name, entry in configurations.items()])
    axes.set_ylabel("deliveries per second")
    axes.set_title("Several processes of a loop")


def _bars(axes: Any, bars: list[tuple[str, list[float], str]]) -> None:
    for name, values, colour in bars:
        spread = Spread.of(values)
        error = [[spread.median - spread.minimum], [spread.maximum - spread.median]]
        bar = axes.bar(name, spread.median, yerr=error, capsize=4, color=colour, width=0.6)
        axes.bar_label(bar, fmt="%.0f")


PLOTS: list[tuple[str, set[str], Callable[[Any, Data], None]]] = [
    ("rates", {"drain", "floor", "celery", "embedded"}, _rates),
    ("cpu", {"drain"}, _cpu),
    ("latency", {"latency"}, _latency),
    ("backlog", {"backlog"}, _backlog),
    ("scale", {"scale"}, _scale),
]
