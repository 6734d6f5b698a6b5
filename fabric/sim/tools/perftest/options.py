"""The command line of ``ib_write_bw``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.sim.tools.options import Option, number, options, taken_apart


class NotSimulated(Exception):
    """The real tool knows this option and it would change the answer, but the simulated rack does not know how."""


_KNOWN = options("""
    device=    -d --ib-dev
    port=      -p --port
    size=      -s --size
    duration=  -D --duration
    iters=     -n --iters
    qps=       -q --qp
    cuda?      --use_cuda
    version    -V --version
    gbits      --report_gbits
    ib_port=   -i --ib-port
    flag       -F --CPU-freq --use_cuda_dmabuf --use_hugepages --noPeak -N --ipv6 --odp --disable_pcie_relaxed
    plain=     -x --gid-index -S --sl -t --tx-depth -u --qp-timeout -m --mtu -I --inline_size
    plain=     -Q --cq-mod -l --post_list -T --tos -f --margin -L --hop_limit --tclass --source_ip
""")
_NOT_SIMULATED = {
    name: Option(f"-{name}", value)
    for value, names in (
        ("no", "-a --all -b --bidirectional -R --rdma_cm -z --com_rdma_cm --out_json --reversed"),
        ("no", "--run_infinitely --cpu_util -O --dualport --report-both --report-per-port"),
        ("yes", "-w --limit_bw -y --limit_msgrate -c --connection --output --rate_limit --out_json_file"),
    )
    for name in names.split()
}
_TABLE = {**_KNOWN, **_NOT_SIMULATED}


@dataclass(frozen=True, slots=True)
class WriteBwOptions:
    """What one ``ib_write_bw`` was asked to do; *peer* is None for a server, *duration_s* for a run by iterations."""

    device: str | None
    peer: str | None
    port: int
    size_bytes: int
    duration_s: int | None
    iterations: int
    queue_pairs: int
    gbits: bool
    cuda: int | None
    ib_port: int
    version: bool


def write_bw_options(words: Sequence[str]) -> WriteBwOptions:
    """Read the words after the program's name; raises BadOption (its texts are ours) and NotSimulated."""
    fields, peers = taken_apart(words, _TABLE)
    for field in fields:
        if field.startswith("-"):
            raise NotSimulated(f"option {field[1:]} is not simulated")

    def asked(field: str, default: int, least: int, most: int) -> int:
        return number(fields.get(field, str(default)), least=least, most=most, units="km")

    return WriteBwOptions(
        device=fields.get("device"),
        peer=peers[0] if peers else None,
        port=asked("port", 18515, 1, 65535),
        size_bytes=asked("size", 65536, 1, 1 << 31),
        duration_s=asked("duration", 0, 1, 1 << 31) if "duration" in fields else None,
        iterations=asked("iters", 5000, 5, 1 << 31),
        queue_pairs=asked("qps", 1, 1, 16384),
        gbits="gbits" in fields,
        cuda=number(fields["cuda"] or "0", most=1023, units="km") if "cuda" in fields else None,
        ib_port=asked("ib_port", 1, 1, 255),
        version="version" in fields,
    )
