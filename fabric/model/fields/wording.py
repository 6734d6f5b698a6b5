"""Wording of problems with a file: what was found, quoted and shortened, and the nearest word that would be right."""

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

SEEN_MOST = 60
_MEANINGS = {
    "ethernet": "roce rocev2 eth",
    "infiniband": "ib",
    "leaf": "tor access",
    "spine": "aggregation trunk",
    "core": "superspine super-spine",
    "mock": "sim simulated",
    "process": "local",
    "ssh": "remote",
    "mpirun": "mpiexec openmpi",
    "srun": "slurm",
    "broken": "down dead",
    "hanging": "hung stuck",
    "absent": "missing",
    "slow": "degraded",
    "tor_all_reduce": "allreduce all_reduce",
    "all_to_all": "alltoall",
    "loopback": "ib_write_bw",
    "rnics": "nics hcas",
    "line_rate_gbps": "speed",
    "hosts": "nodes",
    "env": "environment",
    "adaptive_routing": "ar",
    "port_flap": "flap",
    "ber": "bit_errors",
    "raw": "pre_fec",
    "effective": "post_fec",
    "cv": "spread",
    "slowest/median": "min",
    "jump": "proxy_jump bastion",
}
MEANT = {written: word for word, others in _MEANINGS.items() for written in others.split()}
"""Words that people write, by the word that they mean; used if that word is one of the candidates."""

_NEAR = 0.6  # the share of letters in common; difflib's own default
CANDIDATES_MOST = 500  # difflib needs about 20 us for each; a hall has many more names


def quoted(text: str, *, most: int = SEEN_MOST) -> str:
    """Return text between quotes, cut after *most* characters, with everything unprintable escaped."""
    return f"'{shown(text, most=most)}'"


def shown(text: str, *, most: int = 4096) -> str:
    """Return text for a message: control, direction and lone surrogate characters escaped, and cut."""
    out: list[str] = []
    length = 0
    for char in text[: most + 1]:
        piece = char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        if length + len(piece) > most:
            return "".join(out) + "…"
        out.append(piece)
        length += len(piece)
    return "".join(out)


def seen(value: object) -> str:
    """Return in words what the file has instead of what was expected."""
    if isinstance(value, str):
        return quoted(value) if value else "empty text"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return quoted(repr(value))


def nearest(word: str, candidates: Collection[str]) -> str:
    """Return the words ``; did you mean 'timeout'?``, or nothing if no candidate is near."""
    meant = MEANT.get(word.lower())
    if meant is not None and meant in candidates:
        return f"; {quoted(word)} is written {quoted(meant)} here"
    alike = (name for name in candidates if 2 * min(len(name), len(word)) >= _NEAR * (len(name) + len(word)))
    by_lower = {name.lower(): name for name in islice(alike, CANDIDATES_MOST) if name != word}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=_NEAR) if len(word) <= 100 else []
    return f"; did you mean {quoted(by_lower[found[0]])}?" if found else ""


def one_of(words: Iterable[str]) -> str:
    """Return ``a, b or c``."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
