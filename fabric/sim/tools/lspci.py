"""``lspci -D -vv -d 15b3:``: the RNICs on PCI with their vital product data, in the layout of pciutils 3.9."""

from __future__ import annotations

from fabric.sim.hosts.hosts import RNIC_PART_NUMBER, pci_address, serial_of_rnic
from fabric.sim.tools.call import Said, ToolCall

WORDS = ("-D", "-vv", "-d", "15b3:")
_ENTRY = """\
{address} Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\tSubsystem: Mellanox Technologies MT2910 Family [ConnectX-7]
\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ FastB2B- DisINTx+
\tNUMA node: {numa}
\tCapabilities: [48] Vital Product Data
\t\tProduct Name: NVIDIA ConnectX-7 HHHL Adapter card, 400GbE / NDR IB (default mode), Single-port OSFP, PCIe 5.0 x16
\t\tRead-only fields:
\t\t\t[PN] Part number: {part_number}
\t\t\t[EC] Engineering changes: A5
\t\t\t[V2] Vendor specific: {part_number}
\t\t\t[SN] Serial number: {serial}
\t\t\t[V0] Vendor specific: PCIeGen5 x16
\t\t\t[RV] Reserved: checksum good, 1 byte(s) reserved
\t\tEnd
\tKernel driver in use: mlx5_core

"""


def lspci(asked: ToolCall) -> Said:
    """One call; only the question of identity is simulated."""
    if asked.words != WORDS:
        return Said(stderr=f"lspci: simulated rack: only `lspci {' '.join(WORDS)}` is simulated\n", status=1)
    entries = [
        _ENTRY.format(
            address=pci_address(asked.site.layout.platform.rnics.index(rnic)),
            numa=rnic.numa,
            part_number=RNIC_PART_NUMBER,
            serial=serial_of_rnic(asked.site, rnic.device),
        )
        for rnic in asked.rnics
    ]
    return Said("".join(sorted(entries)))
