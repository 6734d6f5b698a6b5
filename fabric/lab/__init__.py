"""Makes a box on this machine, breaks it, takes it away: the only file of this room that touches anything.

Every interface is made inside a namespace of the box; every process runs in a namespace, with a ``/run`` and
``/etc/hosts`` of its own; all files are in one folder. Everything is recorded before it is made, so that ``down`` finds
it.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import permutations
from pathlib import Path
from typing import Any

from fabric.errors import ConfigError, FabricError, StoreError
from fabric.lab import layout
from fabric.lab.faults import Act, BoxFault, fault
from fabric.lab.layout import ORCHESTRATOR, Box, baseline_text, inventory_text

STATE = Path("/var/lib/fabric-lab")
"""Each box has a folder of its name here."""

COMMAND_S = 20.0
READY_S = 30.0
"""Deadlines for one command, and for routing with all sshd; they take one second and three on an idle machine."""

_FRR = Path("/usr/lib/frr")
_SPACES = Path("/run/netns")
_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "sysctl": "procps",
    "unshare": "util-linux",
    "chrt": "util-linux",
    "numactl": "numactl",
    str(_FRR / "bgpd"): "frr",
}
_BEFORE_OTHERS = {"bfdd": ("chrt", "--rr", "10")}
"""
BFD gives up after 150 ms without a processor, so its daemon gets real-time priority.

The other daemons have seconds, and threads that spin until another of their threads is done: with such a priority they
would keep that thread waiting for ever.
"""
_EARLY = ("nice", "-n", "-15")
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_ENTER = """
hostname "$1" && mount --bind "$2/$1/run" /run && mount --bind "$2/hosts" /etc/hosts &&
mount -t tmpfs -o size=16m,mode=700 home ~root && mount --bind "$2/ssh_config" /etc/ssh/ssh_config &&
shift 2 && exec "$@"
"""
"""
Run in a mount and UTS namespace made for it; its arguments are the node, the folder, and a program.

The home is empty, so that no session waits for what this machine's shells do when they start.
"""


@dataclass(frozen=True, slots=True)
class BoxStatus:
    """A box as it is now: how many of its namespaces exist, processes in them, faults in force."""

    box: Box
    inventory: str
    namespaces: int
    processes: int
    faults: tuple[str, ...]
    mpi: bool


def refuse_where_impossible() -> None:
    """Raise ConfigError unless this is Linux, we are root, and every program is there."""
    if os.uname().sysname != "Linux" or os.geteuid() != 0:
        raise ConfigError.at("fabric lab", "needs Linux and root: it makes network namespaces (sudo fabric lab ...)")
    path = f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"
    lacking = sorted({package for name, package in _PACKAGES.items() if shutil.which(name, path=path) is None})
    if lacking:
        raise ConfigError.at(
            "fabric lab", f"not installed: apt-get install --no-install-recommends {' '.join(lacking)}"
        )


def up(box: Box, inventory: Path) -> BoxStatus:
    """Make a box; when that fails, take away what was begun. Raises FabricError with what went wrong."""
    folder = Path(box.folder)
    if (folder / "box.json").exists():
        raise ConfigError.at("fabric lab", f"there is a box {box.name} already: fabric lab down first")
    strangers = ", ".join(_spaces(box))
    if strangers:
        raise ConfigError.at("fabric lab", f"network namespaces of these names are there already: {strangers}")
    mpi = shutil.which("mpicc") is not None and shutil.which("mpirun") is not None
    baseline = inventory.parent / "baselines" / f"{box.name}.yaml"
    texts = {inventory: inventory_text(box, with_mpi=mpi), baseline: baseline_text(box)}
    for path in texts:
        if path.exists():
            raise ConfigError.at(path, "is there already, and is not overwritten: move it, or give --inventory")
    written = {str(path.absolute()): text for path, text in texts.items()}
    about = {"box": asdict(box), "inventory": str(inventory.absolute()), "files": written, "faults": [], "mpi": mpi}
    try:
        folder.mkdir(parents=True, mode=0o755, exist_ok=True)
        _save(folder, about)
    except OSError as exc:
        (folder / "box.json.part").unlink(missing_ok=True)
        raise StoreError(f"no box can be made in {folder}: {exc.strerror}") from exc
    try:
        _programs(folder, mpi=mpi)
        _keys(box)
        _network(box)
        _daemons(box)
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except BaseException as exc:
        down(box.name)
        if isinstance(exc, OSError):
            raise StoreError(f"the box could not be made: {exc.filename or folder}: {exc.strerror}") from exc
        raise
    return status(box.name)


def down(name: str) -> list[str]:
    """Take a box away, even half of one; files that were altered since are left, and returned."""
    box, saved = _saved(name)
    spaces = _spaces(box)
    if any((_SPACES / space).samefile("/proc/self/ns/net") for space in spaces):
        raise ConfigError.at("fabric lab", "this shell is inside the box: leave it first")
    for space in spaces:
        _end(space)
    for space in spaces:
        _run(("ip", "netns", "delete", space))
    kept = []
    for path_text, text in saved["files"].items():
        path = Path(path_text)
        if not path.is_file():
            continue
        if path.read_text() == text:
            path.unlink()
        else:
            kept.append(path_text)
    shutil.rmtree(box.folder)
    return kept


def status(name: str) -> BoxStatus:
    """Return how a box is; raises ConfigError when there is none."""
    box, saved = _saved(name)
    spaces = _spaces(box)
    processes = sum(len(_pids(space)) for space in spaces)
    return BoxStatus(box, saved["inventory"], len(spaces), processes, tuple(saved["faults"]), saved["mpi"])


def break_part(name: str, text: str) -> None:
    """Bring a fault into force, recorded beforehand."""
    box, saved = _saved(name)
    wanted = fault(box, text, len(saved["faults"]))
    _save(Path(box.folder), {**saved, "faults": [*saved["faults"], text]})
    _act(box, wanted.apply)
    _signal(box, wanted, signal.SIGSTOP)


def mend(name: str) -> tuple[str, ...]:
    """Take all faults back, the newest first; return what they were."""
    box, saved = _saved(name)
    texts = tuple(saved["faults"])
    for number, text in reversed(list(enumerate(texts))):
        wanted = fault(box, text, number)
        _act(box, wanted.undo, strictly=False)
        _signal(box, wanted, signal.SIGCONT)
        _save(Path(box.folder), {**saved, "faults": list(texts[:number])})
    _wait(box, lambda: _routed(box), "every leaf has all ways to every other")
    return texts


def enter(name: str, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs *argv* where the orchestrator is."""
    return ("ip", "netns", "exec", _saved(name)[0].namespace(ORCHESTRATOR), *argv)


def refuse_name(name: str) -> None:
    """Raise ConfigError for a bad name of a box: it is part of a path that root deletes, and of namespaces."""
    if not (name.isascii() and name.isalnum() and len(name) <= 12):
        raise ConfigError.at("--name", f"expected up to 12 letters and digits, got {name!r}")


def _spaces(box: Box) -> list[str]:
    """Return those of its namespaces that exist."""
    return [space for space in map(box.namespace, box.nodes) if (_SPACES / space).exists()]


def _saved(name: str) -> tuple[Box, dict[str, Any]]:
    """Return a box, and what was recorded about it."""
    refuse_name(name)
    path = STATE / name / "box.json"
    try:
        saved = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError.at("fabric lab", f"there is no box {name}: fabric lab up makes one") from None
    except ValueError:
        advice = f"delete namespaces fabric-{name}-* (ip netns delete) and {path.parent}"
        raise ConfigError.at(path, f"is no record of a box any more: {advice}") from None
    return Box(**saved["box"]), saved


def _save(folder: Path, document: Mapping[str, object]) -> None:
    part = folder / "box.json.part"
    part.write_text(json.dumps(document, indent=1))
    part.replace(folder / "box.json")


def _programs(folder: Path, *, mpi: bool) -> None:
    """Put the measuring programs into the box, with *mpi* also those that need MPI."""
    source, bin_folder = files("fabric.lab") / "programs", folder / "bin"
    bin_folder.mkdir()
    tool = bin_folder / "ib_write_bw"
    tool.write_text("#!/usr/bin/python3 -IS\n" + (source / "ib_write_bw.py").read_text())
    tool.chmod(0o755)
    if mpi:
        code = folder / "collective_perf.c"
        code.write_text((source / "collective_perf.c").read_text())
        _run(("mpicc", "-O2", "-o", str(bin_folder / "all_reduce_perf"), str(code)))
        (bin_folder / "alltoall_perf").symlink_to("all_reduce_perf")


def _keys(box: Box) -> None:
    """Make a key of the box and one of each host, list them as known hosts, and write the files for sshd and ssh."""
    folder, known = Path(box.folder), []
    _make_key(folder / "key")
    for node in box.nodes:
        (folder / node / "run" / "sshd").mkdir(parents=True)
        if node in box.leaf_of:
            address, key = box.management_address(node), folder / node / "host_key"
            known.append(f"{node},{address} {_make_key(key)}")
            own = layout.sshd_config(address, key=str(key), pid="/run/sshd.pid", authorized=f"{folder}/key.pub")
            (folder / node / "sshd_config").write_text(own)  # /run is the host's own
    (folder / "known_hosts").write_text("".join(known))
    (folder / "hosts").write_text(layout.hosts_file(box))
    (folder / "ssh_config").write_text(layout.ssh_config(box))


def _make_key(path: Path) -> str:
    """Make a key and return the line of its public half."""
    _run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.parent.name, "-f", str(path)))
    return Path(f"{path}.pub").read_text()


def _network(box: Box) -> None:
    """Make namespaces, cables, addresses and queues."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda node: _run(("ip", "netns", "add", box.namespace(node))), box.nodes))
        list(pool.map(lambda node: _batch(box, node, "ip", layout.cables(box, node)), box.nodes))
        list(pool.map(lambda node: _dress(box, node), box.nodes))


def _dress(box: Box, node: str) -> None:
    words = layout.sysctls(box, node)
    if words:
        _act(box, [Act(node, ("sysctl", "-q", "-e", "-w", *words))])
    _batch(box, node, "ip", layout.addresses(box, node))
    queues = (layout.queue_line(port) + layout.shaped(port, box.rate_mbit) for port in box.ports(node))
    _batch(box, node, "tc", "".join(queues))
    if node in box.switches:
        _act(box, [Act(node, ("nft", "-f", "-"), layout.control_rules())])


def _batch(box: Box, node: str, program: str, lines: str) -> None:
    if lines:
        _run((program, "-n", box.namespace(node), "-batch", "-"), lines)


def _daemons(box: Box) -> None:
    """
    Start FRR on switches, sshd on hosts; ready when every leaf has all ways to every other and every sshd listens.
    """
    folder = Path(box.folder)
    for node in box.switches:
        (folder / node / "run" / "frr").mkdir()
        for daemon in layout.DAEMONS:
            (folder / node / f"{daemon}.conf").write_text(layout.frr_config(box, node, daemon))
        for path in (folder / node, folder / node / "run" / "frr"):
            shutil.chown(path, "frr", "frr")
    for daemon in layout.DAEMONS:
        for node in box.switches:
            argv = (str(_FRR / daemon), "-f", f"{folder}/{node}/{daemon}.conf", "--log", "stdout")
            _start(box, node, (*_BEFORE_OTHERS.get(daemon, _EARLY), *argv))
        if daemon == "zebra":
            _wait_for(box, [folder / node / "run" / "frr" / "zserv.api" for node in box.switches], "zebra listens")
    for host in box.leaf_of:
        sshd = shutil.which("sshd", path=_SBIN) or "/usr/sbin/sshd"
        _start(box, host, (sshd, "-D", "-e", "-f", f"{folder}/{host}/sshd_config"))
    _wait_for(box, [folder / host / "run" / "sshd.pid" for host in box.leaf_of], "sshd of every host listens")
    _wait(box, lambda: _routed(box), "every leaf has all ways to every other")


def _start(box: Box, node: str, argv: Sequence[str]) -> None:
    program = Path(next(word for word in argv if word.startswith("/"))).name
    enter_node = ("unshare", "--uts", "sh", "-c", _ENTER, "sh", node, box.folder)
    with (Path(box.folder) / node / f"{program}.log").open("ab") as log:
        subprocess.run(
            ("setsid", "--fork", "ip", "netns", "exec", box.namespace(node), *enter_node, *argv),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", timeout=COMMAND_S, check=True,
        )  # fmt: skip


def _routed(box: Box) -> bool:
    pairs = ((box.namespace(leaf), box.subnet(other)) for leaf, other in permutations(box.leaf_names, 2))
    return all(_run(("ip", "-n", space, "route", "show", net)).count(" via ") >= box.spines for space, net in pairs)


def _wait_for(box: Box, paths: Sequence[Path], what: str) -> None:
    _wait(box, lambda: all(path.exists() for path in paths), what)


def _wait(box: Box, condition: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > until_s:
            logs = sorted(Path(box.folder).glob("*/*.log"))
            last = [
                f"{path.parent.name}/{path.name}: {text[-200:]}" for path in logs if (text := path.read_text().strip())
            ]
            raise FabricError(f"the box is not ready: not within {READY_S:g} s: {what}; {' | '.join(last[:4])}")
        time.sleep(0.05)


def _act(box: Box, acts: Iterable[Act], *, strictly: bool = True) -> None:
    for act in acts:
        with suppress(*(() if strictly else (FabricError,))):  # what is to be taken back may be gone
            _run(("ip", "netns", "exec", box.namespace(act.node), *act.argv), act.stdin)


def _signal(box: Box, wanted: BoxFault, number: signal.Signals) -> None:
    for pid in _pids(box.namespace(wanted.stopped)) if wanted.stopped is not None else ():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _end(space: str) -> None:
    """End every process in a namespace, by its id; repeat, because one may start another meanwhile."""
    until_s = time.monotonic() + COMMAND_S
    while pids := _pids(space):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until_s:
            raise FabricError(f"processes in {space} do not end: {pids}")
        time.sleep(0.02)


def _pids(space: str) -> list[int]:
    return [int(word) for word in _run(("ip", "netns", "pids", space)).split()]


def _run(argv: Sequence[str], stdin: str = "") -> str:
    """Return what a command prints; raises FabricError with its complaint."""
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"}
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=COMMAND_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired as exc:
        raise FabricError(f"{' '.join(argv[:6])}: not within {COMMAND_S:g} s") from exc
    if done.returncode != 0:
        raise FabricError(f"{' '.join(argv)}: {done.stderr.strip()[:300] or f'exit {done.returncode}'}")
    return done.stdout
