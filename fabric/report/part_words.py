"""Parts and suspects in words that somebody who never saw our names understands, and where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.verdict import Suspect, Verdict
from fabric.report.output import counted, some

_MOST = 3
_GROUPS = {"-gpus": "the GPUs of NUMA {}", "-side": "NUMA {} and its GPUs"}


def part_words(name: str, kind: str = "") -> str:
    """``gpu003 PCIe path mlx5_2 to the GPUs of NUMA 1``; a name of no known form is left as it is."""
    part = Part.of(name)
    if kind in ("leaf", "host"):
        return f"{'leaf switch' if kind == 'leaf' else 'host'} {name}"
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
        return f"{device} NVLink"
    words = {"rnic": f"RNIC {device}", "gpu_pcie": f"{device} PCIe", "pcie_switch": f"PCIe switch {device}"}
    aspect = f" {part.aspect}" if part.aspect and kind not in words else ""
    return words.get(kind, f"{device}{aspect}".replace("cpu-interconnect", "link between its CPUs"))


def _end(end: str) -> str:
    for ending, words in _GROUPS.items():
        if end.endswith(ending) and end.startswith("numa"):
            return words.format(end.removeprefix("numa").removesuffix(ending))
    return f"the memory of {_numbered(end)}" if end.startswith("numa") else _numbered(end)


def _numbered(name: str) -> str:
    """``GPU 5`` of ``gpu5``; RNICs are known by their device's name."""
    for letters, word in (("gpu", "GPU"), ("numa", "NUMA")):
        if name.startswith(letters) and name[len(letters) :].isdigit():
            return f"{word} {name[len(letters) :]}"
    return name


def faults_line(verdict: Verdict) -> str:
    """``2 faults: gpu003 PCIe path ...; gpu006 GPU 5 NVLink``; empty where nothing is suspected."""
    bad = [one for one in verdict.suspects if one.outcome is Outcome.FAIL]
    unknown = [one for one in verdict.suspects if one.outcome is Outcome.ERROR]
    said = [f"{counted(len(bad), 'fault')}: {_some(bad)}"] if bad else []
    return "; ".join([*said, *([f"could not be measured: {_some(unknown)}"] if unknown else [])])


def _some(suspects: Sequence[Suspect]) -> str:
    return some([part_words(one.component, one.kind) for one in suspects], _MOST, "; ")


def stands(place: Mapping[str, object]) -> str:
    """``rack r0; leaf su0-leaf2; serial number MT2346X98243``, as far as a row of the suspects' frame knows it."""
    words = {"rack": "rack", "leaf_port": "leaf", "serial": "serial number"}
    return "; ".join(f"{word} {place[name]}" for name, word in words.items() if isinstance(place.get(name), str))


def kept_line(verdict: Verdict) -> str:
    """
    ``with adaptive routing the job kept 99.9 %, without 31.5 %``: what faults made on purpose left, by routing.

    Without such a comparison what they left in all; empty where no fault was made, or nothing says what it left.
    """
    by_routing: dict[str, list[float]] = {}
    faults = {one.change.change_id: one.change for one in verdict.changes if one.change.is_fault}
    for effect in verdict.effects:
        if effect.change_id in faults and effect.retained is not None:
            phase = faults[effect.change_id].phase
            word = next((word for word in ("on", "off") if f"adaptive_routing-{word}" in phase), "")
            by_routing.setdefault(word, []).append(effect.retained)
    kept = {word: f"{100 * median(values):.3g} %" for word, values in by_routing.items()}
    if {"on", "off"} <= kept.keys():
        return f"with adaptive routing the job kept {kept['on']}, without {kept['off']}"
    return f"while a fault was made the job kept {next(iter(kept.values()))}" if kept else ""
