"""
Soft-RoCE hosts: virtual machines in the place of a box's hosts, with a kernel's own RDMA and the real perftest. Root.

``fabric lab up`` makes the box; a machine here takes over the two cables, the addresses and the host key of one of its
hosts, so that SSH, routing and faults on the leaf's side are those of the box. The emulator is QEMU without KVM: a
nested KVM may never get through a kernel's first instructions, and 64 KiB messages at 100 Mbit/s need none.

``python benchmarks/lab/vms.py`` makes the image once (a Debian tree by mmdebstrap, about 5 minutes), which is kept in
``~/.cache/fabric-lab``, a folder that may be deleted. Needs qemu-system-x86, mmdebstrap,
cpio and e2fsprogs.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fabric import lab as machine  # noqa: E402
from fabric.lab import layout  # noqa: E402
from fabric.lab.layout import Box  # noqa: E402

PACKAGES = (
    "linux-image-amd64", "openssh-server", "perftest", "rdma-core", "ibverbs-utils", "ibverbs-providers", "iproute2",
    "numactl", "python3-minimal", "kmod", "procps", "ethtool", "busybox-static",
)  # fmt: skip
TOOLS = ("qemu-system-x86_64", "mmdebstrap", "cpio", "mke2fs")
IMAGE_S, BOOT_S = 1200.0, 300.0
"""An image is made within this (5 min at a load of 12), a machine answers by SSH within that (80 s at a load of 40)."""

MODULES = ("virtio_pci", "virtio_blk", "ext4")
FIRST = """\
#!/bin/busybox sh
# The first program of the machine: finds its disk, lays over it what this machine is, and goes on there.
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules); do insmod "$module"; done
mount -t ext4 /dev/vda /root
mkdir -p /root/vm
cp -a /own/. /root/vm/
exec switch_root /root /bin/sh /vm/start
"""
START = """\
#!/bin/sh
# The machine itself: two ports, a soft-RoCE device under the name of the inventory, sshd. It never ends.
export PATH={path}
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts pts /dev/pts; mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run; mount -t tmpfs tmp /tmp; mkdir -p /run/sshd
hostname {host}; cp /vm/hosts /etc/hosts
modprobe -a virtio_net rdma_rxe ib_uverbs rdma_ucm sch_netem sch_tbf
ip link set lo up
ip address add {management}/24 dev eth0; ip link set eth0 up
ip address add {data}/24 dev eth1; ip link set eth1 up; ip route add 10.0.0.0/8 via {gateway}
rdma link add {device} type rxe netdev eth1
/usr/sbin/sshd -e -f /vm/sshd_config
while :; do sleep 3600; done
"""


def missing() -> str | None:
    """Why there can be no such machine here, None when there can."""
    lacking = [name for name in TOOLS if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)} (see benchmarks/lab/vms.py)" if lacking else None


def image() -> Path:
    """The folder with root.img, vmlinuz and initrd.gz, made if it is not there; its name says of what."""
    made_of = hashlib.sha256("\n".join((*PACKAGES, *MODULES, FIRST)).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabric-lab"
    folder = cache / made_of
    if (folder / "root.img").exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work_text:
        work = Path(work_text)
        tree = work / "root"
        # in namespaces of its own: what it runs and what it mounts ends with it, also where the limit ends it
        alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        _run((*alone, "mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", str(tree)))
        part = work / "image"
        part.mkdir()
        shutil.copy(next(tree.glob("boot/vmlinuz-*")), part / "vmlinuz")
        (part / "initrd.gz").write_bytes(gzip.compress(_first_disk(tree, work / "first")))
        for needless in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "boot"):
            shutil.rmtree(tree / needless, ignore_errors=True)
        _run(("mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(part / "root.img"), "1400M"))
        part.rename(folder)
    return folder


def _first_disk(tree: Path, folder: Path) -> bytes:
    """The archive that a kernel starts from: busybox and the drivers of the disk, in the order in which they load."""
    for name in ("bin", "proc", "sys", "dev", "root", "drivers"):
        (folder / name).mkdir(parents=True)
    shutil.copy(tree / "bin" / "busybox", folder / "bin" / "busybox")
    version = next(tree.glob("lib/modules/*")).name
    order: list[str] = []
    for module in MODULES:
        shown = _run(("chroot", str(tree), "modprobe", "--set-version", version, "--show-depends", module))
        order += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod")]
    names = []
    for path_text in dict.fromkeys(order):
        source = tree / path_text.lstrip("/")
        shutil.copy(source, folder / "drivers" / source.name)
        names.append(f"/drivers/{source.name}")
    (folder / "modules").write_text("\n".join(names) + "\n")
    (folder / "init").write_text(FIRST)
    (folder / "init").chmod(0o755)
    return _archive(folder)


def _archive(folder: Path) -> bytes:
    names = "".join(f"{path.relative_to(folder)}\n" for path in sorted(folder.rglob("*")))
    done = subprocess.run(
        ("cpio", "-o", "-H", "newc", "--quiet"), cwd=folder, input=names.encode(), capture_output=True, timeout=60,
        check=True,
    )  # fmt: skip
    return done.stdout


@contextlib.contextmanager
def machines(box: Box, hosts: Sequence[str]) -> Iterator[None]:
    """These hosts of a box that is up are virtual machines, until the box goes down; in a with statement."""
    made = image()
    with contextlib.ExitStack() as stack:
        for host in hosts:
            _take_over(box, host)
            stack.enter_context(_booted(box, host, made))
        for host in hosts:
            _wait_for_ssh(box, host)
        yield


def _take_over(box: Box, host: str) -> None:
    """The host's own sshd ends, and its cables go on to taps: its addresses are the machine's now."""
    space = box.namespace(host)
    pid = int((Path(box.folder) / host / "run" / "sshd.pid").read_text())
    os.kill(pid, signal.SIGTERM)
    lines = []
    for port in (layout.MANAGEMENT_PORT, layout.HOST_PORT):
        lines += [f"address flush dev {port}", f"link add br-{port} type bridge", f"link set {port} master br-{port}"]
        lines += [
            f"tuntap add tap-{port} mode tap",
            f"link set tap-{port} master br-{port} up",
            f"link set br-{port} up",
        ]
    _run(("ip", "-n", space, "-batch", "-"), "\n".join(lines) + "\n")


@contextlib.contextmanager
def _booted(box: Box, host: str, made: Path) -> Iterator[None]:
    folder = Path(box.folder) / host
    initrd = folder / "initrd.gz"
    initrd.write_bytes((made / "initrd.gz").read_bytes() + gzip.compress(_own(box, host)))
    argv = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "320", "-nographic", "-no-reboot"]
    argv += ["-kernel", str(made / "vmlinuz"), "-initrd", str(initrd)]
    argv += ["-append", "console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off no_timer_check"]
    argv += ["-drive", f"file={made / 'root.img'},format=raw,if=virtio,snapshot=on"]
    for number, port in enumerate((layout.MANAGEMENT_PORT, layout.HOST_PORT)):
        mac = f"52:54:00:{number:02x}:00:{int(host[1:]):02x}"
        argv += ["-netdev", f"tap,id=n{number},ifname=tap-{port},script=no,downscript=no"]
        argv += ["-device", f"virtio-net-pci,netdev=n{number},mac={mac}"]
    with (folder / "console.log").open("wb") as log:
        process = subprocess.Popen(
            ("ip", "netns", "exec", box.namespace(host), *argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.kill()
        process.wait(timeout=20)


def _own(box: Box, host: str) -> bytes:
    """What one machine is: its addresses, keys and sshd, as an archive that is laid behind the common one."""
    words = {
        "path": layout.PATH,
        "host": host,
        "management": box.management_address(host),
        "data": box.data_address(host),
        "gateway": box.gateway(box.leaf_of[host]),
        "device": layout.DEVICE,
    }
    sshd = layout.sshd_config(words["management"], key="/vm/host_key", pid="/run/sshd.pid", authorized="/vm/key.pub")
    texts: Mapping[str, str] = {
        "start": START.format(**words),
        "sshd_config": sshd,
        "hosts": layout.hosts_file(box),
        "host_key": (Path(box.folder) / host / "host_key").read_text(),
        "key.pub": (Path(box.folder) / "key.pub").read_text(),
    }
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "own"
        own.mkdir()
        for name, text in texts.items():
            (own / name).write_text(text)
            (own / name).chmod(0o600)
        return _archive(Path(folder))


def inside(box: Box, host: str, command: str, timeout_s: float = 20.0) -> subprocess.CompletedProcess[str]:
    """A command in a machine, by SSH from the box's orchestrator."""
    ssh = ("ssh", "-F", f"{box.folder}/ssh_config", "-o", "ConnectTimeout=5", box.management_address(host), command)
    argv = machine.enter(box.name, ssh)
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def _wait_for_ssh(box: Box, host: str) -> None:
    until_s = time.monotonic() + BOOT_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if f"{layout.DEVICE}/1" in inside(box, host, "rdma link").stdout:
                return
        if time.monotonic() > until_s:
            last = (Path(box.folder) / host / "console.log").read_text(errors="replace")[-600:]
            raise OSError(f"{host} did not boot within {BOOT_S:g} s: {last}")
        time.sleep(0.5)


def _run(argv: Sequence[str], stdin: str = "") -> str:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=IMAGE_S, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(argv[:4])}: {done.stderr.strip()[-600:]}")
    return done.stdout


if __name__ == "__main__":
    if (reason := missing()) is not None:
        raise SystemExit(reason)
    print(image())
