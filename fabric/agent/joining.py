"""A task of a Slurm step: connects to the orchestrator that began the step, then becomes the agent of its host.

Each side proves to the other that it knows the step's secret. Then the task becomes the program that it is told to run,
whose stdin and stdout are the connection. So every host has its own stream: srun has one stdin for all tasks, each of
which gets all of it, and its output is cut at 1,024 bytes (Slurm 22.05, tried).

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import hashlib
import hmac
import json
import os
import socket
import sys

LINE_BYTES = 8192
"""Longest line before the program begins."""
ANSWER_S = 20.0
"""Time that each side waits for the other's next line during the handshake (seconds)."""
_WHOLE_S = 120.0
"""Time that a joined task waits for the rest of its step (seconds); choice: longer than the orchestrator waits."""


def proof(secret: str, *words: str) -> str:
    """Return a proof that only somebody who knows the secret can make."""
    return hmac.new(secret.encode("ascii"), " ".join(words).encode("ascii"), hashlib.sha256).hexdigest()


def received_line(way: socket.socket) -> str:
    """
    Return the next line, and read not one byte more, since the rest may be for another reader; OSError if none comes.
    """
    line = b""
    while not line.endswith(b"\n"):
        byte = way.recv(1)
        if not byte or len(line) > LINE_BYTES:
            raise OSError("the other side hung up, or said no line")
        line += byte
    return line[:-1].decode("ascii", "replace")


def join(port: int) -> None:
    """Connect to the orchestrator at *port* of the machine where srun runs, and become the program that it names."""
    secret = sys.stdin.readline().rstrip("\n")
    if not secret:
        sys.exit("the step has no secret")
    way = socket.create_connection((os.environ["SLURM_LAUNCH_NODE_IPADDR"], port), ANSWER_S)
    host, salt = os.environ["SLURMD_NODENAME"], os.urandom(16).hex()
    mine = proof(secret, "task", received_line(way), host)
    way.sendall(f"{host} {salt} {mine}\n".encode("ascii"))
    if not hmac.compare_digest(received_line(way), proof(secret, "orchestrator", salt, host)):
        sys.exit("who listens there has not begun this step")
    way.settimeout(_WHOLE_S)
    argv = json.loads(received_line(way))
    way.settimeout(None)
    for fd in (0, 1):
        os.dup2(way.fileno(), fd)
    os.execvp(argv[0], argv)
