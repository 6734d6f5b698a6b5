"""Figures of a run over time: what share of normal every probe kept, changes as bands, counters and sensors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fabric.model.text import counted, unfold
from fabric.report.figures.configurations import collectives
from fabric.report.figures.samples import SHARING, TOGGLES, UPPER, disturbed
from fabric.report.figures.style import COLOURS, axes, hours, legend, shown_name, spans, styled

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

    from fabric.runs.frames import Run

MOST_LINES = 1500
"""More probes are drawn as range, middle 90 % and median of each slice of time (a choice)."""

_SLICES = 200
_MOST_LANES = 8
_PEERS = 8  # fewer parts have nothing to be compared with
_TRAFFIC = "port_xmit_data"  # not an error; figures.load shows it
_UNLIKE = 3.0  # times what most parts count: growth up to that is normal for the fabric (a choice)
_MOST_BANDS = 6


def retained(run: Run) -> pd.DataFrame:
    """
    Return a row for each probe that ran: *began_s*, *ended_s*, and *kept*, its share of normal (NA: no number).

    Normal is what its peers gave. Without peers it is the upper quartile of the same measurement without a fault and
    with the same routing, of at least three groups of hosts, else of its own rounds; else what is required, and more
    than that counts as normal.
    """
    frame = run.samples[run.samples["began_s"].notna()]
    frame = frame.assign(ended_s=frame["ended_s"].fillna(frame["began_s"]))
    lost = frame["outcome"].isin(["fail", "error"]) & frame["gbps"].isna()
    frame = frame[frame["gbps"].notna() | lost]
    routing = collectives(run).drop_duplicates("phase").set_index("phase")["routing"]
    many = {name: len(unfold(name)) for name in frame["hosts"].cat.categories}
    frame = frame.assign(
        routing=frame["phase"].map(routing).astype(object).fillna(""), many=frame["hosts"].map(many).astype(float)
    )
    quiet = frame["gbps"].where(~disturbed(run, frame))
    like = ["kind", "series", "link_class", "rnic", "peer_rnic", "endpoint", "op", "size_bytes", "routing", "many"]
    usual = _usual(frame, quiet, like, "hosts", 3).fillna(_usual(frame, quiet, [*like, "hosts"], "probe", 2))
    usual = usual.mask(frame["kind"].isin(SHARING))
    required = (frame["gbps"] / frame["required_gbps"]).clip(upper=1)
    kept = frame["share"].fillna(frame["gbps"] / usual).fillna(required)
    found = frame[["probe", "began_s", "ended_s"]].assign(kept=kept)
    return found.sort_values("kept").drop_duplicates("probe").sort_values("began_s", ignore_index=True)


def _usual(frame: pd.DataFrame, quiet: pd.Series, like: Sequence[str], of: str, least: int) -> pd.Series:
    """Return the upper quartile of comparable rows, if *least* different values of a column have measured it."""
    keys = frame.groupby(list(like), observed=True, dropna=False).ngroup()
    many = frame[of].where(quiet.notna()).groupby(keys).transform("nunique")
    return keys.map(quiet.groupby(keys).quantile(UPPER)).where(many >= least)


def windows(run: Run) -> pd.DataFrame:
    """
    Return a row for each time a change was in force: *kind*, *part*, *began_s*, *ended_s* (NA: still), *is_fault*.
    """
    import pandas as pd

    rows: list[tuple[Any, ...]] = []
    since: dict[str, Any] = {}
    for one in run.changes.sort_values("at_s", kind="stable").itertuples():
        if one.state == "in_force":
            since.setdefault(one.change, one)
        elif one.change in since and one.state in ("reverted", "failed", "lost", "open"):
            began = since.pop(one.change)
            rows.append((began.kind, began.part, began.at_s, one.at_s))
    rows += [(began.kind, began.part, began.at_s, float("nan")) for began in since.values()]
    found = pd.DataFrame(rows, columns=["kind", "part", "began_s", "ended_s"])
    return found.assign(is_fault=~found["kind"].isin(TOGGLES))


@styled
def timeline(run: Run) -> Figure | None:
    """Draw what share of normal was kept, with changes in force as bands; None if nothing ran."""
    found = retained(run)
    if found.empty:
        return None
    bands = windows(run)
    lanes = list(dict.fromkeys(bands["kind"]))[:_MOST_BANDS]
    made = Figure((9.8, 3.5 + 0.24 * len(lanes)), label="time line: bandwidth kept, and changes in force")
    ax = axes(made, left=1.75 if lanes else 0.75, top=0.45 + 0.24 * len(lanes))
    last_s = float(max(found["ended_s"].max(), bands["ended_s"].fillna(0).max() if len(bands) else 0.0))
    unit_s = hours(ax, last_s * 1.005)
    known = found[found["kept"].notna()]
    lowest = float(known["kept"].min()) if len(known) else 0.0
    floor = 0.0 if lowest < 0.7 else lowest - 0.05
    if len(found) <= MOST_LINES:
        good = known["kept"] >= 0.95
        for members, colour in ((known[good], COLOURS["c0"]), (known[~good], COLOURS["fail"])):
            ax.plot(*_levels(members, unit_s, last_s / unit_s / 400), color=colour, linewidth=3.5)
    else:
        _sliced(ax, known, last_s, unit_s)
    _bands(ax, bands, lanes, last_s, unit_s)
    lost = found.loc[found["kept"].isna(), "began_s"] / unit_s
    ax.plot(lost, [100 * floor + 1.5] * len(lost), "x", color=COLOURS["error"], ms=6, mew=1.8, zorder=5)
    ax.set_ylim(100 * floor, 100 * max(float(known["kept"].max()) + 0.02 if len(known) else 1.0, 1.03))
    ax.set_ylabel("% of normal")
    _keys(ax, binned=len(found) > MOST_LINES, lost=len(lost) > 0, lanes=len(lanes))
    return made


def _levels(rows: pd.DataFrame, unit_s: float, least: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return one line that is interrupted after each probe; no probe is drawn shorter than *least*."""
    import numpy as np

    began, nothing = rows["began_s"] / unit_s, np.full(len(rows), np.nan)
    ended = np.maximum(rows["ended_s"] / unit_s, began + least)
    return np.column_stack([began, ended, nothing]).ravel(), np.repeat(100 * rows["kept"].to_numpy(), 3)


def _sliced(ax: Axes, known: pd.DataFrame, last_s: float, unit_s: float) -> None:
    """Draw slices of time with all probes that ran in each, so that a long probe leaves no hole."""
    import numpy as np
    import pandas as pd

    slices = min(max(len(known) // 25, 20), _SLICES)  # with fewer probes per slice a median only shows which kind ran
    width_s = last_s / slices
    first = (known["began_s"] / width_s).astype(int).clip(0, slices - 1)
    last = np.maximum(first, ((known["ended_s"] - 1e-9) / width_s).astype(int).clip(0, slices - 1))
    last = last.where(last - first >= 4, first)  # a short one counts where it began
    many = (last - first + 1).to_numpy()
    inside = np.arange(many.sum()) - np.repeat(many.cumsum() - many, many)
    every = pd.DataFrame(
        {"slot": np.repeat(first.to_numpy(), many) + inside, "kept": np.repeat(known["kept"].to_numpy(), many)}
    )
    found = every.groupby("slot")["kept"].quantile([0.0, 0.05, 0.5, 0.95, 1.0]).unstack() * 100
    edges = [
        (slot * width_s / unit_s, (slot + 1) * width_s / unit_s, row)
        for slot, row in zip(found.index, found.to_numpy(), strict=True)
    ]
    spans(ax, ((a, row[0], b, row[4]) for a, b, row in edges), COLOURS["c5"], 0.35)
    spans(ax, ((a, row[1], b, row[3]) for a, b, row in edges), COLOURS["c5"], 0.9)
    ax.plot((found.index + 0.5) * width_s / unit_s, found[0.5], color=COLOURS["c0"], linewidth=1.8)


def _bands(ax: Axes, bands: pd.DataFrame, lanes: Sequence[str], last_s: float, unit_s: float) -> None:
    """Draw a lane above for each kind of change; a fault also shades what was measured meanwhile."""
    above, least = ax.get_xaxis_transform(), last_s / 300
    for number, kind in enumerate(lanes):
        own, y = bands[bands["kind"].eq(kind)].drop_duplicates(["began_s", "ended_s"]), 1.04 + 0.095 * number
        colour = COLOURS["c1"] if own["is_fault"].any() else COLOURS["c7"]
        for one in own.itertuples():
            end_s = last_s if one.ended_s != one.ended_s else one.ended_s
            if one.is_fault:
                ax.axvspan(one.began_s / unit_s, end_s / unit_s, color=colour, alpha=0.13, linewidth=0)
            x = [one.began_s / unit_s, max(end_s, one.began_s + least) / unit_s]
            ax.plot(x, [y, y], color=colour, linewidth=6, solid_capstyle="butt", clip_on=False, transform=above)
        parts = own["part"].nunique()
        words = shown_name(kind, 18) + (f", {parts}" if parts > 1 else "")
        ax.text(-0.01, y, words, transform=ax.transAxes, va="center", ha="right")


def _keys(ax: Axes, *, binned: bool, lost: bool, lanes: int) -> None:
    if binned:
        handles = [Line2D([], [], color=COLOURS["c0"], label="median"), Patch(color=COLOURS["c5"], label="middle 90 %")]
        handles.append(Patch(color=COLOURS["c5"], alpha=0.35, label="least to most"))
    else:
        handles = [Patch(color=COLOURS["c0"], label="a probe"), Patch(color=COLOURS["fail"], label="below 95 %")]
    if lost:
        handles.append(Line2D([], [], marker="x", linestyle="none", color=COLOURS["error"], label="no number"))
    if lanes:
        handles.append(Patch(color=COLOURS["c1"], alpha=0.3, label="a fault in force"))
    legend(ax, *handles)


@styled
def counters(run: Run, hosts: Collection[str] = ()) -> Figure | None:
    """
    Draw counters that grew, those of *hosts* first, as growth over time; None if none did.

    A counter that grows alike on most ports (corrected bit errors, pauses) is shown only where it grew more.
    """
    frame = run.counters
    grew = frame[frame["unit"].eq("count") & frame["delta"].gt(0) & frame["name"].ne(_TRAFFIC)]
    total = grew.groupby(["part", "name"], observed=True)["delta"].agg(["sum", "size"]).reset_index()
    on_ports = frame.groupby("name", observed=True)["part"].nunique()
    by_name = total.groupby("name", observed=True)["sum"]
    ports = total["name"].map(on_ports).astype(float)
    usual = by_name.transform("median").where((by_name.transform("size") > ports / 2) & (ports >= _PEERS))
    total = total[~total["sum"].le(_UNLIKE * usual)]
    if total.empty:
        return None
    first = total["part"].astype(str).str.partition("/")[0].isin(set(hosts))
    total = total.assign(first=first, many=total["sum"]).sort_values(["first", "many"], ascending=False)[:_MOST_LANES]
    made = Figure((9.8, 0.65 + 0.75 * len(total)), label="counters that grew")
    last_s = float(frame["at_s"].max())
    for number, one in enumerate(total.itertuples()):
        ax = axes(made, left=0.3, right=0.3, top=0.35 + 0.75 * number, height=0.38)
        unit_s = hours(ax, last_s)
        own = grew[grew["part"].eq(one.part) & grew["name"].eq(one.name)]
        ax.vlines(own["at_s"] / unit_s, 0, own["delta"], color=COLOURS["fail"], linewidth=2)
        most = float(own["delta"].max())
        grown = f"+{one.sum:,.0f} in {counted(len(own), 'step')}, at most +{most:,.0f}"
        ax.set_title(f"{shown_name(one.part, 40)} {shown_name(one.name)}: {grown}")
        ax.set_yticks([])
        ax.set_ylim(0, most * 1.05)
        if number < len(total) - 1:
            ax.set_xlabel("")
            ax.set_xticklabels([])
    return made
