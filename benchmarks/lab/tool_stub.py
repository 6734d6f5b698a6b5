"""
Stands for every tool of a lab host: asks the rack server what the tool would do there, and does it.

It listens when told to, prints what it is given, and ends with the status it is given. Killing it closes its
connection, which ends the simulated process. It is copied into a PATH folder under the tools' names and run by
``python -I -S``; stdlib only.
"""

import json
import os
import socket
import sys


def main() -> int:
    """Be the tool named by argv[0]."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(os.environ["FABRIC_LAB_SOCKET"])
    argv = [sys.argv[0].rpartition("/")[2], *sys.argv[1:]]
    host = os.environ.get("FABRIC_LAB_HOST") or os.environ["SLURMD_NODENAME"]
    asked = {"host": host, "argv": argv, "env": dict(os.environ)}
    server.sendall(json.dumps(asked).encode() + b"\n")
    listeners = []
    for line in server.makefile("rb"):
        told = json.loads(line)
        if "listen" in told:
            listeners.append(socket.create_server(("", told["listen"])))
        else:
            sys.stdout.write(told["stdout"])
            sys.stderr.write(told["stderr"])
            return int(told["exit_status"])
    sys.stderr.write("the rack server is gone\n")
    return 99


if __name__ == "__main__":
    sys.exit(main())
