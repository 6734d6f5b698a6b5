"""
Special files in a results folder: no command waits for one, fills the memory with it or prints what lies behind it.

    python benchmarks/special_files.py [--cases 120] [--seed 1] [--only WORDS] [--show]

Each case takes a results folder with three small runs of the mock (two ended, one was killed with a change open), puts
a FIFO, a socket, a device, a link (to /dev/zero, to a foreign file, to nowhere, to itself), a directory, a sparse file
of 20 GiB or garbage where one of its files, folders or temporary files lies or would lie, and runs one command. A case
has failed when the command does not end within 20 s, takes more than 300 MB, ends in a traceback or a defect of its
own, prints a byte of the foreign file, or alters anything outside. Only a scenario's folder may be a link: new runs are
made behind it. ``fabric restore`` of all runs must end with 4 where a journal cannot be read, and must have taken back
the change that is open in another. Devices need root, else they are left out.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fabric.runs.tables import TABLES

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 20.0
MOST_RSS = 300 * 10**6
CANARY = "canary-0d9f"
SECRET = f'{{"{CANARY}-7c21": "root:$6${CANARY}"}}\n'.encode() * 3

SCENARIO = """\
name: {name}
inventory: {inventory}
hosts: gpu[001-002]
sample: {{every: 5s}}
phases:
  - name: before
    probes: [{{tor_all_reduce: {{sizes: [1G], algorithm: RING, repeat: 2}}}}]
  - name: during
    needs: [before]
    changes: [{{ber: {{links: gpu001/mlx5_0, effective: 1e-6, direction: up}}}}]
    probes: [{{tor_all_reduce: {{sizes: [1G], algorithm: RING, repeat: 2}}}}]
"""

ENDED, OTHER, KILLED = "small/20260101-000001", "small/20260101-000002", "small/20260101-000003"
PROBE = "before/2-hosts/tor_all_reduce.r1"

_DERIVED = (
    "verdict.json",
    *(table.file for table in TABLES.values()),
    "report.html",
    "junit.xml",
    "metrics.prom",
    "summary.md",
    "acceptance.json",
    "compare.html",
    "certificate.json",
    "certificate.html",
    "certificate.json.sha256",
    "certificate.json.sig",
)
_SOURCES = ("run.json", "events.jsonl", "changes.jsonl", "samples.jsonl", "identity.json", "STOP")
_WRITTEN = ("verdict.json", "report.html", *(table.file for table in TABLES.values()))
_TEMPORARY = tuple(f".{name}.tmp" for name in _WRITTEN)
_RAW = ("raw", "raw/before", "raw/before/2-hosts.out", "raw/during/2-hosts.out")
_SHARED = (
    ".lock.held",
    "small",
    "small/.lock",
    "small/.lock.held",
    "small/..lock.tmp",
    "small/latest",
    "else",
    "else/run",
    "else/run/run.json",
    "else/run/changes.jsonl",
)

TARGETS = (
    *(f"{ENDED}/{name}" for name in (*_SOURCES, *_RAW, *_DERIVED, *_TEMPORARY)),
    *(f"{KILLED}/{name}" for name in (*_SOURCES, *_RAW)),
    *_SHARED,
)

COMMANDS: dict[str, tuple[str, ...]] = {
    "restore": ("restore", "--results", "{results}"),
    "restore RUN": ("restore", f"{{results}}/{KILLED}"),
    "run": ("run", "{folder}/small.yaml", "--backend", "mock", "--results", "{results}"),
    "run else": ("run", "{folder}/else.yaml", "--backend", "mock", "--results", "{results}"),
    "resume": ("resume", f"{{results}}/{KILLED}"),
    "report": ("report", f"{{results}}/{ENDED}"),
    "report killed": ("report", f"{{results}}/{KILLED}"),
    "report latest": ("report", "{results}/small"),
    "report --html": ("report", "--html", f"{{results}}/{ENDED}"),
    "report --probe": ("report", "--probe", PROBE, f"{{results}}/{ENDED}"),
    "report --csv": ("report", "--csv", f"{{results}}/{ENDED}"),
    "report --certificate": ("report", "--certificate", f"{{results}}/{ENDED}"),
    "report two": ("report", "--html", f"{{results}}/{ENDED}", f"{{results}}/{OTHER}"),
    "verify": ("verify", f"{{results}}/{ENDED}"),
    "status": ("status", "--results", "{results}"),
    "status RUN": ("status", f"{{results}}/{ENDED}"),
    "history": ("history", "--results", "{results}"),
    "history HOST": ("history", "gpu001", "--results", "{results}"),
    "compare": ("compare", f"{{results}}/{ENDED}", f"{{results}}/{OTHER}"),
    "analyze": ("analyze", f"{{results}}/{ENDED}"),
    "stop": ("stop", f"{{results}}/{KILLED}", "--timeout", "2"),
    "baseline record": ("baseline", "record", f"{{results}}/{ENDED}", "--output", "{folder}/new.yaml"),
}

_OF_ALL = ("restore", "run", "run else", "status", "history", "history HOST")
_OF_KILLED = (*_OF_ALL, "restore RUN", "resume", "report killed", "stop")


@dataclass(frozen=True)
class Case:
    """A kind of file, the place below the results folder where it is put, and a command."""

    kind: str
    target: str
    command: str


@dataclass(frozen=True)
class Found:
    """What became of a case; *wrong* is empty when all is well."""

    case: Case
    wrong: str
    code: int
    rss: int
    output: str


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path, _: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)  # a name of more than 108 bytes cannot be bound
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def _device(path: Path, _: Path) -> None:
    os.mknod(path, 0o020666, os.makedev(1, 5))


def _directory(path: Path, _: Path) -> None:
    path.mkdir()
    (path / "one").write_bytes(b"x")


def _sparse(path: Path, _: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, 20 << 30)


def _garbage(path: Path, _: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(200_000))


def _other_json(path: Path, _: Path) -> None:
    path.write_bytes(b'[{"format": 1, "run": 5, "hosts": [[]]}, null, "\\u0000", 1e308]\n')


def _link(to: str) -> Callable[[Path, Path], None]:
    return lambda path, outside: path.symlink_to(to.format(outside=outside, name=path.name))


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "FIFO": _fifo,
    "socket": _socket,
    "device": _device,
    "directory": _directory,
    "20 GiB": _sparse,
    "garbage": _garbage,
    "other JSON": _other_json,
    "-> /dev/zero": _link("/dev/zero"),
    "-> secret": _link("{outside}/secret"),
    "-> folder": _link("{outside}"),
    "-> nowhere": _link("{outside}/nowhere"),
    "-> itself": _link("{name}"),
}


def cases() -> list[Case]:
    """Every kind in every place, with each command that looks there."""
    kinds = [kind for kind in KINDS if kind != "device" or os.geteuid() == 0]
    found = []
    for target in TARGETS:
        own = _OF_KILLED if target.startswith(KILLED) else tuple(COMMANDS)
        found += [Case(kind, target, command) for kind in kinds for command in own]
    return found


def chosen(count: int, seed: int) -> list[Case]:
    """So many of them: each kind, each place and each command about as often as any other."""
    everything = cases()
    random.Random(seed).shuffle(everything)
    left = {place: case for place, case in enumerate(everything)}
    often: dict[tuple[str, str], int] = {}
    found: list[Case] = []
    while left and len(found) < count:
        place = min(left, key=lambda at: (_burden(left[at], often), at))
        case = left.pop(place)
        for mark in _marks(case):
            often[mark] = often.get(mark, 0) + 1
        found.append(case)
    return found


def _marks(case: Case) -> tuple[tuple[str, str], ...]:
    return ("kind", case.kind), ("target", case.target), ("command", case.command)


def _burden(case: Case, often: dict[tuple[str, str], int]) -> float:
    sizes = {"kind": len(KINDS), "target": len(TARGETS), "command": len(COMMANDS)}
    return sum(often.get(mark, 0) * sizes[mark[0]] for mark in _marks(case))


COMMAND = """\
import atexit
from pathlib import Path
from fabric.runs.tables import TABLES
from fabric.cli.main import run
atexit.register(lambda: Path("peak").write_text(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]))
run()
"""
"""``fabric``, which leaves its own peak memory (KiB). What wait4 tells may be that of who started it."""


def fabric(*words: str, folder: Path) -> subprocess.Popen[bytes]:
    """The command line of this checkout, in a process group of its own; what it prints is in *folder*."""
    (folder / "peak").unlink(missing_ok=True)
    with (folder / "out").open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            start_new_session=True,
            preexec_fn=_limited,
        )


def _limited() -> None:
    """Nothing fills the disk, or so much memory that the machine suffers."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def ended(child: subprocess.Popen[bytes], limit_s: float, *, folder: Path) -> tuple[int, int, bool]:
    """Its exit code, its peak memory (bytes), and whether it had to be killed; a busy machine has more time."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        os.killpg(child.pid, signal.SIGKILL)

    timer = threading.Timer(limit_s * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), kill)
    timer.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
    finally:
        timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    peak = folder / "peak"  # who was killed leaves none
    return child.returncode, 1024 * (int(peak.read_text()) if peak.exists() else usage.ru_maxrss), late.is_set()


def make_base(base: Path) -> None:
    """Three runs: two that ended, one with a certificate, and one that was killed while its change was in force."""
    base.mkdir(parents=True, exist_ok=True)
    inventory = ROOT / "inventory" / "demo-rack-healthy.yaml"
    for name in ("small", "else"):
        (base / f"{name}.yaml").write_text(SCENARIO.format(name=name, inventory=inventory))
    results = base / "results"
    _done(base, "run", f"{base}/small.yaml", "--backend", "mock", "--results", str(results))
    made = (results / "small" / "latest").resolve()
    for wanted in (ENDED, OTHER, KILLED):
        shutil.copytree(made, results / wanted)
    shutil.rmtree(made)
    (results / "small" / "latest").unlink()
    (results / "small" / "latest").symlink_to(OTHER.partition("/")[2])
    _kill(results / KILLED)
    _done(base, "report", "--certificate", str(results / ENDED))


def _done(base: Path, *words: str) -> None:
    code, _, _ = ended(fabric(*words, folder=base), 60.0, folder=base)
    if code not in (0, 1, 3):
        raise SystemExit((base / "out").read_text())


def _kill(run: Path) -> None:
    """As it was while its change was in force, and nothing had been judged."""
    for name in _DERIVED:
        (run / name).unlink(missing_ok=True)
    for name, last in (("events.jsonl", b'"phase_started"'), ("changes.jsonl", b'"in_force"')):
        lines = (run / name).read_bytes().splitlines(keepends=True)
        end = max(number for number, line in enumerate(lines) if last in line)
        (run / name).write_bytes(b"".join(lines[: end + 1]))


def try_one(case: Case, base: Path) -> Found:
    """Run it in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="special-") as name:
        folder = Path(name)
        outside = folder / "outside"
        outside.mkdir()
        (outside / "secret").write_bytes(SECRET)
        (outside / "secret").chmod(0o600)
        for file in base.glob("*.yaml"):
            shutil.copy(file, folder)
        results = folder / "results"
        shutil.copytree(base / "results", results, symlinks=True)
        _plant(case, results, outside)
        before = _told(outside)
        words = [word.format(results=results, folder=folder) for word in COMMANDS[case.command]]
        code, rss, late = ended(fabric(*words, folder=folder), LIMIT_S, folder=folder)
        output = (folder / "out").read_bytes()[: 64 << 20].decode("utf-8", "replace")
        wrong = _wrong(case, code, rss, output, late=late)
        moved = case.kind == "-> folder" and case.target in ("small", "else")
        if not wrong and not moved and _told(outside) != before:
            wrong = "altered what lies outside"
        if not wrong and _is_copied(results):
            wrong = "wrote down what lies outside"
        return Found(case, wrong, code, rss, output)


def _plant(case: Case, results: Path, outside: Path) -> None:
    path = results / case.target
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    KINDS[case.kind](path, outside)


def _told(outside: Path) -> list[tuple[str, bytes]]:
    return sorted((str(file), file.read_bytes() if file.is_file() else b"") for file in outside.rglob("*"))


def _is_copied(results: Path) -> bool:
    """Whether some regular file below it, which is no link, has what the foreign file says."""
    for folder, _, names in os.walk(results):
        for name in names:
            file = Path(folder, name)
            small = not file.is_symlink() and file.is_file() and file.stat().st_size < 1 << 28
            if small and CANARY.encode() in file.read_bytes():
                return True
    return False


def _wrong(case: Case, code: int, rss: int, output: str, *, late: bool) -> str:
    for is_so, text in (
        (late, f"did not end within {LIMIT_S:g} s"),
        (rss > MOST_RSS, f"took {rss / 1e6:.0f} MB"),
        (CANARY in output, "printed what lies outside"),
        ("Traceback" in output, "a traceback"),
        ("a defect of fabric" in output, "a defect of its own"),
        (not 0 <= code <= 4, f"ended with {code}"),
    ):
        if is_so:
            return text
    if case.command != "restore" or case.target in ("small", KILLED):
        return ""
    journal = case.target.endswith("changes.jsonl")
    if journal and code != 4:
        return f"a journal that cannot be read, and exit {code}"
    if not case.target.startswith(KILLED) and "nothing of it is left" not in output:
        return "the change of another run was not taken back"
    return ""


def main() -> None:
    """Prints each failure, and the line of the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only cases with these words")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", action="store_true", help="what each printed, too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="special-base-") as name:
        make_base(Path(name))
        sys.exit(_tried(asked, Path(name)))


def _tried(asked: argparse.Namespace, base: Path) -> int:
    tried = chosen(asked.cases, asked.seed)
    if asked.only:
        tried = [one for one in cases() if asked.only in f"{one.kind} | {one.target} | {one.command}"][: asked.cases]
    with ThreadPoolExecutor(asked.jobs) as pool:
        found = _shown(pool.map(lambda case: try_one(case, base), tried), show=asked.show)
    failed = sum(bool(one.wrong) for one in found)
    print(f"most memory: {max((one.rss for one in found), default=0) / 1e6:.0f} MB")
    print(f"special files | {len(found)} | {failed}")
    return 1 if failed else 0


def _shown(found: Iterable[Found], *, show: bool) -> list[Found]:
    listed = []
    for one in found:
        if one.wrong or show:
            print(f"{one.case.kind} | {one.case.target} | {one.case.command}: {one.wrong or one.code}", flush=True)
        if show or one.wrong:
            print("    " + "\n    ".join(one.output.strip()[-1500:].splitlines()[-6:]), flush=True)
        listed.append(one)
    return listed


if __name__ == "__main__":
    main()
