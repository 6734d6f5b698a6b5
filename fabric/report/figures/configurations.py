"""Bandwidth by configuration: adaptive routing off and on with its spread, rings beside each other, message sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fabric.model.text import size_text
from fabric.report.figures.samples import TOGGLES
from fabric.report.figures.style import COLOURS, SERIES, axes, figure, said, styled, ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fabric.report.shown_run import Frames

_ROUND = re.compile(r"[.-]r[0-9]+$")
_ADAPTIVE = re.compile(r"\.?\badaptive_routing-(on|off)\b")
_OFF, _ON = COLOURS["c4"], COLOURS["c5"]
MOST = 12
"""Configurations in one figure (a choice: more have no room for their names)."""


def collectives(run: Frames, kind: str = "") -> pd.DataFrame:
    """
    The samples with a message size, of *kind* where one is named, with their *configuration* (phase and values of the
    matrix, without the round), its *routing* (``on``, ``off`` or "") and the *rest* of its name.
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


def compared_kinds(run: Frames) -> list[str]:
    """Kinds that were measured with adaptive routing off and on."""
    found = collectives(run).groupby("kind", observed=True, sort=False)["routing"].nunique()
    return [str(kind) for kind, many in found.items() if many > 1]


def largest(found: pd.DataFrame) -> pd.DataFrame:
    """Those of the largest message."""
    return found[found["size_bytes"].eq(found["size_bytes"].max())]


@styled
def bars(run: Frames, kind: str) -> Figure:
    """
    Figure 12a of arXiv 2410.21680: of each configuration the mean of the largest message with adaptive routing off and
    on, a dot for each iteration, and the standard deviation.
    """
    found = largest(collectives(run, kind))
    rest = list(dict.fromkeys(found["rest"]))[:MOST]
    made = figure(f"{kind}: bandwidth with adaptive routing off and on", max(1.3 + 1.9 * len(rest), 5.0), 3.0)
    ax = axes(made, top=0.12, bottom=0.65)
    names, at = [], []
    for place, name in enumerate(rest):
        for routing, shift, colour in (("off", -0.21, _OFF), ("on", 0.21, _ON)):
            values = found.loc[found["rest"].eq(name) & found["routing"].eq(routing), "gbps"].to_numpy()
            if len(values):
                _bar(ax, place + shift, values, colour)
                names.append(f"AR {routing}")
                at.append(place + shift)
        ax.annotate(said(name, 24), (place, 0), (0, -34), ("data", "axes fraction"), "offset points", ha="center")
    ticks(ax.xaxis, names, at)
    _finish(ax, float(found["gbps"].max()))
    return made


@styled
def rings(run: Frames, kind: str) -> Figure:
    """
    Figure 12b of arXiv 2410.21680: the mean of every ring that ran beside others, sorted, with the middle half as a box
    and the coefficient of variation.
    """
    found = largest(collectives(run, kind))
    means = found.groupby(["rest", "routing", "hosts"], observed=True, sort=False)["gbps"].mean().sort_index()
    groups = list(dict.fromkeys((rest, routing) for rest, routing, _ in means.index))[:MOST]
    groups.sort(key=lambda one: (one[0], one[1] == "on"))
    made = figure(f"{kind}: bandwidth of rings side by side", max(1.3 + 1.9 * len(groups), 5.0), 3.0)
    ax = axes(made, top=0.12, bottom=0.65)
    for place, (rest, routing) in enumerate(groups):
        values = means[rest, routing].sort_values().to_numpy()
        low, middle, high = (float(one) for one in _quartiles(values))
        ax.bar([place], [high - low], 0.8, low, color=_ON if routing == "on" else _OFF, alpha=0.55)
        ax.plot([place - 0.4, place + 0.4], [middle] * 2, color=COLOURS["ink"], linewidth=1.6)
        _dots(ax, place, values, 0.76)
        spread = f"mean {values.mean():,.0f}, CV {values.std() / values.mean():.1%}"
        _above(ax, place, float(values.max()), spread)
    ticks(ax.xaxis, [f"AR {routing or '?'}" for _, routing in groups], range(len(groups)))
    for place, (rest, _) in enumerate(groups):
        ax.annotate(said(rest, 24), (place, 0), (0, -34), ("data", "axes fraction"), "offset points", ha="center")
    _finish(ax, float(means.max()))
    return made


def side_by_side(run: Frames, kind: str) -> bool:
    """Whether several groups of hosts were measured at the same time in each configuration."""
    found = collectives(run, kind)
    return bool(found.groupby("configuration")["hosts"].nunique().gt(1).all())


@styled
def sizes(run: Frames, kind: str) -> Figure | None:
    """Bandwidth against message size, median and range of each configuration; None where there is one size alone."""
    found = collectives(run, kind)
    if found["size_bytes"].nunique() < 2:
        return None
    names = list(dict.fromkeys(found["configuration"]))[:MOST]
    made = figure(f"{kind}: bandwidth against message size", 7.6, 2.9 + 0.2 * len(names))
    ax = axes(made, top=0.15, bottom=0.75 + 0.2 * len(names))
    faulty = set(run.changes.loc[~run.changes["kind"].isin(TOGGLES), "phase"])
    for number, name in enumerate(names):
        own = found[found["configuration"].eq(name)]
        by_size = own.groupby("size_bytes")["gbps"].agg(["median", "min", "max", "size"])
        colour, style = SERIES[number % len(SERIES)], "--" if faulty.intersection(own["phase"]) else "-"
        at = by_size.index.to_numpy(float)
        ax.fill_between(at, by_size["min"], by_size["max"], color=colour, alpha=0.18, linewidth=0)
        said_of = f"{said(name, 60)} (n {by_size['size'].min()})"
        ax.plot(at, by_size["median"], style, color=colour, marker="os^Dv<>P"[number % 8], label=said_of)
    ax.set_xscale("log", base=2)
    every = sorted(found["size_bytes"].unique())
    ticks(ax.xaxis, [size_text(int(size)) for size in every], every)
    ax.xaxis.set_ticks([], minor=True)
    ax.set_xlabel("message size, bytes; band: least to most; broken: a fault was made")
    ax.set_ylabel("Gb/s")
    ax.set_ylim(0, float(found["gbps"].max()) * 1.06)
    made.legend(loc="lower left", bbox_to_anchor=(0.08, 0.0), ncols=1)
    return made


def _quartiles(values: Sequence[float]) -> Sequence[float]:
    import numpy as np

    return list(np.quantile(values, [0.25, 0.5, 0.75]))


def _bar(ax: Axes, x: float, values: object, colour: str) -> None:
    import numpy as np

    found = np.asarray(values, float)
    ax.bar([x], [found.mean()], 0.38, color=colour, edgecolor=COLOURS["ink"], linewidth=0.8)
    ax.errorbar([x], [found.mean()], [found.std()], color=COLOURS["ink"], capsize=5, linewidth=1.2)
    _dots(ax, x, found[:96], 0.3)
    spread = f"{found.mean():,.0f}"
    _above(ax, x, float(max(found.max(), found.mean() + found.std())), spread)


def _dots(ax: Axes, x: float, values: object, width: float) -> None:
    import numpy as np

    found = np.asarray(values, float)
    at = x - width / 2 + width * (np.arange(len(found)) + 0.5) / len(found)
    ax.plot(at, found, "o", ms=3.4, mfc=COLOURS["ink"], mec=COLOURS["paper"], mew=0.5)


def _above(ax: Axes, x: float, y: float, words: str) -> None:
    ax.annotate(words, (x, y), (0, 6), textcoords="offset points", ha="center", fontweight="bold")


def _finish(ax: Axes, highest: float) -> None:
    ax.set_ylim(0, highest * 1.14)
    ax.set_ylabel("Gb/s")
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.08)
