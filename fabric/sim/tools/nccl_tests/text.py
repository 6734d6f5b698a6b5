"""The options of the nccl-tests programs and what they print: version 2.17."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fabric.sim import page
from fabric.sim.tools.call import BadOption, option, options, parse_command, within

_IGNORED = options("""
    plain=  -R --local_register -z --blocking -y --stream_null -a --average -C --report_cputime -T --timeout
    plain=  -N --run_cycles -u --cta_policy -D --device_implementation
""")

_TYPE_BYTES = 4
"""Bytes of a float, the type that is sent."""


def _size(name: str) -> Callable[[str], int]:
    """Return a reader of ``8G``, ``512K``, ``1.5M`` or plain bytes."""

    def read(text: str) -> int:
        factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}.get(text[-1:].lower(), 1)
        digits = text if factor == 1 else text[:-1]
        if not digits.isascii() or not digits.replace(".", "", 1).isdigit():
            raise BadOption(f"invalid size specified for '{name}'")
        return int(float(digits) * factor) if "." in digits else int(digits) * factor

    return read


@dataclass(frozen=True, slots=True)
class CollectiveOptions:
    """The options of one nccl-tests program."""

    gpus: int = option("-g --ngpus", 1)
    least_bytes: int = option("-b --minbytes", 32 << 20, _size("minbytes"))
    most_bytes: int = option("-e --maxbytes", 32 << 20, _size("maxbytes"))
    factor: int = option("-f --stepfactor", 2, within(2))
    iterations: int = option("-n --iters", 20)
    warmup: int = option("-w --warmup_iters", 5)

    @property
    def seed_text(self) -> str:
        """
        Return the text that seeds randomness; kept as it was first written, so that a seed gives the same numbers for
        ever.
        """
        return (
            f"CollectiveOptions(threads=1, gpus={self.gpus}, least_bytes={self.least_bytes}, "
            f"most_bytes={self.most_bytes}, step_bytes=1048576, factor={self.factor}, iterations={self.iterations}, "
            f"warmup={self.warmup}, check=1, type_name='float', type_bytes=4, graph=0, agg=1)"
        )

    def sizes_bytes(self) -> tuple[int, ...]:
        """Return the sizes that the program goes through."""
        sizes = [self.least_bytes]
        while sizes[-1] * self.factor <= self.most_bytes:
            sizes.append(sizes[-1] * self.factor)
        return tuple(sizes)


def collective_options(words: Sequence[str]) -> CollectiveOptions:
    """Read the words after the program's name; raises BadOption."""
    found, _ = parse_command(CollectiveOptions, words, _IGNORED)  # nccl-tests ignores further words
    if found.most_bytes < found.least_bytes or found.least_bytes == 0:
        raise BadOption("invalid sizes for 'minbytes' and 'maxbytes'")
    return found


def table(
    operation: str, rows: Mapping[int, Sequence[str]], average_gbytes: float, *, gpus: int, rccl: bool = False
) -> str:
    """
    Return the table: two cells for each size, out of place and in place, and the lines below.

    *rccl*: with algorithm, protocol and channels, since 2.27 (a recorded run).
    """
    # alltoall cannot be checked in place: the tool prints N/A there, one column narrower than a number.
    redop, wrong, parts = ("  none", "  N/A", gpus) if operation == "alltoall" else ("   sum", "     0", 1)
    counted = [(size_bytes, size_bytes // _TYPE_BYTES // parts, cells) for size_bytes, cells in rows.items()]
    words = {"operation": operation, "redop": redop, "wrong": wrong, "rccl": rccl}
    return page("nccl-tests-table", **words, rows=counted, average=average_gbytes)


def cell(time_us: float, algorithm_gbytes: float, bus_gbytes: float) -> str:
    """Return time and both bandwidths (GB/s) of one place."""
    return f"{time_text(time_us)}  {algorithm_gbytes:6.2f}  {bus_gbytes:6.2f}"


def time_text(time_us: float) -> str:
    """Return microseconds in 7 columns: two decimals, one, or none, as the room allows (nccl-tests getFloatStr)."""
    if time_us < 10_000:
        return f"{time_us:7.2f}"
    return f"{time_us:7.1f}" if time_us < 100_000 else f"{time_us:7.0f}"


def cuda_failure(host: str, pid: int) -> str:
    """Return the output when a GPU does not work."""
    reason = "uncorrectable ECC error encountered"
    return f"{host}: Test CUDA failure common.cu:1030 '{reason}'\n .. {host} pid {pid}: Test failure common.cu:891\n"


_WARNING = ("WARN", "INFO", "ABORT", "TRACE")


def warns(env: Mapping[str, str]) -> bool:
    """
    Return whether NCCL prints its warnings: its level is NONE where NCCL_DEBUG is not set, or no level (src/debug.cc).
    """
    return env.get("NCCL_DEBUG", "").upper() in _WARNING


def tells_version(env: Mapping[str, str]) -> bool:
    """Return whether NCCL's first rank prints its version: at level VERSION and above (recorded: oci, H100)."""
    return warns(env) or env.get("NCCL_DEBUG", "").upper() == "VERSION"


def nccl_failure(host: str, pids: Sequence[int], reason: str) -> str:
    """Return the output when NCCL gave up; every rank of the host prints it."""
    return page("nccl-tests-failure", host=host, pids=pids, reason=reason, warning=None)


def network_failure(env: Mapping[str, str], host: str, pids: Sequence[int], *, peer: str, device: str) -> str:
    """
    Return the output when the network did not answer: transport retries exceeded (status 12).

    That status is in a warning, which NCCL prints only at some levels.
    """
    warning = {"peer": peer, "device": device} if warns(env) else None
    reason = "remote process exited or there was a network error"
    return page("nccl-tests-failure", host=host, pids=pids, reason=reason, warning=warning)


def too_few_gpus(requested: int, found: int) -> str:
    """Return the output when there are fewer GPUs than asked for; on stderr, exit 5."""
    return (
        f"Invalid number of GPUs: {requested} requested but only {found} were found.\n"
        "Please check the number of processes and GPUs per process.\n"
    )
