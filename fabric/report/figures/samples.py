"""Select the samples of a figure: those of one part and of its peers, and the share of normal that each reached."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from fabric.changes.kinds import KINDS
from fabric.model.part import Part

if TYPE_CHECKING:
    import pandas as pd

    from fabric.runs.frames import Run

UPPER = 0.75
"""
The quantile of comparable samples taken as normal if nothing else defines it: half of them may be slow (a choice).
"""

SHARING = ("link_burn",)
"""Kinds whose flows share cables: each gets what the others leave, so no two are comparable."""

TOGGLES = tuple(name for name, kind in KINDS.items() if not kind.is_fault)
"""Kinds of change that make nothing worse on purpose."""


def through(run: Run, part: str, probes: Collection[str] = ()) -> pd.DataFrame:
    """
    Return the samples that passed through a part, and those of these *probes*, with their share of normal.

    The share is the column ``of_normal``. An RNIC, a GPU, a path or a host is found in columns of the samples; for any
    other part, such as NVLink, ``run.parts`` lists the probes that passed through it.
    """
    frame, name = run.samples, Part.of(part)
    known = (frame["host"].eq(name.host) | frame["peer_host"].eq(name.host)).any()
    if "--" in part or not known or (name.item and not _in_columns(frame, name)):
        passed = run.parts.loc[run.parts["part"].eq(part), "probe"].unique() if not len(probes) else ()
        chosen = frame["probe"].isin(passed)
    elif not name.item:
        chosen = frame["host"].eq(name.host) | frame["peer_host"].eq(name.host)
    else:
        first = frame["rnic"].eq(name.device) | frame["endpoint"].eq(name.device)
        alone = frame["peer_host"].isna()
        chosen = frame["host"].eq(name.host) & (first | (alone & frame["peer_rnic"].eq(name.device)))
        chosen |= frame["peer_host"].eq(name.host) & frame["peer_rnic"].eq(name.device)
        if name.end:
            chosen &= frame["endpoint"].eq(name.end) | (name.end not in frame["endpoint"].cat.categories)
    return with_normal(frame[chosen | frame["probe"].isin(probes)])


def _in_columns(frame: pd.DataFrame, name: Part) -> bool:
    """Return whether columns name the part: an RNIC and what is of it, or all of a GPU or a memory."""
    rnics = {*frame["rnic"].cat.categories, *frame["peer_rnic"].cat.categories}
    return name.device in rnics or (not name.aspect and name.device in frame["endpoint"].cat.categories)


def with_normal(frame: pd.DataFrame) -> pd.DataFrame:
    """
    Return samples with a bandwidth; *of_normal*: the share of what is normal, else of what is required (NA: neither).

    More than required counts as normal: 1.
    """
    found = frame[frame["gbps"].notna() & frame["began_s"].notna()]
    found = found.assign(ended_s=found["ended_s"].fillna(found["began_s"]))
    return found.assign(of_normal=found["share"].fillna((found["gbps"] / found["required_gbps"]).clip(upper=1)))


def peers(run: Run, own: pd.DataFrame) -> pd.DataFrame:
    """Return what the same kinds gave on hosts that nobody suspects, without a fault made on purpose."""
    frame, suspects = run.samples, {Part.of(one).host for one in run.suspects["part"]}
    other = (
        frame["kind"].isin(own["kind"].unique()) & ~frame["host"].isin(suspects) & ~frame["peer_host"].isin(suspects)
    )
    return with_normal(frame[other & ~frame["probe"].isin(own["probe"].unique()) & ~disturbed(run, frame)])


def disturbed(run: Run, frame: pd.DataFrame) -> pd.Series:
    """Return whether a change that makes the fabric worse was in force while each sample was taken."""
    faults = set(run.changes.loc[~run.changes["kind"].isin(TOGGLES), "change"])
    known = frame["change"].cat.categories
    bad = [one for one in known if not faults.isdisjoint(one.split(", "))]
    return frame["change"].isin(bad)
