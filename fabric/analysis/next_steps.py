"""What an engineer does next about a suspect, by its kind."""

from __future__ import annotations

from fabric.analysis.candidates import Component
from fabric.model.outcome import Outcome

_REPAIR = {
    "rnic": "check link width and speed (lspci -vv LnkSta, mlxlink -d); reseat or replace the RNIC, then post-repair",
    "path": "check ACS, IOMMU and PCIe width on this path (lspci -vv; nvidia-smi topo -m), then run it again",
    "gpu": "check nvidia-smi -q and dmesg for Xid; reseat or replace the GPU, then post-repair",
    "gpu_pcie": "check the GPU's PCIe width and speed (nvidia-smi -q -d PCIE), then run it again",
    "nvlink": "check nvidia-smi nvlink -s and -e, and the fabric manager; replace GPU or baseboard if errors rise",
    "numa": "check DIMM population and speed of this memory node (dmidecode -t memory)",
    "pcie_switch": "check the switch's uplink width and speed (lspci -vv); reseat the riser or replace the baseboard",
    "cpu_interconnect": "check UPI or xGMI width and BIOS NUMA settings",
    "link": "check the cable and both ports (mlxlink -d ... -c: BER, width); swap the cable first",
    "leaf": "look at the leaf switch first: all its hosts are slow",
    "host": "check all links of this host (mlxlink), then run it with another partner",
    "pair": "run each of the two with another partner: these two alone cannot be told apart",
}

_RECOVER = "we could not measure it: see the evidence; check SSH, the tools and dmesg on the host, then run it again"


def next_step(component: Component, outcome: Outcome) -> str:
    """One sentence; an ERROR asks to mend the measurement, never the fabric."""
    if outcome is Outcome.ERROR:
        return _RECOVER
    return _REPAIR.get(component.kind, "run it again, then compare with its peers")
