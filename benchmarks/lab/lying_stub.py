"""
Stands before ``tool_stub.py`` in every tool of a host in trouble: says what no tool says, or half of what it says.

What the host's tools do now is the word in the file of the host's name in FABRIC_LAB_TROUBLE; no file: the truth.
"""

import os
import subprocess
import sys

_FLOOD_BYTES = 100 << 20


def _trouble() -> str:
    try:
        with open("{FABRIC_LAB_TROUBLE}/{FABRIC_LAB_HOST}".format(**os.environ)) as file:
            return file.read().strip()
    except (OSError, KeyError):
        return ""


def lie(trouble: str) -> None:
    """Print a lie and end, or return: then the truth is to be told."""
    out = sys.stdout.buffer
    if trouble == "garbage":
        out.write(bytes(range(256)) * 8 + b"\x1b[2J\xff")
    elif trouble == "flood":
        for _ in range(_FLOOD_BYTES >> 16):
            out.write(b"# 1 2 3 4 5 6 7\n" * (1 << 12))
    elif trouble == "truncated":
        told = dict(os.environ, FABRIC_LAB_TROUBLE="/nowhere")
        said = subprocess.run(sys.argv, env=told, stdout=subprocess.PIPE, check=False).stdout
        out.write(said[: len(said) // 2])
    else:
        return
    out.flush()
    sys.exit(0)


lie(_trouble())
