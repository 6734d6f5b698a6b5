"""The command line of ``ib_write_bw``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.sim.options import BadOption, Option, taken_apart


class NotSimulated(Exception):
    """The real tool knows this option and it would change the answer, but the simulated rack does not know how."""


_TABLE = {
    name: Option(field if field != "-" else f"-{name}", value)  # "-": real, would change the answer, not simulated
    for field, value, names in (
        ("device", "yes", "-d --ib-dev"),
        ("port", "yes", "-p --port"),
        ("size", "yes", "-s --size"),
        ("duration", "yes", "-D --duration"),
        ("iters", "yes", "-n --iters"),
        ("qps", "yes", "-q --qp"),
        ("cuda", "joined", "--use_cuda"),
        ("version", "no", "-V --version"),
        ("gbits", "no", "--report_gbits"),
        ("ib_port", "yes", "-i --ib-port"),
        (
            "flag",
            "no",
            "-F --CPU-freq --use_cuda_dmabuf --use_hugepages --noPeak -N --ipv6 --odp --disable_pcie_relaxed",
        ),
        ("plain", "yes", "-x --gid-index -S --sl -t --tx-depth -u --qp-timeout -m --mtu -I --inline_size"),
        ("plain", "yes", "-Q --cq-mod -l --post_list -T --tos -f --margin -L --hop_limit --tclass --source_ip"),
        ("both_ways", "no", "-b --bidirectional"),
        ("-", "no", "-a --all -R --rdma_cm -z --com_rdma_cm --out_json --reversed"),
        ("-", "no", "--run_infinitely --cpu_util -O --dualport --report-both --report-per-port"),
        ("-", "yes", "-w --limit_bw -y --limit_msgrate -c --connection --output --rate_limit --out_json_file"),
    )
    for name in names.split()
}


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
    both_ways: bool


def write_bw_options(words: Sequence[str]) -> WriteBwOptions:
    """Read the words after the program's name; raises BadOption and NotSimulated."""
    fields, peers = taken_apart(words, _TABLE)
    for field in fields:
        if field.startswith("-"):
            raise NotSimulated(f"option {field[1:]} is not simulated")
    duration = fields.get("duration")
    return WriteBwOptions(
        device=fields.get("device"),
        peer=peers[0] if peers else None,
        port=_number(fields.get("port", "18515"), 1, 65535),
        size_bytes=_number(fields.get("size", "65536"), 1, 1 << 31),
        duration_s=None if duration is None else _number(duration, 1, 1 << 31),
        iterations=_number(fields.get("iters", "5000"), 5, 1 << 31),
        queue_pairs=_number(fields.get("qps", "1"), 1, 16384),
        gbits="gbits" in fields,
        cuda=None if "cuda" not in fields else _number(fields["cuda"] or "0", 0, 1023),
        ib_port=_number(fields.get("ib_port", "1"), 1, 255),
        version="version" in fields,
        both_ways="both_ways" in fields,
    )


def _number(text: str, least: int, most: int) -> int:
    """A number within the bounds; perftest names neither the option nor always the bounds, so this text is ours."""
    factor = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower(), 1)
    digits = text if factor == 1 else text[:-1]
    if not digits.isascii() or not digits.isdigit() or not least <= int(digits) * factor <= most:
        raise BadOption(f"invalid value '{text}'")
    return int(digits) * factor
