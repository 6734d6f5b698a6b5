"""Verdicts, parts and suspects in words that need no knowledge of our names, and the commands to type next."""

from collections.abc import Sequence
from statistics import median

from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.scenario import MEAN, ExpectedRatio, Where
from fabric.model.text import counted, duration_text, fold, some
from fabric.model.verdict import JudgedRun, Suspect, TrainingImpact, Verdict

_MEANING = {
    Outcome.PASS: "everything measured and good",
    Outcome.SKIPPED: "nothing failed, but not everything that was asked for was measured",
    Outcome.MARGINAL: "good, but near a limit",
    Outcome.INCONCLUSIVE: "not enough was measured, or there is no limit to judge by",
    Outcome.ERROR: "the testbench could not measure everything",
    Outcome.FAIL: "the fabric is bad",
}


def meaning(judged: JudgedRun) -> str:
    """
    Return the outcome in words.

    A missed expectation alone is not a bad part. A change that may be live comes first, then that the run goes on, or
    ended early.
    """
    verdict = judged.verdict
    failed = verdict.outcome is Outcome.FAIL
    clauses = []
    open_ = sum(result.state == "open" for result in verdict.changes)
    if open_:
        live = "may be live while it goes on" if judged.goes_on else "may still be live on the fabric"
        clauses.append(f"{counted(open_, 'change')} {live}")
    if judged.goes_on:
        clauses.append("the run goes on, and this is what was measured until now")
    elif not judged.complete:
        clauses.append("the run ended before everything was measured")
    missed = sum(found.outcome is Outcome.FAIL for found in verdict.expectations)
    if missed and not any(probe.outcome is Outcome.FAIL for probe in verdict.probes):
        clauses.append(f"{missed} of {len(verdict.expectations)} expectations not met")
    elif failed or not clauses:
        clauses.append(_MEANING[verdict.outcome])
        unlimited = sum(probe.outcome is Outcome.INCONCLUSIVE for probe in verdict.probes)
        if unlimited and verdict.outcome.is_good:
            clauses.append(f"{unlimited} of the numbers {'has' if unlimited == 1 else 'have'} no limit")
    return "; ".join(clauses)


def commands(judged: JudgedRun) -> tuple[tuple[str, str], ...]:
    """
    Return what to type first, as (what it does, command): take back what is open, then measure what is left.

    A run that goes on does both itself; for it, how to look at it and how to end it.
    """
    if judged.goes_on:
        return ("How far", f"fabric status {judged.path}"), ("End it", f"fabric stop {judged.path}")
    found = []
    if any(result.state == "open" for result in judged.verdict.changes):
        found.append(("Take back", f"fabric restore {judged.path}"))
    if judged.go_on:
        found.append(("Go on", judged.go_on))
    return tuple(found)


_DAY_S = 86_400.0
_LEAST = 0.005


def impact_line(impact: TrainingImpact) -> str:
    """
    Return ``a 1,024-GPU job on this fleet: MTTF 7.9 h, expected ETTR 0.93``, then its basis, or why it is unknown.
    """
    return "; ".join((f"a {impact.gpus:,}-GPU job on this fleet: {_numbers(impact)}", *impact.notes))


def _numbers(impact: TrainingImpact) -> str:
    least = "at least " if impact.bound else ""
    numbers = []
    if impact.mttf_s is not None:
        numbers.append(f"MTTF {least}{_time(impact.mttf_s)}")
    if impact.ettr is not None and not (impact.bound and impact.ettr < _LEAST):  # "at least 0.00" says nothing
        numbers.append(f"expected ETTR {least}{impact.ettr:.2f}")
    return ", ".join(numbers) if numbers else "nothing can be said"


def _time(seconds: float) -> str:
    if seconds < 3600:
        return duration_text(seconds)
    return f"{seconds / 3600:.1f} h" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:.1f} days"


_MOST_FAULTS = 3
_WHOLE = {"leaf": "leaf switch", "host": "host", "traffic_class": "RoCE traffic class of"}
_GROUPS = {"-gpus": "the GPUs of NUMA {}", "-side": "NUMA {} and its GPUs"}


def part_words(name: str, kind: str = "") -> str:
    """Return ``gpu003 PCIe path mlx5_2 to the GPUs of NUMA 1``; a name of unknown form is returned as it is."""
    part = Part.of(name)
    if kind in _WHOLE:
        return f"{_WHOLE[kind]} {name}"
    if kind == "pair" and "+" in name:
        return f"the pair {' and '.join(name.split('+', 1))}"
    if "--" in part.host or ("->" in part.host and not part.item):
        return f"cable {name}"
    if not part.item or "," in name:
        return name
    return f"{part.host} {_inside(part, kind)}"


def _inside(part: Part, kind: str) -> str:
    device = _numbered(part.device)
    if part.end:
        return f"PCIe path {device} to {_end(part.end)}"
    if part.aspect in ("port", "tx", "rx"):
        way = {"tx": " (sending)", "rx": " (receiving)"}.get(part.aspect, "")
        return f"port and cable of {device}{way}"
    if part.aspect == "nvlink" or kind == "nvlink":
        return f"{device} NVLink".removeprefix("nvlink ")
    words = {"rnic": f"RNIC {device}", "gpu_pcie": f"{device} PCIe", "pcie_switch": f"PCIe switch {device}"}
    aspect = f" {part.aspect}" if part.aspect and kind not in words else ""
    return words.get(kind, f"{device}{aspect}".replace("cpu-interconnect", "link between its CPUs"))


def _end(end: str) -> str:
    for ending, words in _GROUPS.items():
        if end.endswith(ending) and end.startswith("numa"):
            return words.format(end.removeprefix("numa").removesuffix(ending))
    return f"the memory of {_numbered(end)}" if end.startswith("numa") else _numbered(end)


def _numbered(name: str) -> str:
    """Return ``GPU 5`` for ``gpu5``; RNICs keep their device's name."""
    for letters, word in (("gpu", "GPU"), ("numa", "NUMA")):
        if name.startswith(letters) and name[len(letters) :].isdigit():
            return f"{word} {name[len(letters) :]}"
    return name


def faults_line(verdict: Verdict) -> str:
    """
    Return ``2 faults: gpu003 PCIe path ...; gpu006 GPU 5 NVLink``, and hosts that were left out of later phases.

    Empty if nothing is suspected.
    """
    bad = [one for one in verdict.suspects if one.outcome is Outcome.FAIL]
    unknown = [one for one in verdict.suspects if one.outcome is Outcome.ERROR]
    clauses = [f"{counted(len(bad), 'fault')}: {_some(bad)}"] if bad else []
    clauses += [f"could not be measured: {_some(unknown)}"] if unknown else []
    if clauses and (silent := _not_judged(verdict)):
        clauses.append(f"not measured to the end: {fold(silent)}")
    return "; ".join(clauses)


def _not_judged(verdict: Verdict) -> list[str]:
    """Return hosts that nobody suspects but whose parts were not measured to the end: they were left out."""
    open_ = {one.component for one in verdict.components if one.outcome in _UNMEASURED}
    suspected = {host for one in verdict.suspects for host in one.hosts}
    return sorted({Part.of(name).host for name in open_ if "/" in name and Part.of(name).host in open_} - suspected)


_UNMEASURED = {Outcome.SKIPPED, Outcome.INCONCLUSIVE, Outcome.ERROR}


def _some(suspects: Sequence[Suspect]) -> str:
    return some([part_words(one.component, one.kind) for one in suspects], _MOST_FAULTS, "; ")


_ALIKE = 1.1
"""Shares within a tenth of each other are shown as one number; others as a range (a choice)."""


def _kept(shares: Sequence[float]) -> str:
    """Return ``99.9 %``, or ``9.04 to 99.7 %`` for faults of several sizes."""
    if max(shares) <= _ALIKE * min(shares):
        return f"{100 * median(shares):.3g} %"
    return f"{100 * min(shares):.3g} to {100 * max(shares):.3g} %"


def _routing(where: Where) -> str:
    return dict(where).get("adaptive_routing", "")


def kept_line(judged: JudgedRun) -> str:
    """
    Return ``with adaptive routing the job kept 99.9 %, without 31.5 %``: what faults made on purpose left, by routing.

    It is the expected ratio of their phase over one without them; without such an expectation, the share of the largest
    messages. Empty if no fault was made, or nothing says what it left.
    """
    verdict, asked = judged.verdict, judged.scenario
    phases = {one.name: one for one in asked.phases}
    faults = {one.change.change_id: phases.get(one.change.phase) for one in verdict.changes if one.change.is_fault}
    made = ((faults[one.change_id], one.retained) for one in verdict.effects if one.change_id in faults)
    by_routing = gathered((_routing(phase.where) if phase else "", kept) for phase, kept in made if kept is not None)
    faulty = {phase.written for phase in faults.values() if phase is not None}
    expected: dict[str, list[float]] = {}
    for wanted, found in zip(asked.expect, verdict.expectations, strict=False):
        if isinstance(wanted, ExpectedRatio) and wanted.over is not None and found.value is not None:
            of, over = wanted.of, wanted.over
            if of.where == over.where and of.label in faulty and over.label not in faulty and wanted.statistic == MEAN:
                expected.setdefault(_routing(of.where), []).append(found.value)
    kept = {word: _kept(values) for word, values in (by_routing | expected).items()}
    if {"on", "off"} <= kept.keys():
        return f"with adaptive routing the job kept {kept['on']}, without {kept['off']}"
    return f"while a fault was made the job kept {next(iter(kept.values()))}" if kept else ""
