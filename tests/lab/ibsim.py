"""A small InfiniBand fabric without hardware: Debian's ibsim, and a real opensm that routes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lab.change_rack import LEASE_S
from benchmarks.lab.lab import own_environment
from benchmarks.lab.namespaces import until
from fabric.changes.guard import Guard
from fabric.tools import infiniband
from fabric.tools.infiniband import PortLine
from tests.conftest import folder_of_this_user
from tests.places import INVENTORY

_HERE = Path(__file__).parent
_LIBRARY = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/umad2sim/libumad2sim.so")
_NET = """\
Switch 8 "leaf1"
[1] "gpu001"[1]
[3] "spine1"[1]
[4] "spine1"[2]

Switch 8 "leaf2"
[1] "gpu002"[1]
[3] "spine1"[3]

Switch 8 "spine1"
[1] "leaf1"[3]
[2] "leaf1"[4]
[3] "leaf2"[3]

Hca 1 "gpu001"
[1] "leaf1"[1]

Hca 1 "gpu002"
[1] "leaf2"[1]
"""
_RESTART = """\
#!/bin/sh
# opensm begins anew, as its unit's restart does, and again after SIGSEGV (the simulator's library does it), as a unit's
# Restart=on-abnormal does; hang-up-opensm, the same file, sends it SIGHUP only.
folder=$FABRIC_LAB_IBSIM pid=$(cat "$FABRIC_LAB_IBSIM/opensm.pid" 2>/dev/null)
case $0 in *hang-up*) exec kill -HUP "$pid" ;; esac
[ -z "$pid" ] || kill -9 "$pid"
rm -f "$folder/opensm.pid"
export OSM_TMP_DIR=$folder OSM_CACHE_DIR=$folder SIM_HOST=gpu002
setsid sh -c '
  for try in 1 2 3; do
    LD_PRELOAD={library} /usr/sbin/opensm -F "$1/opensm.conf" &
    echo $! >"$1/pid.new" && mv "$1/pid.new" "$1/opensm.pid"
    wait $!
    [ $? = 139 ] || exit
  done' sh "$folder" >>"$folder/opensm.out" 2>&1 </dev/null &
for try in 1 2 3 4 5 6 7 8 9 10; do [ ! -e "$folder/opensm.pid" ] || exit 0; sleep 0.1; done
"""
ROUTES = {"leaf1": "0,1", "spine1": "0,1,4", "leaf2": "0,1,4,3"}
"""From gpu001, by ports; none goes through the first cable between leaf1 and spine1."""
_INVENTORY = """\
name: ibsim
backend: process
process:
  prefix: [env, "PATH={tools}:/usr/sbin:/usr/bin:/sbin:/bin", {variables}]
platforms:
  small:
    baseline: h100-ndr
    link_layer: infiniband
    numa_nodes: 1
    rnics:
      - {{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 400}}
hosts:
  - {{names: gpu001, platform: small, leaves: [leaf1]}}
  - {{names: gpu002, platform: small, leaves: [leaf2]}}
switches:
  - {{names: leaf1, tier: leaf, uplinks: {{to: spine1, count: 2, line_rate_gbps: 400}}}}
  - {{names: leaf2, tier: leaf, uplinks: {{to: spine1, count: 1, line_rate_gbps: 400}}}}
  - {{names: spine1, tier: spine}}
changes:
  via: gpu001
  port_state: ibportstate
  guard_directory: {guards}
  subnet_managers: [{{host: gpu002, config: {folder}/opensm.conf, reload: [restart-opensm]}}]
  adaptive_on: {{routing_engine: sssp}}
  adaptive_off: {{routing_engine: updn}}
  lease: {{ttl: {ttl_s}s, max_hold: 2m}}
"""


def missing() -> str | None:
    """Why there can be no such fabric here, None when there can."""
    for name in ("ibsim", "opensm", "ibportstate", "iblinkinfo", "perfquery", "smpquery"):
        if shutil.which(name, path="/usr/sbin:/usr/bin") is None:
            return f"there is no {name} (ibsim-utils, opensm, infiniband-diags)"
    return None if _LIBRARY.exists() else "there is no libumad2sim (ibsim-utils)"


class IbSim:
    """Two leaves, a spine, two hosts; in a with statement. ``inventory`` describes it, seen from gpu001."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.inventory = folder, folder / "ibsim.yaml"
        self._tools = folder / "tools"
        self._variables = {"FABRIC_LAB_IBSIM": str(folder), "IBSIM_SOCKNAME": f"fabric{os.getpid()}"}
        self._guards = folder_of_this_user()
        self._open = contextlib.ExitStack()
        self.log = folder / "opensm.txt"

    def __enter__(self) -> IbSim:
        self._tools.mkdir()
        for name in ("restart-opensm", "hang-up-opensm"):
            (self._tools / name).write_text(_RESTART.format(library=_LIBRARY))
            (self._tools / name).chmod(0o755)
        (self.folder / "opensm.conf").write_text(f"routing_engine updn\nlog_file {self.log}\n")
        for name in ("cat", "ibportstate", "iblinkinfo", "perfquery", "smpquery", "sminfo", "numactl", "ib_write_bw"):
            (self._tools / name).symlink_to(_HERE / "ibsim_stub.sh")
        (self.folder / "net").write_text(_NET)
        self._write_inventory()
        with contextlib.ExitStack() as stack:
            for place in (self._guards, Guard(str(self._guards)).kept_directory):
                stack.callback(shutil.rmtree, place, ignore_errors=True)
            os.mkfifo(self.folder / "console")
            console = os.open(self.folder / "console", os.O_RDWR)  # for both ends there is always somebody
            stack.callback(os.close, console)
            stack.enter_context(self._running("ibsim", "-s", str(self.folder / "net"), stdin=console))
            # Without a fabric opensm ends at once, so ibsim must be there: it says so when it is.
            until(lambda: "sim>" in (self.folder / "ibsim.log").read_text(), "ibsim is there")
            stack.callback(self._end_opensm)
            subprocess.run([self._tools / "restart-opensm"], env={**os.environ, **self._variables}, check=True)
            until(self._is_routed, "opensm has routed the fabric", timeout_s=60)
            self._write_paths()
            self._open = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def _end_opensm(self) -> None:
        pid = (self.folder / "opensm.pid").read_text().strip()
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)

    def ports(self) -> tuple[PortLine, ...]:
        """Every port, from what the real iblinkinfo prints, by the reader of the testbench."""
        environment = {**os.environ, **self._variables, "SIM_HOST": "gpu001"}
        argv = (str(self._tools / "iblinkinfo"), *infiniband.all_ports()[1:])
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        return infiniband.read_ports(done.stdout, done.stderr, done.returncode)

    def port(self, node: str, number: int) -> PortLine:
        """One port of a switch."""
        return next(line for line in self.ports() if (line.end.description, line.end.port) == (node, number))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start ``fabric`` with some arguments."""
        argv = (sys.executable, "-X", "faulthandler", "-c", "from fabric.cli.main import run; run()", *words)
        pipe = subprocess.PIPE
        env = own_environment()
        return subprocess.Popen(
            argv, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )

    def _write_inventory(self) -> None:
        variables = {**self._variables, "SIM_HOST": "gpu001"}
        text = _INVENTORY.format(
            tools=self._tools,
            variables=", ".join(f"{name}={value}" for name, value in variables.items()),
            guards=self._guards,
            folder=self.folder,
            ttl_s=int(LEASE_S),
        )
        self.inventory.write_text(text)
        (self.folder / "baselines").symlink_to(INVENTORY / "baselines")

    def _write_paths(self) -> None:
        lids = {line.end.description: line.end.lid for line in self.ports()}
        (self.folder / "paths").write_text("".join(f"{lids[node]} {node} {path}\n" for node, path in ROUTES.items()))

    def _is_routed(self) -> bool:
        found = [line for line in self.ports() if line.peer is not None]
        return len(found) == 10 and all(line.state.active and line.end.lid for line in found)

    @contextlib.contextmanager
    def _running(self, name: str, *words: str, stdin: int = subprocess.DEVNULL, **more: str) -> Iterator[None]:
        """A program of the fabric, whose output goes to NAME.log; it ends with the with statement."""
        environment = {**os.environ, **self._variables, **more}
        environment |= {"OSM_TMP_DIR": str(self.folder), "OSM_CACHE_DIR": str(self.folder)}
        program = shutil.which(name, path="/usr/sbin:/usr/bin")
        assert program is not None
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                (program, *words), cwd=self.folder, env=environment, stdin=stdin, stdout=log, stderr=log
            )
            try:
                yield
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait(timeout=20)
