"""Scripted runs in which the fabric was changed: phases, probes, results and changes by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.model.change import Change, ChangeResult, Window
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import Phase, Where
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from tests.builders import failure_in
from tests.changes.asked import ber, link_down, port_flap, routing, shield

RETRIES = "gpu001: NCCL WARN NET/IB : Got completion from peer 10.0.0.2 with status=12 opcode=129"
SIZE = 8 << 30


class Script:
    """Collects what one run planned and measured."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self.probes: list[Probe] = []
        self.results: dict[str, ProbeResult] = {}
        self.changes: list[ChangeResult] = []

    def phase(self, label: str, values: Sequence[float | str | None], **more: object) -> Phase:
        """
        A phase with one all-reduce repeated: a number is measured, a text is a FAIL with these words, None is missing.

        *where* and *round* are of the matrix; *pair* the hosts; *starts_s* when the first probe begins, *each_s* lasts
        each; *phase* adds to a phase that is there.
        """
        where: Where = more.get("where", ())  # type: ignore[assignment]
        number: int = more.get("round", 1)  # type: ignore[assignment]
        hosts: tuple[str, ...] = more.get("pair", ("gpu001", "gpu002"))  # type: ignore[assignment]
        starts_s, each_s = float(more.get("starts_s", 0.0)), float(more.get("each_s", 10.0))  # type: ignore[arg-type]
        name = "-".join([label, *(value for _, value in where), str(number)])
        phase = Phase(name, (GroupAllReduceSpec(),), label=label, where=where, round=number)
        if phase not in self.phases:
            self.phases.append(phase)
        for repetition, value in enumerate(values, start=1):
            probe_id = f"{name}/{'+'.join(hosts)}/rings.r{repetition}"
            params: Mapping[str, str | int | tuple[int, ...]]
            params = {"name": "rings", "series": f"{'+'.join(hosts)}/rings", "sizes_bytes": (SIZE,), "ranks": 16}
            self.probes.append(Probe(probe_id, "group_all_reduce", name, hosts, hosts, each_s, params))
            began_s = starts_s + (repetition - 1) * each_s
            if value is not None:
                self.results[probe_id] = _result(probe_id, value, began_s, began_s + each_s)
        return phase

    def change(
        self,
        phase: Phase,
        *windows: tuple[float, float | None],
        kind: str = "ber",
        state: str = "reverted",
        exponent: int = 7,
    ) -> ChangeResult:
        """A change of that phase, in force in these windows."""
        cable = "leaf1--spine1"
        specs = {
            "ber": lambda: ber(cable, raw=f"1e-{exponent}"),
            "port_flap": lambda: port_flap(cable, down=1.0),
            "link_down": lambda: link_down(cable),
            "adaptive_routing": lambda: routing(True),
            "shield": lambda: shield(True),
        }
        change_id = f"{phase.name}/{kind}.leaf1--spine{len(self.changes)}"
        change = Change(change_id, phase.name, cable, "port", specs[kind]())
        reason = "" if state == "reverted" else "because"
        result = ChangeResult(change, state, reason, tuple(Window(*window) for window in windows))
        self.changes.append(result)
        return result


def _result(probe_id: str, value: float | str, began_s: float, ended_s: float) -> ProbeResult:
    if isinstance(value, str):
        outcome = Outcome.ERROR if value.startswith("error") or "remote process" in value else Outcome.FAIL
        return ProbeResult(probe_id, 1, (), outcome, value, began_s, ended_s, failure=failure_in(value))
    rows = (
        Measurement(probe_id, "busbw_out_of_place", value * 1.01, "Gb/s", SIZE),
        Measurement(probe_id, "busbw_in_place", value, "Gb/s", SIZE),
    )
    return ProbeResult(probe_id, 1, rows, None, "", began_s, ended_s)
