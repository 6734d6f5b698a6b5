"""Figures of cables between switches: how much each carried, and the light at both of its ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fabric.report.figures.style import COLOURS, SERIES, axes, halo, legend, shown_name, styled, ticks

if TYPE_CHECKING:
    import pandas as pd

    from fabric.runs.frames import Run

_MOST_LEAVES = 24
_LANES = 4


def loads(run: Run) -> pd.DataFrame:
    """
    Return a row for each cable between a leaf and another switch.

    Columns: *part*, *leaf*, *peer*, *gbps* (the mean of the whole run in its busier direction), *changed* (a change of
    this run was in force on it).
    """
    import pandas as pd

    frame = run.links[run.links["sent_gbps"].notna()]
    frame = frame.astype(dict.fromkeys(("part", "node", "port", "peer_node"), object))
    of_hosts = frame["part"].str.endswith(":port")
    leaves = set(frame.loc[of_hosts & frame["part"].ne(frame["node"] + "/" + frame["port"] + ":port"), "node"])
    between = frame[~of_hosts]
    busier = between.groupby("part")["sent_gbps"].max()
    rows = between[between["node"].isin(leaves)].drop_duplicates("part")
    in_force = run.changes[run.changes["state"].eq("in_force")]
    changed = set(in_force["part"].astype(str))
    columns = {"leaf": rows["node"], "peer": rows["peer_node"], "gbps": rows["part"].map(busier)}
    return pd.DataFrame({"part": rows["part"], **columns, "changed": rows["part"].isin(changed)}).reset_index(drop=True)


@styled
def load(run: Run) -> Figure | None:
    """
    Draw a row for each leaf, the most loaded first, with a dot for each of its cables upward.

    The most loaded cable has its name; a ring marks those changed on purpose. None if nobody read how much ports sent
    (``sample:`` on InfiniBand).
    """
    found = loads(run)
    if found.empty:
        return None
    most = found.groupby("leaf")["gbps"].max().sort_values(ascending=False)[:_MOST_LEAVES]
    made = Figure((9.8, 1.05 + 0.26 * len(most)), label="load of the cables of each leaf")
    ax = axes(made, left=1.75, right=2.2)
    shown = found[found["leaf"].isin(most.index)]
    shown = shown.assign(row=shown["leaf"].map(list(most.index).index)).sort_values("gbps")
    first, rings = shown.drop_duplicates("leaf", keep="last"), shown[shown["changed"]]
    ax.plot(shown["gbps"], shown["row"], "o", color=COLOURS["c5"], ms=5, alpha=0.8, label="a cable upward")
    ax.plot(first["gbps"], first["row"], "D", color=COLOURS["c0"], ms=6, label="the most loaded of its leaf")
    if len(rings):
        ax.plot(
            rings["gbps"], rings["row"], "o", ms=12, mew=2, mfc="none", mec=COLOURS["c1"], label="changed on purpose"
        )
    for one in first.itertuples():
        ax.annotate(f"to {shown_name(one.peer, 22)}", (1.02, one.row), xycoords=("axes fraction", "data"), va="center")
    ticks(ax.yaxis, list(most.index), range(len(most)))
    ax.set(xlabel="Gb/s, mean of the whole run, busier direction", xlim=(0, 1.05 * float(most.max()) or 1.0))
    ax.set_ylim(len(most) - 0.4, -0.6)
    legend(ax, *ax.lines)
    return made


@styled
def light(run: Run, part: str) -> Figure | None:
    """
    Draw what each lane of a cable receives at both ends, with the alarm limits of its modules; None without readings.
    """
    frame = run.links[run.links["part"].eq(part)]
    names = [f"rx{lane}_dbm" for lane in range(_LANES)]
    frame = frame[frame[names].notna().any(axis=1)]
    if frame.empty:
        return None
    made = Figure((5.2, 2.4), label=f"{part}: light that each lane receives")
    ax = axes(made, bottom=0.4)
    ends = [f"{one.node} {one.port}" for one in frame.itertuples()]
    for number, one in enumerate(frame[[*names, "rx_low_dbm", "rx_high_dbm"]].itertuples(index=False)):
        for lane, dbm in enumerate(one[:_LANES]):
            x = number + 0.2 * (lane - 1.5)
            ax.plot([x], [dbm], "os^D"[lane], color=SERIES[0], ms=7)
            ax.annotate(str(lane), (x, dbm), (0, 7), textcoords="offset points", ha="center", path_effects=[halo()])
        for limit in one[_LANES:]:
            ax.plot([number - 0.42, number + 0.42], [limit, limit], "--", color=COLOURS["fail"], linewidth=1.5)
    ticks(ax.xaxis, ends, range(len(ends)), most=40)
    ax.set(xlim=(-0.6, len(ends) - 0.4), ylabel="dBm received")
    ax.margins(y=0.25)
    legend(ax, Line2D([], [], linestyle="--", color=COLOURS["fail"], label="alarm limit of the module"))
    return made
