"""``ethtool``: counters of the mlx5 interfaces of a RoCE host."""

from __future__ import annotations

from fabric.sim.phy.port import Counts, Port, lanes, packets
from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.ip_link import MANAGEMENT, interfaces


def ethtool(asked: ToolCall) -> Said:
    """One call: ``ethtool -S NAME``."""
    flags = [word for word in asked.words if word.startswith("-")]
    names = [word for word in asked.words if not word.startswith("-")]
    if len(names) != 1 or flags not in (["-S"], ["--statistics"]):
        return Said(stderr="ethtool: bad command line argument(s)\nFor more information run ethtool -h\n", status=1)
    ports = interfaces(asked)
    port = ports.get(names[0])
    if port is None or not port.node.ethernet:
        if names[0] in ports or names[0] == MANAGEMENT:
            return Said(stderr="no stats available\n", status=94)
        return Said(stderr="Cannot get device settings: No such device\n", status=71)
    return Said(_statistics(asked, port))


def _statistics(asked: ToolCall, port: Port) -> str:
    """RDMA bytes pass the kernel by: they are in the ``vport_rdma`` and ``_phy`` counters only."""
    counts = asked.ports.counts(port, asked.at_s, view="ethtool")
    by_lane = lanes(counts)
    received, sent = int(counts.received_gb * 1e9 / 8), int(counts.sent_gb * 1e9 / 8)
    lost = counts.effective_errors
    rows = {
        "rx_packets": 0,
        "rx_bytes": 0,
        "tx_packets": 0,
        "tx_bytes": 0,
        "rx_vport_rdma_unicast_packets": packets(counts.received_gb),
        "rx_vport_rdma_unicast_bytes": received,
        "tx_vport_rdma_unicast_packets": packets(counts.sent_gb),
        "tx_vport_rdma_unicast_bytes": sent,
        "tx_packets_phy": packets(counts.sent_gb),
        "rx_packets_phy": packets(counts.received_gb),
        "rx_crc_errors_phy": lost,
        "tx_bytes_phy": sent,
        "rx_bytes_phy": received,
        "rx_symbol_err_phy": lost,
        "link_down_events_phy": int(counts.downed),
        **_pauses(port, counts),
        "rx_discards_phy": 0,
        "tx_discards_phy": 0,
        "rx_pcs_symbol_err_phy": lost,
        "rx_corrected_bits_phy": counts.corrected_errors,
        **{f"rx_err_lane_{lane}_phy": errors for lane, errors in enumerate(by_lane)},
    }
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in rows.items())


def _pauses(port: Port, counts: Counts) -> dict[str, int]:
    """PFC on the priority of RDMA: the leaf stops a host that sends more than can go on, one longest pause a time."""
    longest_s = 65535 * 512 / (port.rate_gbps * 1e9)
    frames = int(counts.waited_s / longest_s)
    return {
        "rx_pause_ctrl_phy": frames,
        "tx_pause_ctrl_phy": 0,
        "rx_prio3_pause": frames,
        "rx_prio3_pause_duration": int(counts.waited_s * 1e6),
        "tx_prio3_pause": 0,
        "tx_prio3_pause_duration": 0,
    }
