"""What an engineer does next about a suspect, by its kind."""

from __future__ import annotations

from fabric.model.outcome import Outcome

_REPAIR = {
    "rnic": "check link width and speed (lspci -vv LnkSta, mlxlink -d); reseat or replace the RNIC, then run it again",
    "path": "check ACS, IOMMU and PCIe width on this path (lspci -vv; nvidia-smi topo -m), then run it again",
    "gpu": "check nvidia-smi -q and dmesg for Xid; reseat or replace the GPU, then run it again",
    "gpu_pcie": "check the GPU's PCIe width and speed (nvidia-smi -q -d PCIE), then run it again",
    "nvlink": "check nvidia-smi nvlink -s and -e, and the fabric manager; replace GPU or baseboard if errors rise",
    "numa": "check DIMM population and speed of this memory node (dmidecode -t memory)",
    "pcie_switch": "check the switch's uplink width and speed (lspci -vv); reseat the riser or replace the baseboard",
    "cpu_interconnect": "check UPI or xGMI width and BIOS NUMA settings",
    "link": "check the cable and both ports (mlxlink -d ... -c: BER, width); swap the cable first",
    "leaf": "look at the leaf switch first: all hosts on it show the same",
    "uplinks": "measure between hosts across these leaves (localise), which names the cable or spine",
    "host": "check all links of this host (mlxlink), then run it with another partner",
    "gpus": "its RNICs are well one by one, so leave the cables: check the GPUs' clocks, PCIe width and speed "
    "(nvidia-smi -q) and Xid errors (dmesg); if that does not help, look at its host",
    "rack": "look up what happened in this rack at that time: power, cooling, what was changed on all of its hosts",
    "pair": "run each of the two with another partner: these two alone cannot be told apart",
}

_ALONE = {
    "host": "it was measured alone: compare with other endpoints (another memory node: numactl --hardware; a GPU); "
    "then what all its RNICs share: PCIe width and speed (lspci -vv LnkSta), BIOS and power settings, memory",
}
"""Next steps by kind, where every bad probe stayed on one host."""

_NAMED = {
    "link down": "check both ends of the cable (mlxlink on the host, the switch port's state); swap the cable first",
    "host down": "no port of the host is up: check its cables, and whether the subnet manager or switch sees it",
    "rnic absent": "check the name in the inventory (ibv_devices on the host), then lspci; reseat or replace it",
    "gpu absent": "count the GPUs (nvidia-smi -L; lspci -d 10de:; dmesg for Xid 79): the bus address or serial number "
    "that is missing is the one to reseat or replace",
    "host absent": "none of its RNICs is there: check the driver (lsmod, dmesg) and lspci on the host",
}
"""Next steps by kind and by what a tool itself said of the part."""

_MISSING_GPU = (
    "we could not measure it: see whether the host has this GPU at all (nvidia-smi -L; dmesg for Xid), then run the "
    "command of raw/ by hand"
)

_RECOVER = {
    "host": "we could not measure it: check power, SSH and dmesg of the host, then run it again",
    "refusing": "it is up, but SSH lets us run nothing there: mend what the reason says (key, known_hosts or its "
    "sshd_config), then run it again",
    "behind": "nothing is known of it, for a jump host on the way to it cannot be passed: mend that, or jump: under "
    "ssh: in the inventory, then run it again",
    "gpu": _MISSING_GPU,
    "gpu_pcie": _MISSING_GPU,
    "nvlink": "we could not measure it: check nvidia-smi nvlink -s, the fabric manager and dmesg (Xid), then run the "
    "command of raw/ by hand",
    "bare": "load its RDMA driver (lsmod, dmesg; modprobe mlx5_ib), or look for its RNICs (lspci), then run it again",
    "inventory": "correct the inventory, then run it again",
    "killed": "a signal that fabric did not send ended a program of the probes there: SIGKILL is mostly the kernel's, "
    "for want of memory (dmesg: oom-kill; free -g; the limit of the cgroup), SIGSEGV and SIGBUS are the program's own: "
    "mend that, then run it again",
    "lacking": "a program that the probes call is not there, or a library that it needs: fabric check SCENARIO says "
    "what to install, or name it under tools: of the platform",
    "other_mpi": "its mpirun is not Open MPI's: name Open MPI's under tools: of the platform",
    "unbuilt": "its perftest is built without CUDA, ROCm or DMA-BUF: build it with that (./configure "
    "CUDA_H_PATH=.../cuda.h, or --enable-rocm) and name it under tools: of the platform, or measure host memory only "
    "(use_cuda: no); fabric check SCENARIO asks each host",
    "outdated": "its perftest does not know an option that it was given: install the version of the other hosts "
    "(fabric check SCENARIO compares them)",
    "unreached": "no packet was sent, for this RNIC's address has no way to the other one's: on its host ip route get "
    "and ip neigh to that address, policy routing where two rails are in one subnet, and gid_index of the platform",
}


def next_step(kind: str, outcome: Outcome, condition: str | None = None, *, alone: bool = False) -> str:
    """
    Return the next step in one sentence.

    *condition* is what a tool itself named; *alone*: no probe that failed had a partner. For an ERROR the step is to
    mend the measurement, not the fabric.
    """
    if outcome is Outcome.ERROR:
        found = _RECOVER.get(condition or "") or _RECOVER.get(kind)
        return found or "we could not measure it: check dmesg on the host, and run the command of raw/ by hand"
    if named := _NAMED.get(f"{kind} {condition}"):
        return named
    if alone and kind in _ALONE:
        return _ALONE[kind]
    return _REPAIR.get(kind, "run it again, then compare with its peers")
