"""The options of ``ib_write_bw`` and what it prints: perftest 6.29 on mlx5, GPU lines as with a CUDA build."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from fabric.sim import page
from fabric.sim.hashing import mix64, text_hash, word
from fabric.sim.hosts.site import Site
from fabric.sim.tools.call import BadOption, option, options, parse_command, within

_IGNORED = options("""
    flag    -F --CPU-freq --report_gbits --disable_numa -N --noPeak
    plain=  -x --gid-index -u --qp-timeout -t --tx-depth -m --mtu -S --sl --numa_node --retry_count
""")


@dataclass(frozen=True, slots=True)
class WriteBwOptions:
    """
    The options of one ``ib_write_bw``; results are always in Gb/s.

    *peer* is None for a server, *duration_s* for a run by iterations.
    """

    device: str | None = option("-d --ib-dev", None, str)
    port: int = option("-p --port", 18515, within(1, 65535))
    size_bytes: int = option("-s --size", 65536, within(1))
    duration_s: int | None = option("-D --duration", None, within(1))
    iterations: int = option("-n --iters", 5000, within(5))
    queue_pairs: int = option("-q --qp", 1, within(1, 16384))
    both_ways: bool = option("-b --bidirectional", False, None)
    use_cuda: int | None = option("--use_cuda", None, within(0, 1023))
    use_rocm: int | None = option("--use_rocm", None, within(0, 1023))
    dmabuf: bool = option("--use_cuda_dmabuf --use_rocm_dmabuf", False, None)
    ib_port: int = option("-i --ib-port", 1, within(1, 255))
    version: bool = option("-V --version", False, None)
    rdma_cm: bool = option("-R --rdma_cm", False, None)
    tclass: int = option("--tclass", 0, within(0, 255))
    flow_label: int = option("--flow_label", 0, within(0, (1 << 20) - 1))
    tos: int | None = option("-T --tos", None, within(0, 255))
    peer: str | None = None

    @property
    def cuda(self) -> int | None:
        """Return the GPU that it uses, of either maker."""
        return self.use_rocm if self.use_cuda is None else self.use_cuda

    @property
    def buffer_bytes(self) -> int:
        """Return how much of that GPU's memory it uses."""
        return max(2 * self.size_bytes * self.queue_pairs, 1 << 21)

    @property
    def traffic_class(self) -> int:
        """Return the traffic class of its packets."""
        return (self.tos or 0) if self.rdma_cm else self.tclass


def write_bw_options(words: Sequence[str]) -> WriteBwOptions:
    """Read the words after the program's name; raises BadOption (its texts are ours)."""
    found, peers = parse_command(WriteBwOptions, words, _IGNORED)
    if found.tos is not None and not found.rdma_cm:  # perftest_parameters.c:1908
        raise BadOption("TOS only valid for rdma_cm based QP and RawEth QP")
    return replace(found, peer=peers[0] if peers else None)


RULE = "-" * 87 + "\n"
COLUMNS = f"{RULE} #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"


def failure(why: str, **words: object) -> str:
    """Return what is printed on stderr when it fails."""
    return page("ib_write_bw-failure", why=why, **words)


@lru_cache(maxsize=1 << 15)
def address_end(name_hash: int, device: str, *, ethernet: bool) -> tuple[str, str]:
    """Return the LID of an RNIC of a host, and the GID line under its address (Ethernet only)."""
    bits = mix64(name_hash ^ text_hash(device))
    if not ethernet:
        return f"0x{bits % 0xBFFF + 1:02x}", ""
    numbers = ":".join(f"{bits >> shift & 0xFF:02d}" for shift in (0, 8, 16))
    return "0000", f" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:{numbers}\n"


def addresses(whose: str, site: Site, device: str, bits: int, *, queue_pairs: int) -> str:
    """Return the addresses of all queue pairs of one side; the same *bits* give the same."""
    lid, gid = address_end(site.name_hash, device, ethernet=site.layout.platform.link_layer == "ethernet")
    return "".join(
        f" {whose} address: LID {lid} QPN 0x{one & 0x3FFF:04x} PSN 0x{one >> 14 & 0xFFFFFF:06x}"
        f" RKey 0x{one >> 38 & 0x1FFFFF:06x} VAddr 0x{0x7F0000000000 + (one >> 36 << 12):016x}\n{gid}"
        for one in ([bits] if queue_pairs == 1 else [word(bits, number) for number in range(queue_pairs)])
    )


def row(options: WriteBwOptions, gbps: float) -> str:
    """Return the row under the column names: six decimals below 0.1, as in the tool."""
    mpps = gbps * 125.0 / options.size_bytes
    if options.duration_s is None:
        count = options.iterations * options.queue_pairs
    else:
        count = int(mpps * 1e6 * options.duration_s)
    # A peak is measured up to 20,000 iterations only (perftest's manual); 0.05 % above the mean is a choice.
    peak = gbps * 1.0005 if options.duration_s is None and options.iterations <= 20000 else 0.0
    head = f" {options.size_bytes:<7d}    {count:<10d}"
    if gbps < 0.1:
        return f"{head}     {peak:<7.6f}            {gbps:<7.6f}            {mpps:<7.6f}\n"
    return f"{head}       {peak:<7.2f}            {gbps:<7.2f}\t\t     {mpps:<7.6f}\n"
