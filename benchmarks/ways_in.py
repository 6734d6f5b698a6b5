"""
Small ways in, one after another: terminals that go away, weak SSH, one machine twice, umasks, no memory.

    python benchmarks/ways_in.py [--seed 1] [--hang-ups 10]

Real runs in processes of their own, and a real sshd on loopback. Prints ``class | tried | failed`` and what failed;
exit status 1 when anything did. Takes about two minutes on two cores; without sshd, weak SSH is not tried.
"""

import argparse
import getpass
import os
import random
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fabric.config.inventory import load_inventory  # noqa: E402
from fabric.errors import ConfigError, FabricError  # noqa: E402
from fabric.hosts.ssh import SshExecutor  # noqa: E402
from fabric.model.inventory import SshSettings  # noqa: E402
from fabric.model.probe import Command  # noqa: E402
from fabric.ports import run_once  # noqa: E402
from fabric.runs.journal import open_changes  # noqa: E402

Case = tuple[str, str]
"""What was tried, and what is wrong with what came of it (empty: nothing)."""

SSHD, SCENARIO = Path("/usr/sbin/sshd"), ROOT / "scenarios" / "ar-under-ber.yaml"
SELF_CHECK = ROOT / "scenarios" / "self-check.yaml"
MIB = 1 << 20
_DEADLINE_S = 120.0
_MAIN = "import sys; sys.argv[0] = 'fabric'; from fabric.cli.main import run; run()"


def begun(folder: Path, *words: str, first: Callable[[], None] = lambda: None) -> subprocess.Popen[str]:
    """``fabric`` with these words, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", _MAIN, *words, "--results", str(folder / "results")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=first,
    )


def ended(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it said; -9 when it did not end."""
    try:
        said = child.communicate(timeout=_DEADLINE_S)[1]
    except subprocess.TimeoutExpired:
        child.kill()
        said = child.communicate()[1]
    return child.returncode, said


def journal_of(folder: Path) -> Path | None:
    """The journal of the one run, once there is one."""
    return next(iter((folder / "results").glob("*/2*/changes.jsonl")), None)


def wrong_at_end(folder: Path, code: int, said: str) -> str:
    """What must not be: an open change that is not told, a traceback, a run that hangs or dies."""
    journal = journal_of(folder)
    still = open_changes(journal) if journal is not None else ()
    if still and code != 4:
        return f"{len(still)} changes open, exit {code}"
    if code not in (0, 1, 3, 4) or "Traceback" in said or "defect" in said:
        return f"exit {code}: {said[-200:]!r}"
    return ""


def in_force(folder: Path, child: subprocess.Popen[str], after_s: float = 0.0) -> None:
    """Wait until its first change is in force, and so much longer; or it has ended."""
    while child.poll() is None:
        journal = journal_of(folder)
        if journal is not None and b'"in_force"' in journal.read_bytes():
            time.sleep(after_s)
            return
        time.sleep(0.002)


def hang_ups(count: int, seed: int) -> Iterator[Case]:
    """SIGHUP at random instants of a run with changes: nothing is left, and it says how to go on."""
    moments = random.Random(seed)

    def heeded() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    for _ in range(count):
        with tempfile.TemporaryDirectory() as name:
            folder, after_s = Path(name), moments.uniform(0.0, 2.0)
            child = begun(folder, "run", str(SCENARIO), "--no-html", first=heeded)
            in_force(folder, child, after_s)
            child.send_signal(signal.SIGHUP)
            code, said = ended(child)
            wrong = wrong_at_end(folder, code, said)
            if not wrong and (code != 3 or "interrupted" not in said):
                wrong = f"not interrupted: exit {code}"
            yield f"SIGHUP {after_s:.2f} s after the first change", wrong


def refused_by_ssh(query: str, option: str) -> list[str]:
    """What ssh could speak and does not unless it is told to."""
    known = subprocess.run(["ssh", "-Q", query], capture_output=True, text=True, check=True).stdout.split()
    said = subprocess.run(["ssh", "-F", "none", "-G", "host"], capture_output=True, text=True, check=True).stdout
    taken = next(line.split()[1] for line in said.splitlines() if line.startswith(f"{option} ")).split(",")
    return [name for name in known if name not in taken and "webauthn" not in name]


def weak_ssh() -> Iterator[Case]:
    """A real sshd that has one algorithm which ssh refuses, and nothing else of its kind: no command is run there."""
    if not SSHD.exists() or shutil.which("ssh") is None:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key in ("user", "ed25519", "rsa", "dsa"):
            kind = "ed25519" if key == "user" else key
            subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(folder / key)], check=True)
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        code = answered(folder, [], "ed25519")
        yield "what ssh takes", "" if code == "0" else f"refused: {code}"
        for query, option, line in (
            ("cipher", "ciphers", "Ciphers {}"),
            ("mac", "macs", "Ciphers aes256-ctr\nMACs {}"),
            ("kex", "kexalgorithms", "KexAlgorithms {}"),
        ):
            for each in refused_by_ssh(query, option):
                yield each, told(each, answered(folder, [line.format(each)], "ed25519"))
        for each, key in (("ssh-rsa", "rsa"), ("ssh-dss", "dsa")):
            yield each, told(each, answered(folder, [f"HostKeyAlgorithms {each}"], key))


def told(algorithm: str, said: str) -> str:
    """The server is refused, and the kind of algorithm that it lacks is named."""
    return "" if "no acceptable" in said and "only what ssh takes" in said else f"{algorithm}: {said}"


def answered(folder: Path, lines: list[str], key: str) -> str:
    """The exit status of ``true`` over SSH, or why there is none."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    more = f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/{key}\nAuthorizedKeysFile {folder}/authorized_keys\n"
    rest = "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nLogLevel QUIET\n"
    (folder / "config").write_text("\n".join(lines) + "\n" + more + rest)
    public = " ".join((folder / f"{key}.pub").read_text().split()[:2])
    (folder / "known").write_text(f"[127.0.0.1]:{port} {public}\n")
    server = subprocess.Popen([str(SSHD), "-D", "-f", str(folder / "config")], stderr=subprocess.PIPE)
    settings = SshSettings(
        getpass.getuser(), port, str(folder / "user"), agent=False, known_hosts=(str(folder / "known"),)
    )
    try:
        while server.poll() is None:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.01)
        executor = SshExecutor(settings, {"here": "127.0.0.1"})
        try:
            return str(run_once(executor, Command("here", ("true",), 20.0)).exit_status)
        except FabricError as exc:
            return str(exc)
        finally:
            executor.close()
    finally:
        server.kill()
        server.wait()


SAME = (
    ("10.0.0.1", "10.0.0.1"),
    ("gpu.example.net", "GPU.Example.NET."),
    ("fd00::1", "FD00:0:0:0:0:0:0:1"),
    ("10.0.0.1", "0::ffff:10.0.0.1"),
    ("10.0.0.1", "0:0:0:0:0:ffff:a00:1"),
    ("127.0.0.1", "127.1"),
    ("127.0.0.1", "0x7f000001"),
)
OTHER = (("10.0.0.1", "10.0.0.11"), ("fd00::1", "fd00::10"), ("gpu1.a", "gpu1.b"), ("gpu", "gpu.a"))


def equal_addresses() -> Iterator[Case]:
    """One machine by two names is refused on the lines of both, two machines are not."""
    text = (ROOT / "inventory" / "demo-rack-healthy.yaml").read_text()
    begin, end = text.index('  - names: "gpu'), text.index("\nswitches:")
    entry = text[begin:end]
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "baselines").symlink_to(ROOT / "inventory" / "baselines")
        path = Path(name) / "inventory.yaml"
        for pair, same in (*((pair, True) for pair in SAME), *((pair, False) for pair in OTHER)):
            hosts = "".join(
                entry.replace('"gpu[001-008]"', host).replace('"{name}.mgmt"', f'"{address}"')
                for host, address in zip(("gpu001", "gpu002"), pair, strict=True)
            )
            path.write_text(text[:begin] + hosts + text[end:])
            try:
                load_inventory(path)
                lines = 0
            except ConfigError as exc:
                lines = len({one.line for one in exc.problems if "a machine has one name" in one.text})
            yield " and ".join(pair), "" if lines == (2 if same else 0) else f"told on {lines} lines"


def umasks() -> Iterator[Case]:
    """Every file and folder of a run is as the umask says; its lock is of one account."""
    for mask in (0o022, 0o027, 0o077):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            child = begun(folder, "run", str(SELF_CHECK), "--hosts", "gpu[001-002]", first=lambda: void(os.umask(mask)))  # noqa: B023
            code, said = ended(child)
            yield f"umask {mask:03o}", "" if code in (0, 1) else f"exit {code}: {said[-200:]}"
            for path in (folder / "results").rglob("*"):
                allowed = (0o777 if path.is_dir() else 0o666) & ~mask
                allowed = 0o600 if path.name == ".lock.held" else allowed
                mode = stat.S_IMODE(path.stat().st_mode)
                if not path.is_symlink():
                    yield f"umask {mask:03o} {path.name}", "" if mode == allowed else f"{mode:o}, not {allowed:o}"


def void(_: object) -> None:
    """Nothing."""


def no_memory() -> Iterator[Case]:
    """Address space that is too little from the start, or from the first change on: said, and nothing left behind."""

    def limited(mib: int) -> Callable[[], None]:
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    for mib in (100, 150, 200, 300, 500, 800, 1200, 1600):
        with tempfile.TemporaryDirectory() as name:
            code, said = ended(begun(Path(name), "run", str(SELF_CHECK), first=limited(mib)))
            yield f"{mib} MiB", "" if code == 3 and "out of memory" in said else f"exit {code}: {said[-200:]}"
    for more_mib in (0, 1, 2, 4, 8, 16, 32, 64):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            child = begun(folder, "run", str(SCENARIO), "--no-html", first=limited(64 << 10))
            in_force(folder, child)
            if child.poll() is None:
                status = Path(f"/proc/{child.pid}/status").read_text()
                size = int(status.partition("VmSize:")[2].split()[0]) * 1024 + more_mib * MIB
                resource.prlimit(child.pid, resource.RLIMIT_AS, (size, size))
            yield f"{more_mib} MiB more once a change is in force", wrong_at_end(folder, *ended(child))


def main() -> int:
    """The table, then what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hang-ups", type=int, default=10)
    asked = parser.parse_args()
    classes = (
        ("a terminal that goes away", hang_ups(asked.hang_ups, asked.seed)),
        ("weak SSH algorithms", weak_ssh()),
        ("one machine by two names", equal_addresses()),
        ("files against the umask", umasks()),
        ("no memory left", no_memory()),
    )
    failed: list[str] = []
    print("class | tried | failed", flush=True)
    for name, cases in classes:
        found = list(cases)
        wrong = [f"  {name}: {what}: {why}" for what, why in found if why]
        print(f"{name} | {len(found)} | {len(wrong)}", flush=True)
        failed += wrong
    print("\n".join(failed), end="\n" if failed else "")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
