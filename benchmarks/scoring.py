"""What benchmarks of the judge plant in a simulated rack, how they play it, and the one score of what it then names."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from fabric.app.prepare import Given, prepare
from fabric.app.run import run
from fabric.judge.locate.candidates import CORES, SPINES
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.text import unfold
from fabric.model.topology import Topology
from fabric.model.verdict import JudgedRun, Suspect, Verdict
from fabric.wiring import BACKENDS

RIGHT, OFFERED, UNSURE, WRONG, SILENT = FOUND = ("right", "offered", "unsure", "wrong", "silent")
"""
What became of a part that is bad. Right: with n planted, it is among the first n suspects or one of their rivals.
Offered: a later suspect, or one that it is a part of, or that is a part of it. Else wrong: a healthy part FAILs;
unsure: none does, and the verdict is no PASS; silent: PASS.
"""


class Silent:
    """Watches a run and says nothing."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_args: None


@dataclass(frozen=True)
class Planted:
    """A fault: its layer, as ``--fault`` takes it, the names that a verdict may give to what is bad."""

    layer: str
    text: str
    names: frozenset[str]

    @property
    def component(self) -> str:
        """What is bad."""
        return self.text.rpartition(":")[0]


@dataclass(frozen=True)
class Printed:
    """A suspect as it is printed: whether it itself is *bad*, or what is bad is *offered*: beside, in or around it."""

    component: str
    outcome: str
    confidence: float
    bad: bool
    offered: bool


@dataclass(frozen=True)
class Scored:
    """One run: what became of each planted part (FOUND), the healthy parts that FAIL, every suspect."""

    found: tuple[str, ...]
    healthy: tuple[str, ...]
    printed: tuple[Printed, ...]


def played(
    scenario: Path, inventory: Path, faults: Sequence[Planted], *, seed: int, results: Path
) -> tuple[JudgedRun, Topology]:
    """One run on the mock, through the whole product, and where it was."""
    asked = prepare(Given(scenario, inventory=inventory, faults=tuple(fault.text for fault in faults)))
    found = run(
        asked,
        backend="mock",
        executor=BACKENDS["mock"](asked.inventory, seed),
        results=results,
        seed=seed,
        observer=Silent(),  # type: ignore[arg-type]
        reports=False,
    )
    return found.judged, asked.inventory.topology


def scored(verdict: Verdict, faults: Sequence[Planted], topology: Topology) -> Scored:
    """The score of one verdict."""
    suspects = parts_of(verdict, topology)
    failing = [one for one in suspects if one.outcome is Outcome.FAIL]
    healthy = tuple(one.component for one in failing if not any(_touches(one, f, topology) for f in faults))
    printed = tuple(
        Printed(
            one.component,
            one.outcome.value,
            one.confidence,
            bad=any(one.component in f.names for f in faults),
            offered=any(_touches(one, f, topology) for f in faults),
        )
        for one in suspects
    )
    missed = WRONG if healthy else SILENT if verdict.outcome in (Outcome.PASS, Outcome.MARGINAL) else UNSURE
    found = tuple(_found(fault, suspects, len(faults), topology) or missed for fault in faults)
    return Scored(found, healthy, printed)


def save(path: Path, runs: Iterable[tuple[str, int, Sequence[Planted], Scored]]) -> None:
    """Every suspect of *runs* (a name, a seed, what was planted, the score), for `benchmarks/calibration.py`."""
    with path.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(("of", "seed", "planted", *(one.name for one in fields(Printed))))
        for of, seed, faults, score in runs:
            planted = " ".join(fault.text for fault in faults)
            rows.writerows((of, seed, planted, *astuple(one)) for one in score.printed)


def parts_of(verdict: Verdict, topology: Topology) -> list[Suspect]:
    """The suspects without classes: that a fifth of all hosts or more are slow alike says of no part that it is bad."""
    many = len(topology.hosts) / 5
    return [one for one in verdict.suspects if one.kind != "group" or len(one.hosts) < many]


def named(suspect: Suspect) -> frozenset[str]:
    """All that it says it may be."""
    return frozenset((suspect.component, *suspect.ambiguous_with))


def _found(fault: Planted, suspects: Sequence[Suspect], planted: int, topology: Topology) -> str | None:
    if any(fault.names & named(one) for one in suspects[:planted]):
        return RIGHT
    return OFFERED if any(_touches(one, fault, topology) for one in suspects) else None


def _touches(suspect: Suspect, fault: Planted, topology: Topology) -> bool:
    """Whether what is bad is among what it names, in it, or around it."""
    whole = suspect.hosts if suspect.kind in ("pair", "group", "path") else ()
    pod = unfold(suspect.component) if suspect.kind == SPINES else ()
    said = {*named(suspect), *(host for host in whole if len(whole) > 1), *pod}
    return any(_holds(one, bad, topology) or _holds(bad, one, topology) for one in said for bad in fault.names)


def _holds(whole: str, part: str, topology: Topology) -> bool:
    """Whether one is the other, or a part of it: a host, an RNIC or GPU with its paths, a switch with its cables."""
    if whole == part:
        return True
    one, other = Part.of(whole), Part.of(part)
    ends = other.link_ends or ()
    if one.aspect in ("tx", "rx"):  # what a host's side sends or receives: its RNIC, the cable and the leaf port
        return one.host == other.host and one.item in ("", other.device)
    if whole in topology.switches:
        return whole in ends or (other.is_port and _leaf_of(other, topology) == whole)
    if one.aspect == "uplinks":
        return one.host in ends
    if one.aspect == "above" and one.item:  # the way of one RNIC over a cable of its leaf
        return _leaf_of(one, topology) in ends
    tiers = {topology.switches[name].tier for name in (part, *ends) if name in topology.switches}
    if one.aspect == "above":  # the way of all RNICs of a host over one switch
        return part in topology.switches and "leaf" not in tiers
    if whole in (SPINES, CORES):  # all that is between leaves, or pods, where paths are not known
        return "core" in tiers if whole == CORES else bool(tiers - {"leaf"})
    if one.host != other.host or one.aspect:
        return False
    if one.item == "gpus":  # all of a host: tools number the ones that are left without a gap
        return other.item.startswith("gpu")
    return not one.item or (one.item in (other.device, other.end, other.item) and not other.is_port)


def _leaf_of(rnic: Part, topology: Topology) -> str | None:
    """The leaf that the cable of an RNIC leads to; None where the topology does not know the RNIC."""
    host = topology.hosts.get(rnic.host)
    known = None if host is None else host.platform.rnic_by_device.get(rnic.item)
    return None if host is None or known is None else host.leaves[known.rail]
