"""
Holds the simulated world of a whole lab rack and lets it run in real time, sped up; the tool stubs talk to it.

``python rack_server.py SPEC SOCKET``: SPEC is a pickle of (topology, faults, seed, noise_cv, speed).
"""

from __future__ import annotations

import json
import pickle
import selectors
import socket
import sys
import time
from pathlib import Path

from fabric.model.inventory import MockSettings
from fabric.sim.hosts.timeline import Listening
from fabric.sim.world import World

_IDLE_S = 1.0
_LONGEST_BYTES = 1 << 20
_OUR_VARIABLES = ("FABRIC_LAB_", "SSH_")


class RackServer:
    """One World, and a connection for each of its processes."""

    def __init__(self, world: World, path: Path, *, speed: float) -> None:
        self._world, self._speed = world, speed
        self._begun_s = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(128)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._asked: dict[socket.socket, bytes] = {}  # what has arrived of a question
        self._pids: dict[socket.socket, int] = {}
        self._stubs: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Answer until this process is ended."""
        while True:
            for key, _ in self._selector.select(self._pause_s()):
                self._hear(key.fileobj)
            self._tell()

    def _now_s(self) -> float:
        return (time.monotonic() - self._begun_s) * self._speed

    def _pause_s(self) -> float:
        next_s = self._world.next_s()
        if next_s is None:
            return _IDLE_S
        return min(_IDLE_S, max(0.0, (next_s - self._now_s()) / self._speed))

    def _hear(self, source: object) -> None:
        if source is self._listener:
            stub, _ = self._listener.accept()
            self._asked[stub] = b""
            self._selector.register(stub, selectors.EVENT_READ)
            return
        assert isinstance(source, socket.socket)
        try:
            data = source.recv(1 << 16)
        except ConnectionResetError:  # it was killed with an answer unread
            data = b""
        if not data or len(self._asked[source]) > _LONGEST_BYTES:
            self._forget(source)
            return
        self._asked[source] += data
        if data.endswith(b"\n") and source not in self._pids:
            self.start(source)

    def start(self, stub: socket.socket) -> None:
        """Begin what a stub asked for in the simulated world."""
        asked = json.loads(self._asked[stub])
        env = {name: value for name, value in asked["env"].items() if not name.startswith(_OUR_VARIABLES)}
        pid = self._world.start(asked["host"], asked["argv"], env, self._now_s())
        self._pids[stub], self._stubs[pid] = pid, stub

    def _tell(self) -> None:
        for event in self._world.advance(self._now_s()):
            stub = self._stubs.get(event.pid)
            if stub is None:
                continue  # its stub was killed, and so was it
            if isinstance(event, Listening):
                told: dict[str, object] = {"listen": event.port}
            else:
                told = {"exit_status": event.exit_status, "stdout": event.stdout, "stderr": event.stderr}
            try:
                stub.sendall(json.dumps(told).encode() + b"\n")
            except OSError:
                self._forget(stub)

    def _forget(self, stub: socket.socket) -> None:
        """The tool has ended, or was killed: then its simulated process is too."""
        self._selector.unregister(stub)
        stub.close()
        del self._asked[stub]
        pid = self._pids.pop(stub, None)
        if pid is not None:
            del self._stubs[pid]
            self._world.kill(pid, self._now_s())


def main(spec: str, path: str) -> None:
    """Serve the world that *spec* describes."""
    topology, faults, seed, noise_cv, speed = pickle.loads(Path(spec).read_bytes())
    RackServer(
        World(topology, MockSettings(faults=faults, noise_cv=noise_cv), seed=seed), Path(path), speed=speed
    ).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
