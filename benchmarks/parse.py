"""How fast tool output is read: run it, it prints MB/s for long logs and microseconds for one small table."""

import time
from collections.abc import Callable

from fabric.tools import nccl, perftest

TARGET_BYTES = 600_000
SECONDS = 1.0  # of measurement for each line of output

HEADING = (
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw"
    "  #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n"
)
RULE = "-" * 87 + "\n"


def nccl_test(ranks: int, powers: range) -> str:
    """One all_reduce as nccl-tests 2.17 prints it; every number agrees with the others."""
    lines = ["# nccl-tests version 2.17.9 nccl-headers=22903 nccl-library=22903\n"]
    lines.append("# Collective test starting: all_reduce_perf\n# Using devices\n")
    for rank in range(ranks):
        lines.append(
            f"#  Rank {rank:2d} Group  0 Pid {40000 + rank:6d} on     gpu{rank // 8 + 1:03d} device {rank % 8:2d}"
            " [0000:1b:00] NVIDIA H100 80GB HBM3\n"
        )
    lines.append(HEADING)
    busbw = []
    for power in powers:
        size = 1 << power
        line = f"{size:12d}  {size // 4:12d}     float     sum      -1"
        for place in (1.0, 1.01):
            time_us = 40.0 + size / (240e3 * place)
            algbw = size / time_us / 1e3
            busbw.append(algbw * 2 * (ranks - 1) / ranks)
            line += f"  {time_us:7.{2 if time_us < 1e4 else 0}f}  {algbw:6.2f}  {busbw[-1]:6.2f}       0"
        lines.append(line + "\n")
    lines.append(f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {sum(busbw) / len(busbw):g} \n#\n")
    lines.append("# Collective test concluded: all_reduce_perf\n")
    return "".join(lines)


def perftest_table(sizes: list[int]) -> str:
    """The client's side of ib_write_bw."""
    rows = "".join(
        f" {size:<7d}    5000             391.31             391.27\t\t     {391.27e3 / 8 / size:.6f}\n"
        for size in sizes
    )
    return (
        f"{RULE}                    RDMA_Write BW Test\n"
        " Dual-port       : OFF\t\tDevice         : mlx5_0\n Number of qps   : 1\t\tTransport type : IB\n"
        " Connection type : RC\t\tUsing SRQ      : OFF\n PCIe relax order: ON\n ibv_wr* API     : ON\n"
        " TX depth        : 128\n CQ Moderation   : 1\n Mtu             : 4096[B]\n Link type       : IB\n"
        " Max inline data : 0[B]\n rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n"
        f"{RULE} local address: LID 0x1c QPN 0x0b1 PSN 0x5d10a2 RKey 0x002a1f VAddr 0x007f11aa400000\n"
        " remote address: LID 0x1d QPN 0x0b2 PSN 0xa41f09 RKey 0x002a20 VAddr 0x007f22bb400000\n"
        f"{RULE} #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n{rows}{RULE}"
    )


def tagged(text: str) -> str:
    """As ``srun -l`` prints it."""
    return "".join(f" 0: {line}\n" for line in text.splitlines())


def seconds(parse: Callable[[str], object], text: str) -> float:
    """The best of all runs that fit into the time."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        parse(text)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Print one line for each kind of text."""
    sweep, burst = nccl_test(16, range(10, 35)), nccl_test(16, range(30, 34))
    logs: dict[str, tuple[Callable[[str], object], str]] = {
        "nccl-tests, 25 sizes a test": (nccl.parse, sweep * (TARGET_BYTES // len(sweep))),
        "nccl-tests, 4 sizes a test": (nccl.parse, burst * (TARGET_BYTES // len(burst))),
        "nccl-tests, one long table": (nccl.parse, long_table(sweep)),
        "nccl-tests, tagged by srun -l": (nccl.parse, tagged(sweep * (TARGET_BYTES // len(sweep)))),
        "perftest, all sizes": (
            perftest.parse,
            perftest_table([1 << power for power in range(6, 24)]) * (TARGET_BYTES // 2500),
        ),
    }
    for name, (parse, text) in logs.items():
        taken = seconds(parse, text)
        print(f"{name:32} {len(text) / 1e3:6.0f} KB  {len(text) / taken / 1e6:6.1f} MB/s")
    table = perftest_table([65536])
    print(f"{'perftest, one table':32} {len(table):6d} B   {seconds(perftest.parse, table) * 1e6:6.1f} us")


def long_table(sweep: str) -> str:
    """One test whose rows are repeated; the mean stays what is printed."""
    lines = sweep.splitlines(keepends=True)
    rows = [line for line in lines if line[:12].strip().isdigit()]
    first, last = lines.index(rows[0]), lines.index(rows[-1])
    return "".join([*lines[:first], *rows * (TARGET_BYTES // sum(map(len, rows))), *lines[last + 1 :]])


if __name__ == "__main__":
    main()
