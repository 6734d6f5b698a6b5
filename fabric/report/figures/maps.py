"""Maps of shares: hosts x what each measured, a hall of racks, a host's loopback, and hosts x hosts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING

from matplotlib.patches import Patch, Rectangle

from fabric.report.figures.samples import UPPER, disturbed, with_normal
from fabric.report.figures.style import (
    CLASSES,
    COLOURS,
    SIGNS,
    axes,
    cells,
    colour_class,
    figure,
    halo,
    no_frame,
    said,
    signs,
    styled,
    ticks,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fabric.report.shown_run import Frames

MOST_HOSTS = 128
"""More hosts than this have a square each, and rows only where something did not pass (a choice: one screen)."""

MOST_NAMES = 48
_MOST_NAMED = 12
_WORST = ("fail", "error", "inconclusive", "skipped", "marginal", "pass")


def worst(run: Frames) -> pd.DataFrame:
    """
    A row each host and column (*kind*, *what*: the RNIC, else the series): the least *share* and the worst *outcome*.

    Of what two measured together the median, at both ends: the worst would accuse all partners of a bad one.
    """
    import pandas as pd

    frame = run.samples[~disturbed(run, run.samples)]
    frame = frame.assign(of_normal=frame["share"].fillna(frame["gbps"] / frame["required_gbps"]))
    frame["place"] = frame["outcome"].map({name: number for number, name in enumerate(_WORST)}).astype(float)
    paired = frame["peer_host"].notna() | frame["peer_rnic"].notna()
    alone = frame[frame["host"].notna() & ~paired]
    alone = alone.assign(what=alone["rnic"].astype(object).fillna(alone["series"].astype(object)))
    found = alone.groupby(["host", "kind", "what"], observed=True, sort=False)
    single = found.agg(share=("of_normal", "min"), place=("place", "min")).reset_index()
    pairs = frame[paired & (frame["of_normal"].notna() | frame["outcome"].eq("error"))]
    pairs = pairs.assign(peer_host=pairs["peer_host"].astype(object).fillna(pairs["host"].astype(object)))
    ends = [
        pairs[["kind", host, rnic, "of_normal", "place"]].set_axis(["kind", "host", "what", "share", "place"], axis=1)
        for host, rnic in (("host", "rnic"), ("peer_host", "peer_rnic"))
    ]
    both = pd.concat([one.astype({"host": object, "kind": object, "what": object}) for one in ends])
    both["what"] = both["what"].fillna("")
    of_pairs = both.groupby(["host", "kind", "what"], sort=False)[["share", "place"]].median().reset_index()
    every = pd.concat([single.astype({"host": object, "kind": object}), of_pairs], ignore_index=True)
    every["outcome"] = [_WORST[number] for number in every["place"].fillna(len(_WORST) - 1).astype(int)]
    told = every.groupby(["kind", "what"], sort=False)[["share", "place"]].transform("count")["share"].gt(0)
    return every[told | every["outcome"].ne("pass")].drop(columns="place")


@styled
def hosts(run: Frames, only: Collection[str] | None = None, *, known: pd.DataFrame | None = None) -> Figure | None:
    """
    The worst of the whole run of each host (rows; *only* these) and RNIC or series (columns); None: no numbers.

    *known*: what ``worst`` found, where somebody asked already.
    """
    found = worst(run) if known is None else known
    names = [one for one in dict.fromkeys(found["host"]) if only is None or one in only]
    names = sorted(names) if only is None else [one for one in only if one in names]
    if not names:
        return None
    found = found[found["host"].isin(set(names))]
    columns = sorted(dict.fromkeys(zip(found["kind"], found["what"], strict=True)), key=_natural)
    step = min(0.22, 7.6 / len(columns))
    left = 0.25 + 0.078 * min(max(map(len, names)), 18)
    deep = 0.5 + 0.078 * min(max(len(what) for _, what in columns), 14)
    last = [kind for kind, _ in columns].index(columns[-1][0])
    width = max(left + step * len(columns) + 0.1, left + step * last + 0.095 * len(columns[-1][0]), 7.6)
    made = figure("hosts and what each of them measured", width, deep + 0.85 + 0.19 * len(names))
    ax = axes(made, left=left, right=width - left - step * len(columns), top=deep, bottom=0.85)
    at, row = {column: x for x, column in enumerate(columns)}, {name: y for y, name in enumerate(names)}
    places = [(at[one.kind, one.what], row[one.host], one.share, one.outcome) for one in found.itertuples()]
    cells(ax, ((x, y, None if share != share else colour_class(share)) for x, y, share, _ in places), 0.92, 0.92)
    signs(ax, [(x + 0.46, y + 0.46, outcome) for x, y, _, outcome in places], 6)
    _heads(ax, columns, deep, step)
    ticks(ax.yaxis, names, [y + 0.46 for y in range(len(names))], most=18)
    _edges(ax, len(columns), len(names))
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_url(f"#{name}")
    _legend(made, left)
    return made


@styled
def hall(
    run: Frames, racks: Mapping[str, Sequence[str]] | None = None, *, known: pd.DataFrame | None = None
) -> Figure | None:
    """
    A square each host with the colour of its worst number, by rack (without *racks* 32 a block); as ``hosts``.

    Names stand at the first rack of each line, and at what is bad.
    """
    found = worst(run) if known is None else known
    if found.empty:
        return None
    share = found.groupby("host")["share"].min()
    outcome = found.assign(rank=found["outcome"].map(_WORST.index)).groupby("host")["rank"].min()
    if racks is None:
        names = sorted(share.index)
        racks = {names[at]: names[at : at + 32] for at in range(0, len(names), 32)}
    across = max((ceil(sqrt(len(members))) for members in racks.values()), default=1)
    down = max((ceil(len(members) / across) for members in racks.values()), default=1)
    square, left_in, width = 0.13, 0.9, 9.8
    columns = max(int((width - left_in - 0.7) / square / (across + 0.5)), 1)
    lines = ceil(len(racks) / columns)
    made = figure(
        f"{len(racks)} racks, hosts coloured by their worst number", width, lines * (down + 0.5) * square + 1.0
    )
    ax = axes(made, left=left_in, right=0.1, top=0.1, bottom=0.9)
    boxes, marks, bad = [], [], []
    for number, members in enumerate(racks.values()):
        left, top = number % columns * (across + 0.5), number // columns * (down + 0.5)
        for index, host in enumerate(members):
            x, y, value = left + index % across, top + index // across, share.get(host)
            boxes.append((x, y, None if value is None or value != value else colour_class(value)))
            marks.append((x + 0.45, y + 0.45, _WORST[int(outcome.get(host, len(_WORST) - 1))]))
            bad += [(x + 1.1, y + 0.45, host)] if marks[-1][2] in ("fail", "error") else []
    cells(ax, boxes, 0.9, 0.9)
    signs(ax, marks, 6)
    for x, y, host in bad[:_MOST_NAMED]:
        ax.text(x, y, said(host, 18), va="center", path_effects=[halo()], zorder=7)
    ticks(ax.yaxis, list(racks)[::columns], [line * (down + 0.5) + 0.45 for line in range(lines)], most=10)
    ax.set_xticks([])
    _edges(ax, (width - left_in - 0.1) / square, lines * (down + 0.5))
    _legend(made, left_in)
    return made


@styled
def loopback(run: Frames, host: str, *, below: float = float("inf")) -> Figure | None:
    """
    RNIC x endpoint of one host: the least of what its peers reach, in per cent.

    None where it made no loopback, or all of it reached the share *below*.
    """
    frame = run.samples
    own = with_normal(frame[frame["host"].eq(host) & frame["kind"].eq("loopback")])
    if own.empty or own["of_normal"].min() >= below:
        return None
    least = own.groupby(["rnic", "endpoint"], observed=True)["of_normal"].min()
    rnics = sorted({one for one, _ in least.index}, key=lambda name: _natural(("", name)))
    ends = sorted({one for _, one in least.index}, key=lambda name: (not name.startswith("numa"), _natural(("", name))))
    made = figure(f"loopback of {host}, of what its peers reach", 1.6 + 0.52 * len(ends), 1.0 + 0.27 * len(rnics))
    ax = axes(made, left=0.9, right=0.5, top=0.75, bottom=0.15)
    at = {(rnic, end): (ends.index(end), rnics.index(rnic)) for rnic, end in least.index}
    cells(ax, ((*at[place], colour_class(value)) for place, value in least.items()), 0.96, 0.94)
    for place, value in least.items():
        x, y = at[place]
        colour = COLOURS["paper"] if colour_class(value) < 4 else COLOURS["ink"]
        ax.text(x + 0.48, y + 0.48, f"{100 * value:.0f}", ha="center", va="center", color=colour)
    ticks(ax.yaxis, rnics, [y + 0.47 for y in range(len(rnics))])
    ticks(ax.xaxis, ends, [x + 0.48 for x in range(len(ends))])
    ax.xaxis.tick_top()
    ax.set_title(f"{said(host)}: loopback, % of the median of all hosts", pad=8)
    _edges(ax, len(ends), len(rnics))
    return made


def pair_kinds(run: Frames) -> list[str]:
    """Kinds of probes that two hosts make together, with numbers."""
    frame = run.samples
    together = frame["host"].notna() & frame["peer_host"].notna() & frame["gbps"].notna()
    return list(dict.fromkeys(frame.loc[together, "kind"]))


def pair_shares(run: Frames, kind: str) -> pd.DataFrame:
    """
    A row each pair of hosts of a kind of probe: *low*, *high* (its hosts in order of name), the least *share* of what
    the pairs of the same rail reach (the upper quartile), the worst *outcome* and its *probe*.
    Whoever sends, a pair is one pair.
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
def pairs(run: Frames, kind: str, ringed: Collection[str] = ()) -> Figure | None:
    """
    Host x host: what two hosts reach together, the least over rails and rounds; of many hosts those with a low pair.

    *ringed*: ids of probes that one suspected part explains. None where all of many pairs are good.
    """
    found = pair_shares(run, kind)
    names = sorted({*found["low"], *found["high"]})
    if len(names) > MOST_NAMES:
        bad = found[(found["share"] < LOW) | found["outcome"].isin(["fail", "error"])]
        names = sorted({*bad["low"], *bad["high"]})
        found = found[found["low"].isin(names) & found["high"].isin(names)]
    if not names:
        return None
    side = min(max(0.22 * len(names), 1.2), 6.0)
    deep = 0.3 + 0.078 * min(max(map(len, names)), 14)
    made = figure(f"pairs of hosts, {kind}", max(side + deep + 0.4, 7.6), side + deep + 1.0)
    ax = axes(made, left=deep, right=made.get_size_inches()[0] - deep - side, top=deep, bottom=1.0)
    at = {name: place for place, name in enumerate(names)}
    both = [
        (at[a], at[b], one.share, one.outcome, one.probe)
        for one in found.itertuples()
        for a, b in ((one.low, one.high), (one.high, one.low))
    ]
    cells(ax, ((x, y, colour_class(share)) for x, y, share, *_ in both), 0.92, 0.92)
    signs(ax, [(x + 0.46, y + 0.46, outcome) for x, y, _, outcome, _ in both], 6)
    for x, y, *_, probe in both:
        if probe in ringed:
            ax.add_patch(Rectangle((x - 0.1, y - 0.1), 1.12, 1.12, fill=False, edgecolor=COLOURS["ink"], linewidth=1.2))
    every = max(1, ceil(0.19 * len(names) / side))
    shown = range(0, len(names), every)
    ticks(ax.yaxis, [names[one] for one in shown], [one + 0.46 for one in shown], most=14)
    ticks(ax.xaxis, [names[one] for one in shown], [one + 0.46 for one in shown], most=14)
    ax.xaxis.tick_top()
    ax.tick_params(axis="x", labelrotation=90)
    _edges(ax, len(names), len(names))
    _legend(made, 0.1)
    return made


def low_words(run: Frames, kind: str) -> str:
    """``gpu004 is low with each of its 6 partners; gpu001 with gpu002 is low``; empty where no pair is low."""
    found = pair_shares(run, kind)
    by_host: dict[str, list[bool]] = {}
    for one in found.itertuples():
        for host in (one.low, one.high):
            by_host.setdefault(host, []).append(one.share < LOW)
    rows = {host: len(low) for host, low in by_host.items() if len(low) > 1 and all(low)}
    lines = [f"{host} is low with each of its {many} partners" for host, many in sorted(rows.items())]
    rest = found[(found["share"] < LOW) & ~found["low"].isin(rows) & ~found["high"].isin(rows)]
    lines += [f"{one.low} with {one.high} is low" for one in rest.itertuples()]
    more = len(lines) - _MOST_SAID
    return "; ".join(lines[:_MOST_SAID] + ([f"and {more} more"] if more > 0 else []))


_MOST_SAID = 8

LOW = 0.95
"""A pair below this share of the median is low (a choice: beyond noise of 0.3 to 0.5 %)."""


def _natural(column: tuple[str, str]) -> list[tuple[int, int, str]]:
    """mlx5_2 before mlx5_10."""
    digits = "".join(letter if letter.isdigit() else " " for letter in column[1]).split()
    letters = "".join(letter for letter in column[1] if not letter.isdigit())
    return [(0, 0, column[0]), (1, 0, letters), *((2, int(one[:9]), "") for one in digits)]


def _heads(ax: Axes, columns: Sequence[tuple[str, str]], above_in: float, step_in: float) -> None:
    """What each column is, on end, and above them the kinds; in a second line where a name would run into the next."""
    ticks(ax.xaxis, [what for _, what in columns], [x + 0.46 for x in range(len(columns))], most=14)
    ax.xaxis.tick_top()
    ax.tick_params(axis="x", labelrotation=90)
    kinds, free = [kind for kind, _ in columns], [-1.0, -1.0]
    for kind in dict.fromkeys(kinds):
        x, name = kinds.index(kind), said(kind, 22)
        line = 0 if free[0] <= x else 1
        free[line] = x + 0.085 * len(name) / step_in
        ax.axvline(x - 0.04, color=COLOURS["muted"], linewidth=0.8)
        away = (0, 72 * above_in - 14 - 14 * line)
        ax.annotate(name, (x, 1.0), away, ("data", "axes fraction"), "offset points", fontweight="bold")


def _edges(ax: Axes, width: float, height: float) -> None:
    no_frame(ax)
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)


def _legend(made: Figure, left: float) -> None:
    """What the colours and the signs mean, below the map."""
    width, height = made.get_size_inches()
    handles = [Patch(color=COLOURS[f"v{number}"], label=words) for number, words in enumerate(CLASSES)]
    handles.append(Patch(color=COLOURS["none"], label="no number"))
    place = (left / width, 0.26 / height)
    made.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=place,
        ncols=4,
        columnspacing=1.0,
        handlelength=1.0,
        borderaxespad=0,
    )
    made.text(left / width, 0.08 / height, SIGNS)
