"""What speaks against a suspect, in a few lines that a person can check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fabric.model.units import change_text
from fabric.model.verdict import ProbeVerdict

_LINES = 5


def evidence_lines(bad: Sequence[tuple[str, ProbeVerdict]]) -> list[str]:
    """
    Numbers as ranges per kind and limit with the worst probe, what tools said once each with its count.

    *bad* holds (kind, verdict) of each bad probe.
    """
    measured: dict[tuple[str, float, str], list[ProbeVerdict]] = {}
    said: dict[str, list[str]] = {}
    for kind, verdict in bad:
        if verdict.value_gbps is not None and verdict.required_gbps is not None:
            measured.setdefault((kind, verdict.required_gbps, verdict.against), []).append(verdict)
        else:
            said.setdefault(verdict.reason, []).append(verdict.probe_id)
    lines = [_range(*key, group) for key, group in measured.items()]
    lines += [_quote(reason, ids) for reason, ids in sorted(said.items(), key=lambda item: -len(item[1]))]
    rest = len(lines) - _LINES
    return lines if rest <= 0 else [*lines[:_LINES], f"and {rest} more lines like these in verdict.json"]


def _range(kind: str, required_gbps: float, against: str, group: Iterable[ProbeVerdict]) -> str:
    values = sorted((verdict.value_gbps or 0.0, verdict.probe_id) for verdict in group)
    (least, worst), most = values[0], values[-1][0]
    numbers = f"{least:.1f}" if least == most else f"{least:.1f} to {most:.1f}"
    share = change_text(least / required_gbps)
    what = f"{against} is {required_gbps:.1f}" if against else f"at least {required_gbps:g} required"
    return f"{len(values)} {kind}: {numbers} Gb/s, {what}; worst {share}: {worst}"


def _quote(reason: str, ids: Sequence[str]) -> str:
    return f"{ids[0]}: {reason}" if len(ids) == 1 else f"{len(ids)} times, first {ids[0]}: {reason}"
