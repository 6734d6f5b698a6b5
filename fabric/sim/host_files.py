"""Files of a simulated host: what its kernel says of itself, which RDMA devices and programs there are."""

from __future__ import annotations

from fabric.sim.hashing import mix64, text_hash
from fabric.sim.port_tool import Asked, Said
from fabric.sim.sysfs import ROOT, identity_files, port_states

_KERNEL = {
    "/proc/self/limits": (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             4126000              4126000              processes \n"
        "Max locked memory         unlimited            unlimited            bytes     \n"
    ),
    "/proc/self/status": "Name:\tcat\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n",
    "/proc/modules": (
        "nvidia_peermem 16384 0 - Live 0x0000000000000000\n"
        "nvidia 56692736 2011 nvidia_uvm,nvidia_peermem, Live 0x0000000000000000\n"
        "mlx5_ib 524288 0 - Live 0x0000000000000000\n"
    ),
    "/proc/driver/nvidia/version": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build\n"
    ),
}
_NO_FILE = "{tool}: {path}: No such file or directory\n"


def kernel_files(asked: Asked) -> Said:
    """``cat`` of files below /proc."""
    stdout = "".join(_KERNEL.get(path, "") for path in asked.words)
    stderr = "".join(_NO_FILE.format(tool="cat", path=path) for path in asked.words if path not in _KERNEL)
    return Said(stdout, stderr, int(bool(stderr)))


def grep(asked: Asked) -> Said:
    """``grep -H . FILE...``: every line that is not empty, with its file; here only of ports and of what RNICs are."""
    if asked.words[:2] != ("-H", "."):
        return Said(stderr="grep: simulated rack: only `grep -H . FILE...` is simulated\n", status=2)
    files = {
        f"{ROOT}{rnic.device}/ports/{rnic.port}/{name}": text
        for rnic in asked.rnics
        for name, text in port_states(asked.port_of(rnic.device)).items()
    }
    for rnic in asked.rnics:
        files |= {f"{ROOT}{rnic.device}/{name}": text for name, text in identity_files(asked, rnic).items()}
    files |= _ids(asked)
    paths = asked.words[2:]
    stdout = "".join(f"{path}:{line}\n" for path in paths if path in files for line in files[path].split("\n"))
    stderr = "".join(_NO_FILE.format(tool="grep", path=path) for path in paths if path not in files)
    return Said(stdout, stderr, 2 if stderr else int(not stdout))


def _ids(asked: Asked) -> dict[str, str]:
    """Who the machine is; an address whose first word is another host's name leads to that host, as in DNS."""
    host = asked.site.host
    meant = asked.rack.reached(asked.site, host.address.partition(".")[0])
    name = host.name if meant is None else meant.host.name
    boot, installed = (f"{mix64(text_hash(f'{what} {name}')):016x}" * 2 for what in ("boot", "machine"))
    return {
        "/proc/sys/kernel/random/boot_id": "-".join((boot[:8], boot[8:12], boot[12:16], boot[16:20], boot[20:])),
        "/etc/machine-id": installed,
    }


def network(asked: Asked) -> Said:
    """``readlink /proc/self/ns/net``: every machine has one network, and numbers it as all do."""
    if asked.words != ("/proc/self/ns/net",):
        return Said(stderr="readlink: simulated rack: only /proc/self/ns/net is simulated\n", status=1)
    return Said("net:[4026531840]\n")


def listed(asked: Asked) -> Said:
    """``ls`` of the RDMA devices, or of programs: every one is in /usr/bin."""
    if asked.words == (ROOT.rstrip("/"),):
        return Said("".join(f"{rnic.device}\n" for rnic in sorted(asked.rnics, key=lambda rnic: rnic.device)))
    there = [path for path in asked.words if path.startswith(("/usr/bin/", "/opt/"))]
    missing = [path for path in asked.words if path not in there]
    stderr = "".join(f"ls: cannot access '{path}': No such file or directory\n" for path in missing)
    return Said("".join(f"{path}\n" for path in there), stderr, 2 if missing else 0)
