"""One simulated host while it runs: what is shared there now, who listens, and how often a command was started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fabric.model.topology import Gpu, Host
from fabric.sim.capacity import Layout, Path
from fabric.sim.faults import HostFaults
from fabric.sim.hashing import text_hash
from fabric.sim.life.drift import Drift
from fabric.sim.life.load import Load
from fabric.sim.life.whims import Swing

if TYPE_CHECKING:
    from fabric.sim.flows import Flow
    from fabric.sim.write_bw import Server


class Site:
    """The state of one host; made when the first command reaches it."""

    __slots__ = (
        "_ceilings", "_dents", "_troubles", "addresses", "capacities", "carried", "dents", "down", "faults",
        "flows", "heat", "host", "layout", "name_hash", "servers", "starts", "swings", "users",
    )  # fmt: skip

    def __init__(self, host: Host, layout: Layout, faults: HostFaults | None) -> None:
        self.host = host
        self.layout = layout
        self.faults = faults
        self.name_hash = text_hash(host.name)
        self.capacities = layout.capacities if faults is None else _degraded(layout, faults.factors)
        self.users = [0] * len(layout.capacities)
        self.flows: list[Flow] = []
        self.carried: dict[tuple[int, ...], Load] = {}  # the flows that ended, by the capacities they used
        self.down: set[str] = set()  # RNICs whose port was taken down since the start
        self.dents: dict[int, float] = {}  # capacities of which less is left now: the least of what is in _dents
        self._dents: dict[int, dict[str, float]] = {}  # by what took the rest: a port, a fault that came
        self.swings: dict[str, Swing] = {}  # modules that warm and cool by turns
        self.heat: dict[str, Drift] = {}  # parts that run hot, or did: degrees more than their load explains
        self.servers: dict[int, Server] = {}  # TCP port to who listens, or will
        self.starts: dict[int, int] = {}  # hash of a command to how often it was started here
        self.addresses: dict[str, str] = {}  # what the tools print for an RNIC
        self._ceilings: dict[Path, float] = {}
        self._troubles: dict[Path, str | None] = {}

    @property
    def running(self) -> tuple[Flow, ...]:
        """Every flow here once; *flows* has one that uses several sets of capacities once for each."""
        return tuple(dict.fromkeys(self.flows))

    def load(self, resources: tuple[int, ...]) -> Load:
        """What has run over exactly these capacities until now."""
        found = self.carried.get(resources)
        if found is None:
            found = self.carried[resources] = Load()
        return found

    def dent(self, by: str, index: int, left_gbps: float | None) -> None:
        """Something leaves a capacity only so much from now on; None: it takes nothing any more."""
        held = self._dents.setdefault(index, {})
        if left_gbps is not None:
            held[by] = left_gbps
        else:
            held.pop(by, None)
        if held:
            self.dents[index] = min(held.values())
        else:
            del self._dents[index]
            self.dents.pop(index, None)

    def turn(self, faults: HostFaults | None, slow: HostFaults | None) -> None:
        """Other faults from now on; *slow* holds what bends capacities for what runs already, too."""
        self.faults = faults
        self.capacities = self.layout.capacities if faults is None else _degraded(self.layout, faults.factors)
        self._ceilings.clear()
        self._troubles.clear()
        left = self.capacities if slow is None else _degraded(self.layout, slow.factors)
        stuck = set() if faults is None else faults.stuck
        for name, index in self.layout.index.items():
            gone = name in stuck or name.partition(":")[0] in stuck
            left_gbps = 0.0 if gone else left[index] if left[index] < self.capacities[index] else None
            if left_gbps is not None or index in self._dents:
                self.dent("fault", index, left_gbps)

    def ceiling_gbps(self, path: Path) -> float:
        """What a transfer alone on this path gets in this very host."""
        if self.faults is None:
            return path.ceiling_gbps
        found = self._ceilings.get(path)
        if found is None:
            found = self._ceilings[path] = self._ceiling(path, self.faults)
        return found

    def _ceiling(self, path: Path, faults: HostFaults) -> float:
        found = min(path.ceiling_gbps, *(self.capacities[index] for index in path.resources))
        if "" in faults.factors:
            found = min(found, faults.factors[""] * path.ceiling_gbps)
        for part in path.parts:
            factor = faults.factors.get(part)
            if factor is None:
                continue
            # A slow path keeps its share of what that path gives when healthy; a slow part, of what an RNIC can ask.
            found = min(found, factor * (path.ceiling_gbps if "->" in part else path.rnic_gbps))
        return found

    def trouble(self, path: Path) -> str | None:
        """``broken`` or ``hanging`` when something on the path is, else None; hanging hides broken."""
        if self.faults is None or not self.faults.troubles:
            return "broken" if self.down.intersection(path.parts) else None
        if path not in self._troubles:
            kinds = {self.faults.troubles.get(part) for part in path.parts}
            worst = "hanging" if "hanging" in kinds else "broken" if kinds & {"broken", "absent"} else None
            self._troubles[path] = worst
        return self._troubles[path] or ("broken" if self.down.intersection(path.parts) else None)

    def trouble_of(self, component: str) -> str | None:
        """What is wrong with one component, None when nothing is or it is merely slow."""
        trouble = None if self.faults is None else self.faults.troubles.get(component)
        return "broken" if trouble is None and component in self.down else trouble

    def present_gpus(self) -> tuple[Gpu, ...]:
        """Its GPUs by the number that the driver and CUDA give them: those that are there, without a gap."""
        gpus = self.layout.platform.gpus
        if self.faults is None or "absent" not in self.faults.troubles.values():
            return gpus
        return tuple(gpu for gpu in gpus if self.trouble_of(gpu.name) != "absent")

    def started(self, command_hash: int) -> int:
        """Count one more start of a command; returns how many there were before."""
        before = self.starts.get(command_hash, 0)
        self.starts[command_hash] = before + 1
        return before


def _degraded(layout: Layout, factors: Mapping[str, float]) -> list[float]:
    """Capacities where slow parts keep *factor* of what one RNIC can ask of them (NVLink: of its own)."""
    capacities = list(layout.capacities)
    whole = factors.get("", 1.0)
    for name, index in layout.index.items():
        component, way = name.split(":")
        if way == "nvlink":
            factor = factors.get(f"{component}:nvlink")
            full_gbps = capacities[index]
        elif way in ("out", "in"):
            factor = factors.get(f"{component}:leaf")
            full_gbps = capacities[index]
        else:
            factor = factors.get(component)
            full_gbps = min(capacities[index], layout.top_rnic_gbps)
        if factor is not None:
            capacities[index] = factor * full_gbps
        capacities[index] *= whole
    return capacities
