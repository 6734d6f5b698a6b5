"""What the nccl-tests programs are told and what they print: version 2.17."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.sim.tools.options import BadOption, number, options, taken_apart

_TABLE = options("""
    threads=  -t --nthreads
    gpus=     -g --ngpus
    least=    -b --minbytes
    most=     -e --maxbytes
    step=     -i --stepbytes
    factor=   -f --stepfactor
    iters=    -n --iters
    warmup=   -w --warmup_iters
    check=    -c --check
    type=     -d --datatype
    graph=    -G --cudagraph
    agg=      -m --agg_iters
    plain=    -o --op -r --root -p --parallel_init -z --blocking -y --stream_null -T --timeout -R --local_register
    plain=    -C --report_cputime -a --average
    help      -h --help
""")

_TYPE_BYTES = {"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "bfloat16": 2}
_TYPE_BYTES |= {"float": 4, "double": 8}
MOST_ROWS = 10_000  # a sweep by small steps is refused above this: a bound, not the tool's


@dataclass(frozen=True, slots=True)
class CollectiveOptions:
    """What one nccl-tests program was asked to do."""

    threads: int
    gpus: int
    least_bytes: int
    most_bytes: int
    step_bytes: int
    factor: int
    iterations: int
    warmup: int
    check: int
    type_name: str
    type_bytes: int
    graph: int
    agg: int

    def sizes_bytes(self) -> tuple[int, ...]:
        """The sizes it goes through; raises BadOption when there are too many to simulate."""
        sizes = []
        size = self.least_bytes
        while size <= self.most_bytes:
            sizes.append(size)
            size = size * self.factor if self.factor > 1 else size + self.step_bytes
            if len(sizes) > MOST_ROWS:
                raise BadOption(f"more than {MOST_ROWS} sizes are not simulated")
        return tuple(sizes)


def collective_options(words: Sequence[str]) -> CollectiveOptions:
    """Read the words after the program's name; raises BadOption."""
    fields, rest = taken_apart(words, _TABLE)
    if "help" in fields:
        raise BadOption("USAGE")
    del rest  # nccl-tests does not look at further words
    least = _size(fields.get("least", "32M"), "minbytes")
    most = _size(fields.get("most", "32M"), "maxbytes")
    if most < least or least == 0:
        raise BadOption("invalid sizes for 'minbytes' and 'maxbytes'")
    type_name = fields.get("type", "float")
    if type_name not in _TYPE_BYTES:
        type_name = "float"  # so does the tool: "invalid type, defaulting to float"

    def count(field: str, default: int) -> int:
        return number(fields[field]) if field in fields else default

    return CollectiveOptions(
        threads=count("threads", 1),
        gpus=count("gpus", 1),
        least_bytes=least,
        most_bytes=most,
        step_bytes=max(1, _size(fields.get("step", "1M"), "stepbytes")),
        factor=count("factor", 1),
        iterations=count("iters", 20),
        warmup=count("warmup", 5),
        check=count("check", 1),
        type_name=type_name,
        type_bytes=_TYPE_BYTES[type_name],
        graph=count("graph", 0),
        agg=count("agg", 1),
    )


def _size(text: str, name: str) -> int:
    """``8G``, ``512K``, ``1.5M`` or plain bytes."""
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}.get(text[-1:].lower(), 1)
    digits = text if factor == 1 else text[:-1]
    if not digits.isascii() or not digits.replace(".", "", 1).isdigit():
        raise BadOption(f"invalid size specified for '{name}'")
    return int(float(digits) * factor) if "." in digits else int(digits) * factor


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
