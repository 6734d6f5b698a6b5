"""What was expected, and how a hall scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from fabric.report.figures.style import COLOURS, SERIES, axes, figure, key, said, signs, styled, ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_LEAST = 1e-3


@styled
def expectations(found: pd.DataFrame) -> Figure | None:
    """
    Ratios with their 95 % intervals on a log axis, half and double alike far from 1; None where there is none.

    Columns: *text*, *outcome*, *value*, *low*, *high*, *at_least*, *at_most* (NA: not bounded there).
    """
    rows = list(found[found["low"].notna() & (found["value"] > 0)].itertuples())
    if not rows:
        return None
    made = figure("expected ratios with their 95 % intervals", 9.8, 1.05 + 0.42 * len(rows))
    ax = axes(made, left=0.3, right=0.9, top=0.4)
    numbers = [1.0]
    for y, one in enumerate(rows):
        low, high = max(one.low, _LEAST), max(one.high, _LEAST)
        ax.plot([low, high], [y, y], color=COLOURS["c0"], linewidth=2.4, solid_capstyle="butt")
        ax.plot([max(one.value, _LEAST)], [y], "o", color=COLOURS["c0"], ms=6)
        ax.text(1.01, y, f"{one.value:.3g}", transform=ax.get_yaxis_transform(), va="center", fontweight="bold")
        ax.text(0.0, y - 0.4, said(one.text, 110), transform=ax.get_yaxis_transform(), va="center")
        numbers += [low, high, one.value]
        for bound, way in ((one.at_least, "|>"), (one.at_most, "<|")):
            if bound == bound and bound is not None:
                ax.plot([bound] * 2, [y - 0.2, y + 0.2], color=COLOURS["ink"], linewidth=1.6)
                ax.plot([bound], [y], marker=5 if way == "|>" else 4, color=COLOURS["ink"], ms=6)
                numbers.append(bound)
    ax.set_xscale("log")
    ax.set_xlim(max(min(numbers) * 0.8, _LEAST), max(numbers) * 1.25)
    signs(ax, [(max(one.value, _LEAST), y, one.outcome) for y, one in enumerate(rows)], 10)
    ax.axvline(1.0, color=COLOURS["muted"], linewidth=1.2)
    ax.set_ylim(len(rows) - 0.4, -0.75)
    ax.set_yticks([])
    marks = [
        one for one in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if ax.get_xlim()[0] < one < ax.get_xlim()[1]
    ]
    ticks(ax.xaxis, [f"{one:g}" for one in marks], marks)
    ax.xaxis.set_ticks([], minor=True)
    ax.set_xlabel("ratio, log scale (1: no difference)")
    wanted = Line2D([], [], color=COLOURS["ink"], marker=5, label="asked for: from here this way")
    key(ax, Line2D([], [], color=COLOURS["c0"], marker="o", label="found, with its 95 % interval"), wanted)
    return made


@styled
def scaling(points: pd.DataFrame) -> Figure | None:
    """
    Bus bandwidth of each collective over 2, 4, 8 ... hosts, and broken the most that the inventory allows; None where
    there are not two numbers.

    Columns: *kind*, *hosts*, *gbps* (NA: not measured), *bound_gbps*.
    """
    known = points[points["gbps"].notna()]
    kinds = [kind for kind, own in known.groupby("kind", sort=False) if own["hosts"].nunique() > 1]
    if not kinds:
        return None
    made = figure("bandwidth over the number of hosts", 7.6, 3.0)
    ax = axes(made, top=0.4 + 0.2 * (len(kinds) > 3))
    for number, kind in enumerate(kinds):
        own, colour = known[known["kind"].eq(kind)].sort_values("hosts"), SERIES[number % len(SERIES)]
        ax.plot(own["hosts"], own["bound_gbps"], "--", color=colour, linewidth=1)
        ax.plot(own["hosts"], own["gbps"], color=colour, marker="os^Dv"[number % 5], label=said(kind))
    ax.set_xscale("log", base=2)
    every = sorted(known["hosts"].unique())
    ticks(ax.xaxis, [f"{one:,}" for one in every], every)
    ax.xaxis.set_ticks([], minor=True)
    ax.set(xlabel="hosts of the job; broken: at most, by the inventory", ylabel="Gb/s", ylim=(0, None))
    key(ax, *ax.lines[1::2], columns=3)
    return made
