"""
What one look at all links costs with the real tools: opensm routes a simulated fabric (ibsim), iblinkinfo and
ibqueryerrors walk over it, and our readers make of it what a run would write down.

``python -m benchmarks.lab.link_sweep [LEAVES SPINES HOSTS]``: 32 16 16 are 1,024 links. Needs ibsim and opensm.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fabric.engine.link_views import ends_of
from fabric.errors import ToolError
from fabric.model.topology import Host, Platform, Rnic, Switch, Topology, Uplinks
from fabric.tools import infiniband
from fabric.tools.infiniband import ErrorSweep, PortLine

LIBRARY = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/umad2sim/libumad2sim.so")


def topology(leaves: int, spines: int, hosts: int) -> Topology:
    """So many leaves, each with so many hosts of one RNIC and a cable to every spine."""
    platform = Platform("one", (), (Rnic("HCA-1", 1, 0, 0, None, 400.0, ()),), 1, (), "infiniband", "h100-ndr")
    lower, upper = (
        tuple(f"{kind}{n:02}" for n in range(count)) for kind, count in (("leaf", leaves), ("spine", spines))
    )
    names = [(f"h{leaf:02}x{n:02}", f"leaf{leaf:02}") for leaf in range(leaves) for n in range(hosts)]
    switches = {name: Switch(name, "leaf" if name in lower else "spine") for name in (*lower, *upper)}
    return Topology(
        {name: Host(name, platform, name, None, (leaf,)) for name, leaf in names},
        switches,
        (Uplinks(lower, upper, 1, 400.0),),
    )


def net(fabric: Topology) -> str:
    """The same for ibsim: switches number their ports as links come."""
    used, rows = dict.fromkeys(fabric.switches, 0), {name: list[str]() for name in (*fabric.switches, *fabric.hosts)}
    for link in fabric.links():
        ends = []
        for name in (link.a.partition("/")[0], link.b):
            used[name] = used.get(name, 0) + 1
            ends.append((f"{name} HCA-1" if name in fabric.hosts else name, name, used[name]))
        for (_, near, port), (far, _, far_port) in (ends, ends[::-1]):
            rows[near].append(f'[{port}] "{far}"[{far_port}]')
    heads = {
        name: f'Switch {used[name]} "{name}"' if name in fabric.switches else f'Hca 1 "{name} HCA-1"' for name in rows
    }
    return "\n".join("\n".join([heads[name], *found, ""]) for name, found in rows.items())


def _routed(env: dict[str, str]) -> bool:
    """Whether every port with a neighbour is active: opensm's log says "SUBNET UP" in some releases only."""
    said = subprocess.run(infiniband.all_ports(), env=env, capture_output=True, text=True, timeout=60, check=False)
    try:
        lines = infiniband.read_ports(said.stdout, said.stderr, said.returncode)
    except ToolError:
        return False
    return all(line.state.active for line in lines if line.peer is not None)


@contextmanager
def simulated(folder: Path, fabric: Topology) -> Iterator[dict[str, str]]:
    """The environment in which the tools see it, routed."""
    (folder / "net").write_text(net(fabric))
    os.mkfifo(folder / "console")
    first, last = (f"{name} HCA-1" for name in (next(iter(fabric.hosts)), list(fabric.hosts)[-1]))
    own = {
        **os.environ,
        "IBSIM_SOCKNAME": f"sweep{os.getpid()}",
        "OSM_TMP_DIR": str(folder),
        "OSM_CACHE_DIR": str(folder),
    }
    seen = {**own, "LD_PRELOAD": str(LIBRARY), "SIM_HOST": first}
    with ExitStack() as stack:
        console = os.open(folder / "console", os.O_RDWR)
        stack.callback(os.close, console)
        for argv, env, stdin in (
            (("ibsim", "-s", "-N", "4000", "-S", "500", "-P", "40000", str(folder / "net")), own, console),
            (("opensm", "-f", str(folder / "opensm.txt")), {**seen, "SIM_HOST": last}, subprocess.DEVNULL),
        ):
            log = stack.enter_context((folder / f"{argv[0]}.log").open("wb"))
            process = subprocess.Popen(argv, cwd=folder, env=env, stdin=stdin, stdout=log, stderr=log)
            stack.callback(process.wait, 20)
            stack.callback(process.send_signal, signal.SIGKILL)
            time.sleep(2.0)  # opensm ends at once where there is no fabric yet
        until_s = time.monotonic() + 120.0
        while time.monotonic() < until_s and not _routed(seen):
            time.sleep(0.5)
        yield seen
        os.write(console, b"q\n")


def _said(argv: tuple[str, ...], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What a tool printed; it starts up to three times, as libumad2sim may end one by SIGSEGV on a busy machine."""
    for _ in range(3):
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != -signal.SIGSEGV:
            break
    return done


Swept = tuple[dict[str, float], tuple[PortLine, ...], ErrorSweep]


def sweep(env: dict[str, str], fabric: Topology, *, whole: bool = False) -> Swept:
    """
    One look: seconds, CPU seconds of the tools and of our readers, bytes; and what was read.

    *whole*: one of each half hour, which also asks what was sent and how long ports waited.
    """
    began_s, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    asked = infiniband.all_ports(), infiniband.errors(without=() if whole else infiniband.BUSY)
    said = [_said(argv, env) for argv in (*asked, *((infiniband.data(),) if whole else ()))]
    lasted_s, after, own_s = (
        time.monotonic() - began_s,
        resource.getrusage(resource.RUSAGE_CHILDREN),
        time.process_time(),
    )
    lines = infiniband.read_ports(said[0].stdout, said[0].stderr, said[0].returncode)
    errors = infiniband.read_errors(said[1].stdout, said[1].stderr, said[1].returncode)
    if whole:
        infiniband.read_data(said[2].stdout, said[2].stderr, said[2].returncode)
    ends = ends_of(lines, fabric)
    cost = {
        "seconds": lasted_s,
        "cpu_s": after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime,
        "readers_s": time.process_time() - own_s,
        "bytes": float(sum(len(one.stdout) for one in said)),
        "ends": float(len(ends)),
    }
    return cost, lines, errors


if __name__ == "__main__":
    made = topology(*(int(word) for word in sys.argv[1:4])) if len(sys.argv) > 3 else topology(32, 16, 16)
    with tempfile.TemporaryDirectory() as place, simulated(Path(place), made) as seen:
        for whole in (False, False, True, True):
            cost = {name: round(value, 3) for name, value in sweep(seen, made, whole=whole)[0].items()}
            print(cost, f"{made.link_count} links{', whole' if whole else ''}")
