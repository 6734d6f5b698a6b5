"""The command line of the nccl-tests programs."""

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
