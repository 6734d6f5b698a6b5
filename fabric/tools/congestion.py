"""What one RNIC's port has counted of congestion: marks, CNPs, pauses, and what was lost; by one shell text."""

from __future__ import annotations

import re

from fabric.tools.driver import whole, whole_lines, word

NAME = "fabric-congestion"
"""The name ($0) under which the text is started."""

HARDWARE = (
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
    "rp_cnp_handled",
    "out_of_sequence",
    "packet_seq_err",
    "roce_adp_retrans",
)
"""
Files of ``ports/N/hw_counters`` (linux: mlx5/counters.c). The first three have 64 bits and are of all ports of a
LAG, the others have 32 and wrap. np: who gets marked packets and answers them, rp: who then slows down.
"""

# Only sh, cat, printf, ethtool and grep; values arrive as positional parameters. What is not there is not printed: the
# counters of PFC are there only for priorities that have it. The interface is that of the port's first GID.
_TEXT = (
    'b="/sys/class/infiniband/$1/ports/$2"; i=$(cat "$b/gid_attrs/ndevs/0" 2>/dev/null); shift 2;'
    ' for f; do v=$(cat "$b/hw_counters/$f" 2>/dev/null) && printf "%s: %s\\n" "$f" "$v"; done;'
    ' ethtool -S "$i" 2>/dev/null |'
    ' grep -E "^ *([rt]x_prio[0-7]_pause(_duration)?|[rt]x_discards_phy): [0-9]+$"; echo whole'
)
_LINE = re.compile(r" *([a-z0-9_]{1,64}): ([0-9]{1,20})", re.ASCII)


def ask(device: str, port: int) -> tuple[str, ...]:
    """Read the counters of a port; it alters nothing."""
    return (
        "sh",
        "-c",
        _TEXT,
        NAME,
        word(device, "device"),
        str(whole(port, "port", at_least=1, at_most=255)),
        *HARDWARE,
    )


def read(stdout: str) -> dict[str, int] | None:
    """By name what was counted, without what is not there; None when the answer does not reach its end."""
    lines = whole_lines(stdout)
    if lines[-1:] != ["whole"]:
        return None
    return {found[1]: int(found[2]) for line in lines[:-1] if (found := _LINE.fullmatch(line))}
