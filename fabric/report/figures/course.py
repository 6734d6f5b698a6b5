"""The evidence against a part: its course over the hours, or its bad numbers, beside what its peers reached."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fabric.model.part import Part
from fabric.report.figures.samples import peers, through
from fabric.report.figures.style import COLOURS, axes, figure, hours, key, said, signs, spans, styled, ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fabric.report.shown_run import Frames

LEAST_TIMES = 6
"""With fewer moments there is no course to see: then the numbers stand side by side (a choice)."""

_SLICES = 60
_MOST_ROWS = 12
_HOT = ("module_c", "gpu_c", "asic_c")


def evidence(run: Frames, part: str, probes: Collection[str] = ()) -> Figure | None:
    """Its course where it was measured over hours, else its bad numbers (*probes*); None where it has none."""
    own = through(run, part, probes)
    if own["of_normal"].isna().all():
        return None
    long = own["began_s"].max() - own["began_s"].min() > 1800 and own["phase"].nunique() >= LEAST_TIMES
    return course(run, part, probes) if long else against_peers(run, part, probes)


@styled
def course(run: Frames, part: str, probes: Collection[str] = ()) -> Figure:
    """
    What a part reached of what is normal over the hours, with the middle 90 % of its peers as a band, its worst numbers
    marked, and below it the temperature that was sampled of it.
    """
    own = through(run, part, probes)
    others = peers(run, own)
    warm = _warmth(run, part)
    made = figure(f"{part}: its course beside its peers", height_in=3.1 + 1.5 * (len(warm) > 0))
    ax = axes(made, top=0.55, bottom=0.55 if warm.empty else 2.05)
    last_s = float(max(own["ended_s"].max(), own["began_s"].max(), *warm["at_s"][-1:]))
    unit_s = hours(ax, last_s)
    band = _band(others, last_s)
    spans(ax, ((a / unit_s, 100 * low, b / unit_s, 100 * high) for a, b, low, high in band), COLOURS["c5"], 0.45)
    ax.plot(own["began_s"] / unit_s, 100 * own["of_normal"], ".", ms=4, color=COLOURS["c0"])
    bad = own[own["outcome"].isin(["fail", "error", "marginal"])]
    signs(ax, zip(bad["began_s"] / unit_s, 100 * bad["of_normal"], bad["outcome"], strict=True))
    _worst(ax, own, unit_s)
    low = float(min([own["of_normal"].min(), *(low for *_, low, _ in band)]))
    high = float(max([own["of_normal"].max(), 1.0, *(high for *_, high in band)]))
    ax.set_ylim(100 * low - 2 - 100 * (high - low) * 0.12, 100 * high + 2)
    ax.set_ylabel("% of normal")
    dot = Line2D([], [], color=COLOURS["c0"], marker=".", linestyle="none", label=said(part, 48))
    key(ax, dot, Patch(color=COLOURS["c5"], alpha=0.45, label="its peers: middle 90 %"))
    if not warm.empty:
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
        below = axes(made, top=made.get_size_inches()[1] - 1.75, bottom=0.55)
        hours(below, last_s)
        below.step(warm["at_s"] / unit_s, warm["value"], where="post", color=COLOURS["c1"], linewidth=1.4)
        below.set_ylabel("C")
        below.set_title(f"temperature: {said(warm['name'].iloc[0])} of {said(warm['part'].iloc[0])}")
    return made


@styled
def against_peers(run: Frames, part: str, probes: Collection[str] = ()) -> Figure:
    """The worst numbers of a part, each with the middle 90 % of its peers, and with what is required."""
    own = through(run, part, probes)
    accused = own[own["probe"].isin(probes)] if len(probes) else own[own["outcome"] != "pass"]
    own = (accused if len(accused) else own).sort_values("of_normal", kind="stable").drop_duplicates("probe")
    own = own.head(_MOST_ROWS)
    others = peers(run, own)
    rows = list(own.itertuples())
    names = [one.probe.partition("/")[2] for one in rows]
    names = [one.probe if names.count(name) > 1 else name for name, one in zip(names, rows, strict=True)]
    made = figure(f"{part}: its worst numbers beside its peers", height_in=1.0 + 0.27 * len(rows))
    ax = axes(made, left=2.9, right=1.5)
    lows, highs = [one.of_normal for one in rows], [1.0]
    for y, one in enumerate(rows):
        alike = others[
            (others["kind"] == one.kind) & ((others["series"] == one.series) | (one.peer_host == one.peer_host))
        ]
        if len(alike):
            low, middle, high = alike["of_normal"].quantile([0.05, 0.5, 0.95])
            spans(ax, [(100 * low, y - 0.25, 100 * high, y + 0.25)], COLOURS["c5"], 0.55)
            ax.plot([100 * middle] * 2, [y - 0.32, y + 0.32], color=COLOURS["c0"], linewidth=2)
            lows, highs = [*lows, low], [*highs, high]
        usual = one.gbps / one.of_normal
        if one.required_gbps == one.required_gbps:
            ax.plot([100 * one.required_gbps / usual] * 2, [y - 0.4, y + 0.4], color=COLOURS["ink"], linewidth=1.4)
            lows.append(one.required_gbps / usual)
        ax.plot([100 * one.of_normal], [y], "o", ms=5, color=COLOURS["c0"])
        ax.text(1.01, y, f"{one.gbps:,.0f} of {usual:,.0f} Gb/s", va="center", transform=ax.get_yaxis_transform())
    signs(ax, [(100 * one.of_normal, y, one.outcome) for y, one in enumerate(rows)], 8)
    ax.set_xlim(100 * min(lows) - 3, 100 * max(highs) + 2)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ticks(ax.yaxis, names, range(len(rows)), most=38)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("% of normal")
    middle_line = Line2D([], [], color=COLOURS["c0"], label="and their median")
    key(
        ax,
        Patch(color=COLOURS["c5"], alpha=0.55, label="its peers: middle 90 %"),
        middle_line,
        Line2D([], [], color=COLOURS["ink"], label="at least required"),
    )
    return made


def _worst(ax: Axes, own: pd.DataFrame, unit_s: float) -> None:
    """Said in Gb/s where it happened."""
    one = own.loc[own["of_normal"].idxmin()]
    at = one["began_s"] / unit_s
    right = at > ax.get_xlim()[1] * 0.6
    ax.annotate(
        f"worst: {one['gbps']:,.0f} of {one['gbps'] / one['of_normal']:,.0f} Gb/s",
        (at, 100 * one["of_normal"]),
        xytext=(-8 if right else 8, -14),
        textcoords="offset points",
        ha="right" if right else "left",
    )


def _band(others: pd.DataFrame, last_s: float) -> list[tuple[float, float, float, float]]:
    """The middle 90 % of each slice of time that has some: from, until, low, high; one for all where there are few."""
    known = others[others["of_normal"].notna()]
    if known.empty:
        return []
    slices = _SLICES if len(known) > 20 * _SLICES else 1
    number = (known["began_s"] / max(last_s, 1e-9) * slices).astype(int).clip(0, slices - 1)
    found = known.groupby(number)["of_normal"].quantile([0.05, 0.95]).unstack()
    width_s = last_s / slices
    return [(slot * width_s, (slot + 1) * width_s, low, high) for slot, low, high in found.itertuples()]


def _warmth(run: Frames, part: str) -> pd.DataFrame:
    """The readings of the sensor of a part: that of its module, else of its chip."""
    frame, own = run.counters, Part.of(part)
    found = frame[frame["part"].eq(f"{own.host}/{own.device}") & frame["name"].isin(_HOT) & frame["value"].notna()]
    for name in _HOT:
        if found["name"].eq(name).any():
            return found[found["name"].eq(name)]
    return found
