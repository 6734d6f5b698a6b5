"""A rack whose RNICs stand on real network interfaces, so that a change of a link is a change of a real link."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.lab.lab import SLOWER, Lab, own_environment
from benchmarks.lab.namespaces import inside, ip
from benchmarks.lab.rack import Rack
from fabric.changes.guard import Guard
from fabric.sim import page

LEASE_S = float(round(10 * SLOWER))
"""The shortest that an inventory may say; on a busy machine a guard is armed and renewed later."""

END_S = 120.0
"""A command line that takes longer hangs; a slow machine needs some of it (seconds)."""

_HERE = Path(__file__).parent
_SIOCGIFFLAGS = 0x8913  # linux/sockios.h
_IFF_UP = 1
_CHANGES = """\
changes:
  port_state: ip
  guard_directory: {guards}
  lease: {{ttl: {ttl_s}s, max_hold: 2m}}
"""
_SCENARIO = """\
name: lab
hosts: {host}
{allow}phases:
  - name: altered
    changes:
      - {change}
    probes:
      - rnic_to_rnic: {{duration: 1s, repeat: {repeat}}}
"""
# Ctrl-C is heard also where these tests run in the background of a shell, which has its children ignore it.
_FABRIC = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fabric.cli.main import run
run()
"""
LINK_DOWN = "link_down: {{links: {host}/mlx5_0}}"
RETRANSMISSION = "retransmission: {{selective_repeat: on}}"
SHORT_TIMEOUTS = "retransmission: {{short_timeouts: on}}"
ADAPTIVE_TIMERS = "retransmission: {{adaptive_timers: on}}"
PFC = "{{pfc: on, priority: 3, scope: fabric}}"
DCQCN = "dcqcn: {{priority: 3, np: on, rp: on, knobs: {{rp_ai_rate: 1}}}}"
ECN = "{{ecn: off, traffic_class: 3, scope: fabric}}"
SWITCH_PFC = "{{switch_pfc: off, priority: 3, scope: fabric}}"
"""Of a switch that is the host at its second address: each host has an inventory in which that is its leaf."""
FLAP = "port_flap: {{links: {host}/mlx5_0, down: 0.7s, count: 4, period: 1.1s}}"


class ChangeRack(Rack):
    """
    Each host has ``mlx5_0`` on ``eth1``, an interface of its own, and ``mlx5_1`` on ``eth0``, which carries SSH.

    Both are RoCE. Guards of a host keep what they hold in ``guards_of(host)``. The simulated world, which answers the
    probes, knows nothing of these interfaces.
    """

    def __init__(self, folder: Path, *, hosts: int = 2, speed: float = 2.0) -> None:
        super().__init__(folder, hosts=hosts, parts=2, speed=speed)
        self.place = Path(
            tempfile.mkdtemp(prefix="fabric-test-", dir="/run")
        )  # nobody else can write it, nor one above it
        self._guards, self._sysfs, self._trouble = self.place / "guards", folder / "sysfs", folder / "trouble"
        environment = {
            "FABRIC_LAB_SOCKET": str(folder / "rack.socket"),
            "FABRIC_LAB_TROUBLE": str(self._trouble),
            "FABRIC_SYSFS": str(self._sysfs),
        }
        self._kept = Path(Guard(str(self._guards)).kept_directory)
        self._kept.parent.mkdir(mode=0o700, exist_ok=True)
        private = (self._guards, self._kept)
        self.lab = Lab(folder, hosts=self.hosts, tools=folder / "tools", environment=environment, private=private)
        self._ioctls: dict[str, socket.socket] = {}
        self._number = 0

    def __enter__(self) -> ChangeRack:
        self._trouble.mkdir()
        for name in ("cat", "tee", "dcb", "mlxlink", "mlxreg", "ip", "nv"):
            (self.folder / "tools" / name).symlink_to(_HERE / "rnic_stub.sh")
        squeue = self.folder / "tools" / "squeue"
        squeue.write_text("#!/bin/sh\nexit 127\n")  # the batch system of this machine is not the lab's
        squeue.chmod(0o755)
        self._make_sysfs()
        with contextlib.ExitStack() as stack:
            for place in (self.place, self._kept.parent):
                stack.callback(shutil.rmtree, place, ignore_errors=True)
            stack.push(super().__exit__)
            super().__enter__()
            shown = page("nv-show-qos-roce", priority=3, tx="@tx", rx="@rx", marked="@tc")
            (self.folder / "roce.txt").write_text(shown)
            self._make_switches()
            for host in self.hosts:
                self.lab.namespaces.cable(host, "eth1")
                with inside(self.lab.namespaces.of(host)):
                    self._ioctls[host] = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self._changes = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._changes.close()

    def _make_sysfs(self) -> None:
        """RDMA devices on top of interfaces, as soft-RoCE ones are; the interfaces are those of the real /sys."""
        devices = self._sysfs / "class" / "infiniband"
        for device, interface in (("mlx5_0", "eth1"), ("mlx5_1", "eth0")):
            (devices / device).mkdir(parents=True)
            (devices / device / "parent").write_text(f"{interface}\n")
        (self._sysfs / "class" / "net").symlink_to("/sys/class/net")

    def _make_switches(self) -> None:
        """Every host has a second address, under the same host key."""
        spaces, lines = self.lab.namespaces, self.lab.known_hosts.read_text()
        at = {
            spaces.orchestrator: spaces.orchestrator_address,
            **{spaces.of(h): self.lab.addresses[h] for h in self.hosts},
        }
        for namespace, address in at.items():
            ip("-n", namespace, "address", "add", f"{_as_switch(address)}/24", "dev", "eth0")
        self.lab.known_hosts.write_text(lines + _as_switch(lines))
        for server in self.lab.sshd.values():
            server.stop()
            config = server.folder / "config"
            config.write_text(f"ListenAddress {_as_switch(server.address)}\n{config.read_text()}")
            server.start()

    def inventory_text(self) -> str:
        """As a rack's, with Ethernet and how changes are made."""
        return self.inventory_with()

    def inventory_with(self, *, guards: Path | None = None, more: str = "") -> str:
        """The same with another guard directory, or with more keys under ``changes``."""
        text = super().inventory_text().replace("link_layer: infiniband", "link_layer: ethernet")
        return text + _CHANGES.format(guards=guards or self._guards, ttl_s=int(LEASE_S)) + more

    def inventory_of(self, host: str) -> Path:
        """The inventory in which the leaf is a switch that answers NVUE at the address of a host."""
        path = self.inventory_file.with_name(f"{host}.yaml")
        login = f"address: {_as_switch(self.lab.addresses[host])}, user: root, management: nvue"
        path.write_text(self.inventory_text().replace("tier: leaf}", f"tier: leaf, {login}}}"))
        return path

    def scenario(self, host: str, change: str = LINK_DOWN, *, repeat: int = 1, more: str = "") -> Path:
        """A scenario file with one change of a host, for as long as *repeat* measurements of each pair take."""
        self._number += 1
        path = self.folder / f"scenario{self._number}-{host}.yaml"
        allow = "allow: [power_loss]\n" if change in (ECN, SWITCH_PFC) else ""  # all of it is one machine
        text = _SCENARIO.format(host=host, change=change.format(host=host), repeat=repeat, allow=allow)
        path.write_text(text + more)
        return path

    def run_words(self, scenario: Path, results: Path, *, inventory: Path | None = None) -> tuple[str, ...]:
        """The arguments of ``fabric`` that run it."""
        return (
            "run",
            str(scenario),
            f"--inventory={inventory or self.inventory_file}",
            f"--results={results}",
            "--yes",
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start ``fabric`` with some arguments, in the orchestrator's namespace."""
        argv = (sys.executable, "-X", "faulthandler", "-c", _FABRIC, *words)
        pipe = subprocess.PIPE
        with inside(self.lab.namespaces.orchestrator):
            return subprocess.Popen(
                argv,
                cwd=self.folder,
                env=own_environment(),
                stdin=subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                text=True,
            )

    def closed(self, host: str) -> bool:
        """The interface under ``mlx5_0`` is switched off now."""
        asked = struct.pack("16sh14x", b"eth1", 0)
        (flags,) = struct.unpack("16xh14x", fcntl.ioctl(self._ioctls[host], _SIOCGIFFLAGS, asked))
        return not flags & _IFF_UP

    def times_down(self, host: str) -> int:
        """How often that interface has lost its carrier, as the kernel counts it."""
        argv = ("ip", "netns", "exec", self.lab.namespaces.of(host), "cat", "/sys/class/net/eth1/carrier_down_count")
        return int(subprocess.run(argv, check=True, capture_output=True, timeout=20).stdout)

    def resends(self, host: str) -> bool:
        """The register of an RNIC is altered now."""
        altered = (path for path in self._trouble.glob(f"{host}.*") if ".staged." not in path.name)
        return any(path.read_text().strip() == "1" for path in altered)

    def open_by_hand(self, host: str) -> None:
        """Switch that interface on, and give the registers back."""
        for path in self._trouble.glob(f"{host}.*"):
            path.unlink()
        ip("-n", self.lab.namespaces.of(host), "link", "set", "dev", "eth1", "up")

    def guards_of(self, host: str) -> Path:
        """The folder in which a host's guards keep what they hold."""
        return self.lab.own(self._guards, host)

    def held(self, host: str) -> dict[str, str]:
        """The changes that a host's guards hold, by id, and their states; those that are taken back are left out."""
        states = {folder.name: _state(folder) for folder in self.guards_of(host).glob("[!.]*")}
        return {guard_id: state for guard_id, state in states.items() if state not in ("", "reverted")}

    def live(self, host: str) -> bool:
        """Something of a change is left on a host: a link is closed, a register altered, or a guard holds a change."""
        return self.closed(host) or self.resends(host) or bool(self.held(host))

    def fail_to_open(self, host: str, times: int) -> None:
        """Let the next *times* attempts to switch an interface of this host on fail."""
        (self._trouble / host).write_text(f"{times}\n")


def _as_switch(text: str) -> str:
    """With the second address in place of each first."""
    return text.replace("10.77.0.", "10.77.1.")


def ended(run: subprocess.Popen[str], *, within_s: float = END_S) -> tuple[int, str]:
    """Exit code and all that a command line said; raises with where it hangs when it does not end."""
    try:
        stdout, stderr = run.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGABRT)
        stdout, stderr = run.communicate(timeout=END_S)
        raise TimeoutError(f"fabric did not end within {within_s:g} s: {stdout}{stderr}") from None
    return run.returncode, stdout + stderr


def _state(folder: Path) -> str:
    """The state of a change, the name of an empty file; empty when its folder is gone. It may be renamed meanwhile."""
    for _ in range(5):
        found = [path.name for path in folder.glob("is-*")]
        if found or not folder.exists():
            return found[0].removeprefix("is-") if found else ""
    return "torn"
