"""Figures of the evidence against a part: its course over the hours, or its bad numbers, compared with its peers."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fabric.model.part import Part
from fabric.report.figures.samples import peers, through
from fabric.report.figures.style import COLOURS, axes, hours, legend, shown_name, signs, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fabric.runs.frames import Run

LEAST_TIMES = 6
"""With fewer phases there is no course to see, so the numbers are shown side by side (a choice)."""

_SLICES = 60
_MOST_ROWS = 12
_HOT = ("module_c", "gpu_c", "asic_c")
_PEERS: dict[str, Any] = {"color": COLOURS["c5"], "linewidth": 0}
_BAND = Patch(color=COLOURS["c5"], alpha=0.45, label="its peers: middle 90 %")

WIDTH_IN = 4.9
"""Width in inches at which a telephone shows all of it, with readable letters (a choice)."""


def evidence(run: Run, part: str, probes: Collection[str] = ()) -> Figure | None:
    """Draw a part's course if it was measured over hours, else its bad numbers (*probes*); None without numbers."""
    own = through(run, part, probes)
    long = own["began_s"].max() - own["began_s"].min() > 1800 and own["phase"].nunique() >= LEAST_TIMES
    return course(run, part, probes) if long else against_peers(run, part, probes)


@styled
def course(run: Run, part: str, probes: Collection[str] = ()) -> Figure | None:
    """
    Draw what share of normal a part reached over the hours, with the middle 90 % of its peers as a band.

    Bad numbers are marked; below is the temperature that was sampled of it. None without numbers.
    """
    own = through(run, part, probes)
    if own["of_normal"].isna().all():
        return None
    warm = _warmth(run, part)
    made = Figure((WIDTH_IN, 3.3 + 1.5 * (len(warm) > 0)), label=f"{part}: its course beside its peers")
    ax = axes(made, top=0.7, bottom=0.55 if warm.empty else 2.05)
    last_s = float(max(own["ended_s"].max(), own["began_s"].max(), *warm["at_s"][-1:]))
    unit_s = hours(ax, last_s)
    band = _band(peers(run, own), last_s)
    ax.fill_between(band.index / unit_s, 100 * band[0.05], 100 * band[0.95], step="post", alpha=0.45, **_PEERS)
    at, reached = own["began_s"] / unit_s, 100 * own["of_normal"]
    ax.plot(at, reached, ".", ms=4, color=COLOURS["c0"])
    bad = own["outcome"].isin(["fail", "error", "marginal"])
    signs(ax, zip(at[bad], reached[bad], own.loc[bad, "outcome"], strict=True))
    low, high = min(reached.min(), 100 * band[0.05].min()), max(reached.max(), 100.0, 100 * band[0.95].max())
    ax.set_ylim(low - 2 - 0.12 * (high - low), high + 2)
    _worst(ax, own, unit_s)
    ax.set_ylabel("% of normal")
    dot = Line2D([], [], color=COLOURS["c0"], marker=".", linestyle="none", label=shown_name(part, 48))
    legend(ax, dot, _BAND, columns=1)
    if not warm.empty:
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
        below = axes(made, top=made.get_size_inches()[1] - 1.75, bottom=0.55)
        hours(below, last_s)
        below.step(warm["at_s"] / unit_s, warm["value"], where="post", color=COLOURS["c1"], linewidth=1.4)
        below.set_ylabel("C")
        below.set_title(f"temperature: {shown_name(warm['name'].iloc[0])} of {shown_name(warm['part'].iloc[0], 24)}")
    return made


@styled
def against_peers(run: Run, part: str, probes: Collection[str] = ()) -> Figure | None:
    """
    Draw the worst number of each measurement of a part, with the middle 90 % of its peers and what is required.

    Of a curve over message sizes it is the worst of those that something is required of. None without numbers.
    """
    own = through(run, part, probes)
    if own["of_normal"].isna().all():
        return None
    accused = own[own["probe"].isin(probes)] if len(probes) else own[own["outcome"] != "pass"]
    own = accused if len(accused) else own
    own = own.assign(free=own["required_gbps"].isna()).sort_values(["free", "of_normal"], kind="stable")
    own = own.drop_duplicates(["host", "peer_host", "kind", "series"])
    own = own.sort_values("of_normal", kind="stable").head(_MOST_ROWS)
    own = own.assign(normal=own["gbps"] / own["of_normal"], name=own["probe"].str.partition("/")[2])
    own["required"] = own["required_gbps"] / own["normal"]
    others = peers(run, own)
    made = Figure((WIDTH_IN, 1.15 + 0.45 * len(own)), label=f"{part}: its worst numbers beside its peers")
    ax = axes(made, left=0.2, top=0.55)
    seen = [1.0, *own["of_normal"], *own["required"].dropna()]
    for y, one in enumerate(own.itertuples()):
        alike = others["kind"].eq(one.kind) & (others["series"].eq(one.series) | (one.peer_host == one.peer_host))
        low, middle, high = 100 * others.loc[alike, "of_normal"].quantile([0.05, 0.5, 0.95])
        ax.barh(y, high - low, 0.3, low, alpha=0.55, **_PEERS)
        ax.plot([middle] * 2, [y - 0.2, y + 0.2], color=COLOURS["c0"], linewidth=2)
        ax.plot([100 * one.required] * 2, [y - 0.25, y + 0.25], color=COLOURS["ink"], linewidth=1.4)
        across = ax.get_yaxis_transform()
        ax.text(0, y - 0.42, shown_name(one.name, 36), va="center", transform=across)
        numbers = f"{one.gbps:,.0f} of {one.normal:,.0f} Gb/s"
        ax.text(1, y - 0.42, numbers, va="center", ha="right", transform=across)
        seen += [low / 100, high / 100] if alike.any() else []
    ax.plot(100 * own["of_normal"], range(len(own)), "o", ms=5, color=COLOURS["c0"])
    signs(ax, zip(100 * own["of_normal"], range(len(own)), own["outcome"], strict=True), 8)
    ax.set(xlim=(100 * min(seen) - 3, 100 * max(seen) + 2), ylim=(len(own) - 0.6, -0.7), yticks=[])
    ax.set_xlabel("% of normal")
    median = Line2D([], [], color=COLOURS["c0"], label="their median")
    required = [Line2D([], [], color=COLOURS["ink"], label="required")] * bool(own["required"].notna().any())
    legend(ax, _BAND, median, *required)
    return made


def _worst(ax: Axes, own: pd.DataFrame, unit_s: float) -> None:
    """Annotate the worst number in Gb/s where it happened."""
    one = own.loc[own["of_normal"].idxmin()]
    at = one["began_s"] / unit_s
    right = at > ax.get_xlim()[1] * 0.5
    words = f"worst: {one['gbps']:,.0f} of {one['gbps'] / one['of_normal']:,.0f} Gb/s"
    away = (-8 if right else 8, -14)
    made = ax.annotate(words, (at, 100 * one["of_normal"]), away, textcoords="offset points")
    made.set(ha="right" if right else "left")


def _band(others: pd.DataFrame, last_s: float) -> pd.DataFrame:
    """
    Return the middle 90 % of each slice of time, by its begin; one slice if there are few samples.

    The last row closes it.
    """
    known = others[others["of_normal"].notna()]
    slices = _SLICES if len(known) > 20 * _SLICES else 1
    width_s = max(last_s, 1e-9) / slices
    began_s = (known["began_s"] // width_s).clip(0, slices - 1) * width_s
    found = known.groupby(began_s)["of_normal"].quantile([0.05, 0.95]).unstack().reindex(columns=[0.05, 0.95])
    return found.reindex([*found.index, last_s], method="ffill") if len(found) else found


def _warmth(run: Run, part: str) -> pd.DataFrame:
    """Return the readings of a part's temperature sensor: that of its module, else of its GPU or its chip."""
    frame, own = run.counters, Part.of(part)
    found = frame[frame["part"].eq(f"{own.host}/{own.device}") & frame["name"].isin(_HOT) & frame["value"].notna()]
    return found[found["name"].eq(min(found["name"], key=_HOT.index, default=""))]
