"""What is asked of a simulated host before a run: programs and their versions, its kernel, its GPUs, other hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fabric.sim.compute_apps import WORDS, compute_apps
from fabric.sim.host_files import grep, kernel_files, listed, network
from fabric.sim.job import Setting
from fabric.sim.lspci import lspci
from fabric.sim.nvidia import gpu_model
from fabric.sim.port_tool import ANSWER_S, Asked, Said, gpu_pci_address
from fabric.sim.process import Process
from fabric.sim.rack import Rack

Program = Callable[[Asked], Said | None]
"""Answers, or hangs (None)."""

EPOCH_S = 1_700_000_000.0
"""What the hosts' clocks show when simulated time begins; any instant would do."""

_GPUS = "--query-gpu=index,name,mig.mode.current"
_JOBS = "--query-compute-apps=gpu_uuid,pid,process_name"
_BUILD = "BUILD VERSION: 44.0\n"
_SAYS: Mapping[tuple[str, ...], str] = {
    ("mpirun", "--version"): "mpirun (Open MPI) 4.1.7\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
    ("srun", "--version"): "slurm 22.05.8\n",
    ("flock", "--version"): "flock from util-linux 2.38.1\n",
    ("setsid", "--version"): "setsid from util-linux 2.38.1\n",
    ("timeout", "--version"): "timeout (GNU coreutils) 9.1\n",
    ("ip", "-V"): "ip utility, iproute2-6.1.0, libbpf 1.1.0\n",
    ("python3", "--version"): "Python 3.11.2\n",
    ("systemctl", "--version"): "systemd 252 (252.39-1~deb12u1)\n",
    ("id", "-un"): "root\n",
    ("ibportstate", "-V"): f"ibportstate {_BUILD}",
    ("iblinkinfo", "-V"): f"iblinkinfo {_BUILD}",
    ("perfquery", "-V"): f"perfquery {_BUILD}",
    ("sminfo", "-V"): f"sminfo {_BUILD}",
}
_USAGE = (
    "USAGE: {name} \n\t[-t,--nthreads <num threads>] \n\t[-g,--ngpus <gpus per thread>] \n"
    "\t[-b,--minbytes <min size in bytes>] \n\t[-e,--maxbytes <max size in bytes>] \n\t[-h,--help]\n"
)


class HostProgram:
    """One call of such a program."""

    def __init__(self, program: Program, words: tuple[str, ...], setting: Setting) -> None:
        self._program = program
        self._words = words
        self._setting = setting

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Answer a moment later, unless what it asks never does."""
        site = rack.site(self._setting.hosts[0]) if self._setting.hosts else process.site

        def answer(now_s: float) -> None:
            if process.pid not in rack.timeline.alive:
                return
            said = self._program(Asked(rack, site, self._words, now_s, process.pid))
            if said is not None:
                rack.timeline.exit(process, now_s, status=said.status, stdout=said.stdout, stderr=said.stderr)

        rack.timeline.at(at_s + ANSWER_S, answer)


def host_program(name: str, words: Sequence[str], setting: Setting) -> HostProgram | None:
    """The program that this command line calls, None when it is not one of these."""
    program = _found(name, tuple(words))
    return None if program is None else HostProgram(program, tuple(words), setting)


def _found(name: str, words: tuple[str, ...]) -> Program | None:
    """Every command line of a run comes through here: most are sent on at the first look."""
    if name.endswith("_perf") and words == ("-h",):
        return lambda _: Said(_USAGE.format(name=name))
    if name == "cat" and words and all(path.startswith("/proc/") for path in words):
        return kernel_files
    text = _SAYS.get((name, *words[:1])) if len(words) == 1 else None
    if text is not None:
        return lambda _: Said(text)
    return next((program for first, program in _CALLED.get(name, ()) if words[: len(first)] == first), None)


def _hardware(asked: Asked) -> Said:
    nodes = asked.site.layout.platform.numa_nodes
    rows = "".join(f"node {node} cpus: {node}\nnode {node} size: 1031000 MB\n" for node in range(nodes))
    return Said(f"available: {nodes} nodes (0-{nodes - 1})\n{rows}")


def _date(asked: Asked) -> Said:
    """The clocks of all hosts are the same one."""
    if asked.words != ("+%s.%N",):
        return Said(stderr="date: simulated rack: only +%s.%N is simulated\n", status=1)
    whole, part = divmod(round((EPOCH_S + asked.at_s) * 1e6), 10**6)
    return Said(f"{whole}.{part:06d}000\n")


def _queried(asked: Asked) -> Said | None:
    """The two questions of a pre-flight; the driver of a host with a GPU that is lost answers nothing else."""
    gpus = asked.site.layout.platform.gpus
    troubles = {gpu.index: asked.site.trouble_of(gpu.name) for gpu in gpus}
    if "hanging" in troubles.values():
        return None
    broken = next((index for index, trouble in troubles.items() if trouble == "broken"), None)
    if broken is not None:
        lost = "GPU is lost.  Reboot the system to recover this GPU"
        return Said(f"Unable to determine the device handle for GPU {gpu_pci_address(broken)}: {lost}\n", status=15)
    there = sum(trouble != "absent" for trouble in troubles.values())
    if not there:
        return Said("No devices were found\n", status=6)
    if asked.words[0] == _JOBS:
        busy = compute_apps(replace(asked, words=tuple(WORDS)))
        pids = busy.stdout.split() if busy else []
        return Said("".join(f"GPU-00000000-0000-0000-0000-000000000000, {pid}, all_reduce_perf\n" for pid in pids))
    model = gpu_model(asked.site.layout.generation)
    return Said("".join(f"{number}, {model}, Disabled\n" for number in range(there)))


def _ssh(asked: Asked) -> Said | None:
    """``ssh [-o NAME=VALUE]... HOST true``: every host trusts every other."""
    words = list(asked.words)
    while words[:1] == ["-o"]:
        del words[:2]
    if words[1:] != ["true"]:
        return Said(stderr="ssh: simulated rack: only `ssh HOST true` is simulated\n", status=255)
    peer = asked.rack.reached(asked.site, words[0])
    if peer is None:
        return Said(stderr=f"ssh: connect to host {words[0]} port 22: No route to host\n", status=255)
    return None if asked.rack.host_kind(peer.host.name) == "hanging" else Said()


def _sudo_list(asked: Asked) -> Said:
    """``sudo -n -l PROGRAM``: everybody may do everything."""
    names = [word for word in asked.words if not word.startswith("-")]
    return Said(f"{names[0] if names[0].startswith('/') else '/usr/bin/' + names[0]}\n" if names else "")


def _mlxconfig(asked: Asked) -> Said:
    """``mlxconfig -d DEVICE query SETTING...``: nothing keeps a port from closing."""
    words = asked.words
    if len(words) < 3 or words[0] != "-d" or words[2] not in ("query", "q"):
        return Said(stderr="-E- simulated rack: only query is simulated\n", status=1)
    if asked.local_port(words[1]) is None:
        return Said(stderr=f"-E- Failed to open device: {words[1]}. No such file or directory\n", status=3)
    rows = "".join(f"        {name:<44}False(0)\n" for name in words[3:])
    return Said(
        f"\nDevice #1:\n----------\n\nDevice type:        ConnectX7\nDevice:             {words[1]}\n\n"
        f"Configurations:                                      Next Boot\n{rows}"
    )


_CALLED: Mapping[str, tuple[tuple[tuple[str, ...], Program], ...]] = {
    "date": (((), _date),),
    "grep": (((), grep),),
    "ls": (((), listed),),
    "lspci": (((), lspci),),
    "mlxconfig": (((), _mlxconfig),),
    "numactl": ((("--hardware",), _hardware),),
    "nvidia-smi": (((_GPUS,), _queried), ((_JOBS,), _queried)),
    "readlink": (((), network),),
    "ssh": (((), _ssh),),
    "sudo": ((("-n", "-l"), _sudo_list),),
}
"""By name, then by the first words."""
