"""What the nccl-tests programs print: version 2.17."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.sim.tools.nccl_tests.options import CollectiveOptions

_COLUMNS = """\
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
"""  # noqa: W291

_REDOP = {"all_reduce": ("sum", "-1"), "reduce_scatter": ("sum", "-1"), "sendrecv": ("sum", "-1")}
_REDOP |= {"alltoall": ("none", "-1"), "all_gather": ("none", "-1"), "broadcast": ("none", "0")}


def head(operation: str, options: CollectiveOptions) -> str:
    """Down to the list of devices."""
    step = f"{options.factor}(factor)" if options.factor > 1 else f"{options.step_bytes}(bytes)"
    return (
        "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n"
        f"# Collective test starting: {operation}_perf\n"
        f"# nThread {options.threads} nGpus {options.gpus} minBytes {options.least_bytes} "
        f"maxBytes {options.most_bytes} step: {step} warmup iters: {options.warmup} iters: {options.iterations} "
        f"agg iters: {options.agg} validation: {options.check} graph: {options.graph}\n"
        "#\n# Using devices\n"
    )


def rank_line(rank: int, pid: int, host: str, *, device: int, bus: str, model: str) -> str:
    """One GPU of the list; the tool cuts a host's name at its first dot."""
    name = host.partition(".")[0]
    return f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {name:>10s} device {device:2d} [0000:{bus}:00] {model}\n"


def columns() -> str:
    """The header of the table."""
    return _COLUMNS


def row(operation: str, options: CollectiveOptions, *, size_bytes: int, gpus: int, cells: Sequence[str]) -> str:
    """One size: out of place and in place."""
    count = size_bytes // options.type_bytes
    if operation in ("alltoall", "all_gather", "reduce_scatter"):
        count //= gpus
    redop, root = _REDOP[operation]
    # alltoall and sendrecv cannot be checked in place: the tool prints N/A there, and everywhere with -c 0,
    # and one column narrower than a number (recorded).
    wrong = "     0" if options.check else "  N/A"
    wrong_in_place = "  N/A" if operation in ("alltoall", "sendrecv") else wrong
    return (
        f"{size_bytes:12d}  {count:12d}  {options.type_name:>8s}  {redop:>6s}  {root:>6s}"
        f"  {cells[0]}  {wrong}  {cells[1]}  {wrong_in_place}\n"
    )


def cell(time_us: float, algorithm_gbytes: float, bus_gbytes: float) -> str:
    """Time and both bandwidths (GB/s) of one place."""
    return f"{time_text(time_us)}  {algorithm_gbytes:6.2f}  {bus_gbytes:6.2f}"


def time_text(time_us: float) -> str:
    """Microseconds in 7 columns: two decimals, one, or none, as the room allows (nccl-tests getFloatStr)."""
    if time_us < 10_000:
        return f"{time_us:7.2f}"
    return f"{time_us:7.1f}" if time_us < 100_000 else f"{time_us:7.0f}"


def footer(operation: str, average_gbytes: float) -> str:
    """The lines below the table."""
    return (
        f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {average_gbytes:g} \n#\n"
        f"# Collective test concluded: {operation}_perf\n#\n\n"
    )


def cuda_failure(host: str, pid: int, reason: str) -> str:
    """A GPU does not work."""
    return f"{host}: Test CUDA failure common.cu:1030 '{reason}'\n .. {host} pid {pid}: Test failure common.cu:891\n"


def nccl_failure(host: str, pids: Sequence[int], reason: str) -> str:
    """NCCL gave up; every rank of the host says so."""
    return "".join(
        f"{host}: Test NCCL failure common.cu:1279 '{reason} / '\n .. {host} pid {pid}: Test failure common.cu:1100\n"
        for pid in pids
    )


def completion_error(host: str, pid: int, *, peer: str, device: str) -> str:
    """The network did not answer: transport retries exceeded (status 12)."""
    return (
        f"{host}:{pid}:{pid + 170} [0] transport/net_ib.cc:2244 NCCL WARN NET/IB : Got completion from peer "
        f"{peer}<53908> with status=12 opcode=129 len=1048576 vendor err 129 (Recv) hca {device}\n"
    )


def too_few_gpus(requested: int, found: int) -> str:
    """There are fewer GPUs than asked for; on stderr, exit 5."""
    return (
        f"Invalid number of GPUs: {requested} requested but only {found} were found.\n"
        "Please check the number of processes and GPUs per process.\n"
    )
