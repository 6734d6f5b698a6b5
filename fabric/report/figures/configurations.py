"""Figures of bandwidth by configuration: adaptive routing off and on, rings side by side, over the number of hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from fabric.report.figures.style import COLOURS, SERIES, axes, legend, shown_name, styled, ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fabric.runs.frames import Run

_ROUND = re.compile(r"[.-]r[0-9]+$")
_ADAPTIVE = re.compile(r"\.?\badaptive_routing-(on|off)\b")
_COLOUR = {"off": COLOURS["c4"], "on": COLOURS["c5"], "": COLOURS["c4"]}
MOST = 12
"""The most configurations in one figure (a choice: more have no room for their names)."""


def collectives(run: Run, kind: str = "") -> pd.DataFrame:
    """
    Return the samples of collectives, of *kind* if given, each probe and size with its lowest number.

    Added columns: *configuration* (phase and values of the matrix, without the round), its *routing* (``on``, ``off``
    or "") and the *rest* of its name.
    """
    frame = run.samples
    collective = [op for op in frame["op"].cat.categories if op.startswith(("busbw", "algbw"))]
    frame = frame[frame["gbps"].notna() & frame["op"].isin(collective)]
    frame = frame[frame["kind"].eq(kind)] if kind else frame
    names = {phase: _ROUND.sub("", phase) for phase in frame["phase"].unique()}
    routing = {phase: (_ADAPTIVE.findall(name) or [""])[-1] for phase, name in names.items()}
    frame = frame.assign(configuration=frame["phase"].map(names).astype(object))
    frame["routing"] = frame["phase"].map(routing).astype(object)
    frame["rest"] = frame["configuration"].map(lambda name: _ADAPTIVE.sub("", name))
    least = frame.groupby(["probe", "size_bytes"], observed=True)["gbps"].transform("min")
    return frame[frame["gbps"].eq(least)].drop_duplicates(["probe", "size_bytes"])


def compared_kinds(run: Run) -> list[str]:
    """Return kinds that were measured with adaptive routing off and on."""
    found = collectives(run).groupby("kind", observed=True, sort=False)["routing"].nunique()
    return [str(kind) for kind, many in found.items() if many > 1]


def largest(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the largest message."""
    return found[found["size_bytes"].eq(found["size_bytes"].max())]


@styled
def bars(run: Run, kind: str) -> Figure | None:
    """
    Draw figure 12a of arXiv 2410.21680: mean bandwidth of the largest message with adaptive routing off and on.

    Each configuration has a dot for each iteration, and the standard deviation. None where nothing of *kind* is a
    collective.
    """
    found = largest(collectives(run, kind))
    if found.empty:
        return None
    made, ax, groups = _compared(found, f"{kind}: bandwidth with adaptive routing off and on", 1.1)
    for place, (routing, values) in enumerate(groups):
        mean, spread = values.mean(), values.std(ddof=0)
        ax.bar(place, mean, 0.7, color=_COLOUR[routing], edgecolor=COLOURS["ink"], linewidth=0.8)
        ax.errorbar(place, mean, spread, color=COLOURS["ink"], capsize=5, linewidth=1.2)
        _dots(ax, place, values[:96], 0.55)
        _above(ax, place, max(values.max(), mean + spread), f"{mean:,.0f}")
    return made


@styled
def rings(run: Run, kind: str) -> Figure | None:
    """
    Draw figure 12b of arXiv 2410.21680: the mean of every ring that ran beside others, sorted.

    A box shows the middle half; the coefficient of variation is written above. None where nothing of *kind* is a
    collective.
    """
    found = largest(collectives(run, kind))
    if found.empty:
        return None
    found = found.groupby(["rest", "routing", "hosts"], observed=True, sort=False)["gbps"].mean().reset_index()
    made, ax, groups = _compared(found, f"{kind}: bandwidth of rings side by side", 1.9)
    for place, (routing, values) in enumerate(groups):
        low, middle, high = values.quantile([0.25, 0.5, 0.75])
        ax.bar(place, high - low, 0.8, low, color=_COLOUR[routing], alpha=0.55)
        ax.plot([place - 0.4, place + 0.4], [middle] * 2, color=COLOURS["ink"], linewidth=1.6)
        _dots(ax, place, values.sort_values(), 0.76)
        mean = values.mean()
        _above(ax, place, values.max(), f"mean {mean:,.0f}, CV {values.std(ddof=0) / mean:.1%}")
    return made


def _compared(found: pd.DataFrame, label: str, each_in: float) -> tuple[Figure, Axes, list[tuple[str, pd.Series]]]:
    """
    Return axes with a place for each configuration, routing off before on, and the routing and numbers of each.

    *each_in*: width of a place in inches.
    """
    order = {name: place for place, name in enumerate(dict.fromkeys(found["rest"]))}
    groups = {key: values for key, values in found.groupby(["rest", "routing"], sort=False)["gbps"]}
    shown = sorted(groups, key=lambda one: (order[one[0]], one[1] == "on"))[:MOST]
    made = Figure((max(0.9 + each_in * len(shown), 4.6), 3.0), label=label)
    ax = axes(made, top=0.12, bottom=0.65)
    ticks(ax.xaxis, [f"AR {routing or '?'}" for _, routing in shown], range(len(shown)))
    for rest in order:
        places = [place for place, one in enumerate(shown) if one[0] == rest] or [-9]
        middle = (places[0] + places[-1]) / 2
        ax.annotate(
            shown_name(rest, 24), (middle, 0), (0, -34), ("data", "axes fraction"), "offset points", ha="center"
        )
    ax.set(ylim=(0, float(found["gbps"].max()) * 1.14), ylabel="Gb/s")
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.08)
    return made, ax, [(routing, groups[rest, routing]) for rest, routing in shown]


@styled
def scaling(points: pd.DataFrame) -> Figure | None:
    """
    Draw the bus bandwidth of each collective over 2, 4, 8 ... hosts, and as a broken line the inventory's bound.

    None with fewer than two numbers. Columns: *kind*, *hosts*, *gbps* (NA: not measured), *bound_gbps*.
    """
    known = points[points["gbps"].notna()]
    kinds = [kind for kind, own in known.groupby("kind", sort=False) if own["hosts"].nunique() > 1]
    if not kinds:
        return None
    made = Figure((7.6, 3.0), label="bandwidth over the number of hosts")
    ax = axes(made, top=0.4 + 0.2 * (len(kinds) > 3))
    for number, kind in enumerate(kinds):
        own, colour = known[known["kind"].eq(kind)].sort_values("hosts"), SERIES[number % len(SERIES)]
        ax.plot(own["hosts"], own["bound_gbps"], "--", color=colour, linewidth=1)
        ax.plot(own["hosts"], own["gbps"], color=colour, marker="os^Dv"[number % 5], label=shown_name(kind))
    ax.set_xscale("log", base=2)
    every = sorted(known["hosts"].unique())
    ticks(ax.xaxis, [f"{one:,}" for one in every], every)
    ax.xaxis.set_ticks([], minor=True)
    ax.set(xlabel="hosts of the job; broken: at most, by the inventory", ylabel="Gb/s", ylim=(0, None))
    legend(ax, *ax.lines[1::2], columns=3)
    return made


def side_by_side(run: Run, kind: str) -> bool:
    """Return whether several groups of hosts were measured at the same time in each configuration."""
    found = collectives(run, kind)
    return bool(found.groupby("configuration")["hosts"].nunique().gt(1).all())


def _dots(ax: Axes, x: float, values: pd.Series, width: float) -> None:
    step = width / len(values)
    at = [x - width / 2 + step * (place + 0.5) for place in range(len(values))]
    ax.plot(at, values, "o", ms=3.4, mfc=COLOURS["ink"], mec=COLOURS["paper"], mew=0.5)


def _above(ax: Axes, x: float, y: float, words: str) -> None:
    ax.annotate(words, (x, y), (0, 6), textcoords="offset points", ha="center", fontweight="bold")
