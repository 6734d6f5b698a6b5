"""
The rack server, to which one more thing can be said: that a host of the simulated world goes wrong, or is well again.

A connection that sends ``{"befall": HOST, "kind": KIND or null}`` is answered with a line when that is done.
"""

from __future__ import annotations

import json
import pickle
import socket
import sys
from math import inf
from pathlib import Path

from benchmarks.lab.rack_server import RackServer
from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.sim.world import World


class ChaosServer(RackServer):
    """What the hosts of a rack see of one of them that froze or died while a tool of theirs talks to it."""

    def start(self, stub: socket.socket) -> None:
        """The same, or what befalls a host."""
        asked = json.loads(self._asked[stub])
        if "befall" not in asked:
            try:
                super().start(stub)
            except ValueError:  # its host has just died, and it will with it
                self._forget(stub)
            return
        host, kind = asked["befall"], asked["kind"]
        self._tell()  # time passes up to now
        here = [TimedFault(self._now_s(), inf, Fault(host, kind))] if kind else []
        self._world.rack.passing.set(host, here, self._now_s())  # there is no public way
        self._asked[stub] = b""
        stub.sendall(b"{}\n")


def main(spec: str, path: str) -> None:
    """Serve the world that *spec* describes, as ``rack_server.py`` does."""
    topology, faults, seed, noise_cv, speed = pickle.loads(Path(spec).read_bytes())
    ChaosServer(
        World(topology, MockSettings(faults=faults, noise_cv=noise_cv), seed=seed), Path(path), speed=speed
    ).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
