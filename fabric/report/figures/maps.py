"""Maps of shares: hosts x what each measured, a hall of racks, a host's loopback, and hosts x hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fabric.report.figures.samples import SHARING, UPPER, disturbed, with_normal
from fabric.report.figures.style import (
    BOUNDS,
    CLASSES,
    COLOURS,
    SIGNS,
    axes,
    cells,
    colour_class,
    halo,
    shown_name,
    signs,
    styled,
    ticks,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fabric.runs.frames import Run

MOST_HOSTS = 128
"""If there are more hosts, each has a square, and a row only if something did not pass (a choice: one screen)."""

MOST_NAMES = 48
_LEAST_NAMES = 3  # two hosts have one pair: a number, not a map
_MOST_NAMED = 12
_WORST = ("fail", "error", "inconclusive", "skipped", "marginal", "pass")

LOW = 0.95
"""A pair below this share of the usual is low (a choice: beyond noise of 0.3 to 0.5 %)."""


def worst(run: Run) -> pd.DataFrame:
    """
    Return a row for each host and column (*kind*, *what*: the RNIC, else the series): lowest *share*, worst *outcome*.

    For what two measured together it is the median, at both ends: the worst would accuse all partners of a bad host.
    """
    import pandas as pd

    frame = run.samples[~disturbed(run, run.samples)]
    frame = frame.assign(
        share=frame["share"].fillna(frame["gbps"] / frame["required_gbps"]),
        place=frame["outcome"].map(_WORST.index).astype(float),
        paired=frame["peer_host"].notna() | frame["peer_rnic"].notna(),
    )
    names = ["host", "kind", "peer_host", "rnic", "peer_rnic", "series"]
    frame = frame[frame["host"].notna()].astype(dict.fromkeys(names, object))
    frame = frame[~frame["paired"] | frame["share"].notna() | frame["outcome"].eq("error")]
    near = frame.assign(what=frame["rnic"].fillna(frame["series"].where(~frame["paired"], "")))
    far = frame[frame["paired"]]
    far = far.assign(host=far["peer_host"].fillna(far["host"]), what=far["peer_rnic"].fillna(""))
    ends = pd.concat([near, far]).groupby(["host", "kind", "what", "paired"], sort=False)[["share", "place"]]
    least, middle = ends.min().reset_index(), ends.median().reset_index()
    every = least.where(~least["paired"], middle)
    every["outcome"] = [_WORST[int(place)] for place in every["place"]]
    has_share = every.groupby(["kind", "what"], sort=False)["share"].transform("count").gt(0)
    return every.loc[has_share | every["outcome"].ne("pass"), ["host", "kind", "what", "share", "outcome"]]


@styled
def hosts(run: Run, only: Collection[str] | None = None, *, known: pd.DataFrame | None = None) -> Figure | None:
    """
    Draw the worst result of each host (rows; *only* these) and RNIC or series (columns); None without numbers.

    *known*: the result of ``worst``, if it was called already.
    """
    found = worst(run) if known is None else known
    found = found if only is None else found[found["host"].isin(set(only))]
    if found.empty:
        return None
    table = found.pivot(index="host", columns=["kind", "what"], values=["share", "outcome"])
    names = sorted(table.index) if only is None else [name for name in only if name in table.index]
    columns = sorted(table["share"].columns, key=lambda column: (column[0], _natural(column[1])))
    shares, outcomes = (table[one].reindex(index=names, columns=columns) for one in ("share", "outcome"))
    made, ax = _map("hosts and what each of them measured", shares, outcomes, above_in=0.4, right_in=1.2)
    _kinds(ax, [kind for kind, _ in columns])
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_url(f"#{name}")
    return made


@styled
def hall(
    run: Run, racks: Mapping[str, Sequence[str]] | None = None, *, known: pd.DataFrame | None = None
) -> Figure | None:
    """
    Draw a square for each host with the colour of its worst number, by rack (without *racks* 32 a block).

    Names are at the first rack of each line, and at what is bad. *known* as in ``hosts``.
    """
    found = worst(run) if known is None else known
    if found.empty:
        return None
    of_host = found.assign(place=found["outcome"].map(_WORST.index)).groupby("host")[["share", "place"]].min()
    if racks is None:
        names = sorted(of_host.index)
        racks = {names[at]: names[at : at + 32] for at in range(0, len(names), 32)}
    most = max(map(len, racks.values()), default=1)
    across = ceil(sqrt(most))
    down = ceil(most / across)
    square, left_in, width = 0.13, 0.9, 9.8
    columns = max(int((width - left_in - 0.7) / square / (across + 0.5)), 1)
    lines = ceil(len(racks) / columns)
    label = f"{len(racks)} racks, hosts coloured by their worst number"
    made = Figure((width, lines * (down + 0.5) * square + 1.0), label=label)
    ax = axes(made, left=left_in, right=0.1, top=0.1, bottom=0.9)
    at = {
        host: (number % columns * (across + 0.5) + index % across, number // columns * (down + 0.5) + index // across)
        for number, members in enumerate(racks.values())
        for index, host in enumerate(members)
    }
    shown = of_host.reindex(list(at))
    cells(ax, ((*at[one.Index], colour_class(one.share)) for one in shown.itertuples()), 0.9, 0.9)
    marks = [(*at[one.Index], _WORST[int(one.place)], one.Index) for one in shown.dropna(subset="place").itertuples()]
    signs(ax, [(x + 0.45, y + 0.45, outcome) for x, y, outcome, _ in marks], 6)
    for x, y, _, host in [mark for mark in marks if mark[2] in ("fail", "error")][:_MOST_NAMED]:
        ax.text(x + 1.1, y + 0.45, shown_name(host, 18), va="center", path_effects=[halo()], zorder=7)
    ticks(ax.yaxis, list(racks)[::columns], [line * (down + 0.5) + 0.45 for line in range(lines)], most=10)
    ax.set_xticks([])
    _edges(ax, (width - left_in - 0.1) / square, lines * (down + 0.5))
    _legend(made, left_in)
    return made


@styled
def loopback(run: Run, host: str, *, below: float = float("inf")) -> Figure | None:
    """
    Draw RNIC x endpoint of one host: the lowest share of what its peers reach, in per cent.

    None if it made no loopback, or all of it reached the share *below*.
    """
    frame = run.samples
    own = with_normal(frame[frame["host"].eq(host) & frame["kind"].eq("loopback")])
    if own.empty or own["of_normal"].min() >= below:
        return None
    least = own.groupby(["rnic", "endpoint"], observed=True)["of_normal"].min().unstack()
    ends = sorted(least.columns, key=lambda name: (not name.startswith("numa"), _natural(name)))
    least = least.reindex(index=sorted(least.index, key=_natural), columns=ends)
    words = f"{shown_name(host, 18)}: loopback, % of the median of all hosts"
    made, ax = _map(words, least, cell_in=(0.36, 0.25), above_in=0.2, legend=False)
    for (rnic, end), value in least.stack().items():
        colour = COLOURS["paper"] if value < BOUNDS[3] else COLOURS["ink"]
        place = (ends.index(end) + 0.46, least.index.get_loc(rnic) + 0.46)
        ax.text(*place, f"{100 * value:.0f}", ha="center", va="center", color=colour)
    made.text(0.01, 1.0, words, va="top")
    return made


def pair_kinds(run: Run) -> list[str]:
    """Return kinds of probes that two hosts make together, with comparable numbers."""
    frame = run.samples
    together = frame["host"].notna() & frame["peer_host"].notna() & frame["gbps"].notna()
    return [kind for kind in dict.fromkeys(frame.loc[together, "kind"]) if kind not in SHARING]


def pair_shares(run: Run, kind: str) -> pd.DataFrame:
    """
    Return a row for each pair of hosts of a kind of probe; who sends does not matter.

    Columns: *low*, *high* (its hosts in order of name), the lowest *share* of what the pairs of the same rail reach
    (the upper quartile), the worst *outcome* and its *probe*.
    """
    import numpy as np

    frame = run.samples
    frame = frame[frame["kind"].eq(kind) & frame["host"].notna() & frame["peer_host"].notna() & frame["gbps"].notna()]
    keys = frame.groupby(["rnic", "peer_rnic", "size_bytes"], observed=True, dropna=False).ngroup()
    usual = keys.map(frame["gbps"].groupby(keys).quantile(UPPER))
    one, other = frame["host"].astype(str).to_numpy(), frame["peer_host"].astype(str).to_numpy()
    found = frame.assign(low=np.minimum(one, other), high=np.maximum(one, other), share=frame["gbps"] / usual)
    found = found.assign(rank=found["outcome"].map(_WORST.index).astype(int)).sort_values("share", kind="stable")
    pairs = found.groupby(["low", "high"], sort=True).agg(
        share=("share", "min"), rank=("rank", "min"), probe=("probe", "first")
    )
    return pairs.assign(outcome=[_WORST[rank] for rank in pairs["rank"]]).reset_index()


@styled
def pairs(run: Run, kind: str, ringed: Collection[str] = ()) -> Figure | None:
    """
    Draw host x host: what two hosts reach together, the lowest over rails and rounds.

    If there are many hosts, only those with a low pair are shown. *ringed*: ids of probes that one suspected part
    explains. None if all of many pairs are good, and for a single pair.
    """
    import pandas as pd

    found = pair_shares(run, kind)
    names = sorted({*found["low"], *found["high"]})
    if len(names) < _LEAST_NAMES:
        return None
    if len(names) > MOST_NAMES:
        bad = found[(found["share"] < LOW) | found["outcome"].isin(["fail", "error"])]
        names = sorted({*bad["low"], *bad["high"]})
        found = found[found["low"].isin(names) & found["high"].isin(names)]
    if not names:
        return None
    mirrored = found.rename(columns={"low": "high", "high": "low"})
    table = pd.concat([found, mirrored]).drop_duplicates(["low", "high"])
    table = table.pivot(index="low", columns="high", values=["share", "outcome", "probe"])
    shares, outcomes, probes = (table[one].reindex(index=names, columns=names) for one in ("share", "outcome", "probe"))
    step = min(0.22, 6.0 / len(names))
    made, ax = _map(f"pairs of hosts, {kind}", shares, outcomes, cell_in=(step, step))
    for y, x in zip(*probes.isin(set(ringed)).to_numpy().nonzero(), strict=True):
        ax.add_patch(Rectangle((x - 0.1, y - 0.1), 1.12, 1.12, fill=False, edgecolor=COLOURS["ink"], linewidth=1.2))
    return made


def _natural(name: str) -> list[str | int]:
    """Sort mlx5_2 before mlx5_10."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]{1,9})", name)]


def _map(
    label: str,
    shares: pd.DataFrame,
    outcomes: pd.DataFrame | None = None,
    *,
    cell_in: tuple[float, float] = (0.22, 0.19),
    above_in: float = 0.0,
    right_in: float = 0.15,
    legend: bool = True,
) -> tuple[Figure, Axes]:
    """
    Draw a cell for each value of *shares* with the sign of its outcome, names at the left and upright above.

    *above_in*, *right_in*: room over the names and beyond the last column (inches).
    """
    rows, columns = list(shares.index), [one[-1] if isinstance(one, tuple) else one for one in shares.columns]
    across_in, down_in = (min(cell_in[0], 7.6 / len(columns)), cell_in[1])
    left = 0.25 + 0.078 * min(max(map(len, rows)), 18)
    deep = 0.3 + above_in + 0.078 * min(max(map(len, columns)), 14)
    width = max(left + across_in * len(columns) + right_in, 7.6 if legend else 0)
    bottom = 0.9 if legend else 0.1
    made = Figure((width, deep + down_in * len(rows) + bottom), label=label)
    ax = axes(made, left=left, right=width - left - across_in * len(columns), top=deep, bottom=bottom)
    values = shares.to_numpy(float)
    cells(ax, ((x, y, colour_class(values[y, x])) for y in range(len(rows)) for x in range(len(columns))), 0.92, 0.92)
    if outcomes is not None:
        cell_outcomes = outcomes.fillna("").to_numpy()
        signs(ax, [(x + 0.46, y + 0.46, cell_outcomes[y, x]) for y in range(len(rows)) for x in range(len(columns))], 6)
    for axis, names, step_in in ((ax.xaxis, columns, across_in), (ax.yaxis, rows, down_in)):
        every = max(1, ceil(0.17 / step_in))
        ticks(axis, names[::every], [place + 0.46 for place in range(0, len(names), every)], most=18)
    ax.xaxis.tick_top()
    ax.tick_params(axis="x", labelrotation=90)
    _edges(ax, len(columns), len(rows))
    if legend:
        _legend(made, left)
    return made, ax


def _kinds(ax: Axes, kinds: Sequence[str]) -> None:
    """Write each kind over its first column; in a second line if its name would run into the next."""
    free = [-1.0, -1.0]
    step_in = ax.bbox.width / ax.figure.dpi / len(kinds)
    above_in = (ax.figure.bbox.height - ax.bbox.y1) / ax.figure.dpi
    for kind in dict.fromkeys(kinds):
        x, name = kinds.index(kind), shown_name(kind, 22)
        line = 0 if free[0] <= x else 1
        free[line] = x + 0.085 * len(name) / step_in
        ax.axvline(x - 0.04, color=COLOURS["muted"], linewidth=0.8)
        away = (0, 72 * above_in - 14 - 14 * line)
        ax.annotate(name, (x, 1.0), away, ("data", "axes fraction"), "offset points", fontweight="bold")


def _edges(ax: Axes, width: float, height: float) -> None:
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)


def _legend(made: Figure, left: float) -> None:
    """Explain the colours and the signs below the map."""
    width, height = made.get_size_inches()
    handles = [Patch(color=COLOURS[f"v{number}"], label=words) for number, words in enumerate(CLASSES)]
    handles.append(Patch(color=COLOURS["none"], label="no number"))
    box = (left / width, 0.26 / height)
    apart = {"columnspacing": 1.0, "handlelength": 1.0, "borderaxespad": 0}
    made.legend(handles=handles, loc="lower left", bbox_to_anchor=box, ncols=4, **apart)
    made.text(left / width, 0.08 / height, SIGNS)
