"""What probes inside a host know of a host's side that pair tests blame: which part it is, or that it is the cable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from fabric.analysis.candidates import host_side
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect

_LEAST_PEERS = 4  # loopbacks of one link class that say what is normal; a choice


class Inside:
    """Suspects of probes within hosts, and how fast each RNIC's loopbacks were beside those of its peers."""

    def __init__(
        self,
        suspects: Sequence[Suspect],
        probes: Sequence[Probe],
        results: Mapping[str, ProbeResult],
        topology: Topology,
    ) -> None:
        self._named = frozenset(suspect.component for suspect in suspects)
        self._topology = topology
        self._ratios = _loopback_ratios(probes, results, topology)

    def explains(self, suspect: Suspect) -> bool:
        """Whether a part of this very host's side was found bad inside the host."""
        if suspect.kind == "host" and len(suspect.hosts) == 1:
            host = suspect.hosts[0]
            return any(name == host or name.startswith((f"{host}/", f"{host}:")) for name in self._named)
        end = _end(suspect)
        return end is not None and any(part.name in self._named for part in host_side(*end, self._topology))

    def refined(self, suspect: Suspect, loss: float) -> Suspect:
        """
        A host's side whose loopback is as fast as others': what is left is the port, the cable or the leaf port.

        *loss* is what pairs lose on it, 0 where that is not known: a loopback tells only if it would show half of it.
        """
        end = _end(suspect)
        ratio = None if end is None else self._ratios.get(end)
        if end is None or ratio is None or loss <= 0.0 or ratio < 1 - loss / 2:
            return suspect
        host, device = end
        return replace(
            suspect,
            component=f"{host}/{device}:port",
            kind="link",
            evidence=(
                f"the port, cable or leaf port of {device}: inside the host its loopback reaches {ratio:.0%} of others",
                *suspect.evidence[1:],
            ),
            next_step="read both ports of the cable (mlxlink -d ... -c: BER, width, FEC); swap the cable first",
        )


def _end(suspect: Suspect) -> tuple[str, str] | None:
    """Host and device of a suspect that is one host's side on one rail."""
    host, slash, device = suspect.component.removesuffix(":tx").removesuffix(":rx").partition("/")
    return (host, device) if slash and suspect.kind == "rnic" else None


def _loopback_ratios(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], topology: Topology
) -> dict[tuple[str, str], float]:
    """By host and RNIC: the median of its loopbacks, each over the median of its link class on hosts of its make."""
    by_class: dict[tuple[object, ...], list[tuple[tuple[str, str], float]]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if probe.kind != "loopback" or result is None or result.outcome is not None or not result.measurements:
            continue
        host = probe.hosts[0]
        platform = topology.hosts[host].platform.name
        key = (platform, probe.params["link_class"], probe.params["size_bytes"])
        end = (host, str(probe.params["rnic"]))
        by_class.setdefault(key, []).append((end, result.measurements[0].value))
    ratios: dict[tuple[str, str], list[float]] = {}
    for measured in by_class.values():
        normal = median(value for _, value in measured)
        if len(measured) >= _LEAST_PEERS and normal > 0:
            for end, value in measured:
                ratios.setdefault(end, []).append(value / normal)
    return {end: median(found) for end, found in ratios.items()}
