"""A simulated rack behind real SSH: namespaces, sshd servers, tool stubs on their PATH, one rack server."""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.lab.lab import ROOT, Lab, own_environment
from benchmarks.lab.namespaces import inside, until
from fabric.config.inventory import load_inventory
from fabric.model.inventory import Fault, Inventory

TOOLS = ("ib_write_bw", "alltoall_perf", "all_reduce_perf", "mpirun", "numactl", "srun", "hostname")
_HERE = Path(__file__).parent

_PLATFORM = """\
name: lab
backend: ssh
platforms:
  dgx:
    baseline: h100-ndr
    link_layer: infiniband
    numa_nodes: 2
    mpirun_options: [--allow-run-as-root]
    pcie_switches:
{switches}
    gpus:
{gpus}
    rnics:
{rnics}
hosts:
{hosts}
switches:
  - {{names: leaf0, tier: leaf}}
ssh:
  user: root
  key_file: {key_file}
  agent: false
  known_hosts: [{known_hosts}]
  connect_timeout: {connect_timeout_s}s
"""


class Rack:
    """
    Use it in a with statement. *faults* and *seed* are those of the simulated world; its time is *speed* times ours.

    ``inventory_file`` describes it; ``run`` runs a command line where all hosts can be reached. A host that a fault
    makes unreachable has no sshd. *program* holds the simulated world.
    """

    program = _HERE / "rack_server.py"

    def __init__(
        self,
        folder: Path,
        *,
        hosts: int = 4,
        parts: int = 2,
        faults: tuple[Fault, ...] = (),
        seed: int = 1,
        noise_cv: float = 0.003,
        speed: float = 100.0,
    ) -> None:
        self.folder, self.faults, self.seed, self.noise_cv, self.speed = folder, faults, seed, noise_cv, speed
        self.hosts = tuple(f"gpu{number:03d}" for number in range(1, hosts + 1))
        self._parts = parts
        self._socket = folder / "rack.socket"
        tools = folder / "tools"
        self.lab = Lab(folder, hosts=self.hosts, tools=tools, environment={"FABRIC_LAB_SOCKET": str(self._socket)})
        self.inventory_file = folder / "inventory" / "lab.yaml"
        self._open = contextlib.ExitStack()
        install_stubs(tools)

    def __enter__(self) -> Rack:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.lab)
            self.inventory_file.parent.mkdir()
            self.inventory_file.write_text(self.inventory_text())
            (self.inventory_file.parent / "baselines").symlink_to(ROOT / "inventory" / "baselines")
            spec = (self.inventory().topology, self.faults, self.seed, self.noise_cv, self.speed)
            stack.enter_context(serving(self.folder, spec, self.program))
            for fault in self.faults:
                if fault.component in self.hosts and fault.kind in ("broken", "absent"):
                    self.lab.sshd[fault.component].stop()
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def inventory(self) -> Inventory:
        """The inventory as the testbench reads it."""
        return load_inventory(self.inventory_file)

    def inventory_text(self) -> str:
        """The inventory file: hosts, their addresses in the lab, and how SSH reaches them."""
        parts = self._parts
        half = parts // 2
        leaves = ", ".join(["leaf0"] * parts)  # one ToR: leaves of their own would have nothing to join them
        return _PLATFORM.format(
            switches=_lines(f"{{name: pcie{i}, numa: {2 * i // parts}}}" for i in range(parts)),
            gpus=_lines(f"{{index: {i}, pcie_switch: pcie{i}}}" for i in range(parts)),
            rnics=_lines(
                f"{{device: mlx5_{i}, rail: {i}, numa: {i // half}, pcie_switch: pcie{i}, line_rate_gbps: 400}}"
                for i in range(parts)
            ),
            hosts=_lines(
                f"{{names: {host}, platform: dgx, address: {self.lab.addresses[host]}, rack: r1, leaves: [{leaves}]}}"
                for host in self.hosts
            ),
            key_file=self.lab.key_file,
            known_hosts=self.lab.known_hosts,
            connect_timeout_s=5,
        )

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command line of the orchestrator, in its namespace and in the rack's folder."""
        with inside(self.lab.namespaces.orchestrator):
            return subprocess.run(
                argv,
                check=False,
                cwd=self.folder,
                env=own_environment(),
                capture_output=True,
                text=True,
                timeout=timeout_s,
            )

    def fabric(self, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run ``fabric`` with some arguments there."""
        program = "from fabric.cli.main import run; run()"
        return self.run((sys.executable, "-c", program, *words), timeout_s=timeout_s)


@contextlib.contextmanager
def serving(folder: Path, spec: tuple[Any, ...], program: Path) -> Iterator[Path]:
    """A rack server of the simulated world of *spec* (see rack_server.py); yields its socket."""
    pickled, listening = folder / "rack.pickle", folder / "rack.socket"
    pickled.write_bytes(pickle.dumps(spec))
    argv = (sys.executable, str(program), str(pickled), str(listening))
    log = (folder / "rack_server.log").open("wb")
    with log, subprocess.Popen(argv, env=own_environment(), stdout=log, stderr=log) as server:
        try:
            until(lambda: listening.exists() or server.poll() is not None, "the rack server listens")
            if server.poll() is not None:
                raise OSError((folder / "rack_server.log").read_text())
            yield listening
        finally:
            server.send_signal(signal.SIGKILL)


def install_stubs(tools: Path, names: Sequence[str] = TOOLS) -> None:
    """Make a PATH folder in which every tool is the stub."""
    tools.mkdir()
    stub = tools / ".stub"
    stub.write_text(f"#!{sys.executable} -IS\n{(_HERE / 'tool_stub.py').read_text()}")
    stub.chmod(0o755)
    for name in names:
        (tools / name).symlink_to(stub)


def _lines(items: Iterator[str]) -> str:
    return "\n".join(f"      - {item}" for item in items)
