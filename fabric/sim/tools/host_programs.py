"""Programs that look at a host before a run: their versions, its kernel, its memory nodes, other hosts."""

from fabric.sim import page
from fabric.sim.hashing import word
from fabric.sim.hosts import pci_address, serial_of_rnic
from fabric.sim.tools.call import SAY_S, BadOption, Program, Surroundings, Tool, ToolCall, ToolJob, ToolOutput
from fabric.sim.tools.sysfs import ROOT, contents

EPOCH_S = 1_700_000_000.0
"""What the hosts' clocks show when simulated time begins; any instant would do."""

_SAYS = dict(line.split("=", 1) for line in page("versions").splitlines())
"""What a program prints about itself, by its name and the one word it is called with."""


def host_program(name: str, words: tuple[str, ...]) -> Tool | None:
    """
    Return the program that this command line calls, None when it is not one of these.

    Every command line of a run comes through here: most are sent on at the first look.
    """
    if name.endswith("_perf") and words == ("-h",):
        return ToolOutput(page("nccl-tests-usage", name=name))
    text = _SAYS.get(f"{name} {words[0]}") if len(words) == 1 else None
    if text is not None:
        return ToolOutput(text.replace(r"\n", "\n") + "\n")
    if (name, *words[:1]) == ("numactl", "--hardware"):
        return _hardware
    return _sudo_list if (name, *words[:2]) == ("sudo", "-n", "-l") else None


def _hardware(asked: ToolCall) -> ToolOutput:
    nodes = asked.site.layout.platform.numa_nodes
    rows = "".join(f"node {node} cpus: {node}\nnode {node} size: 1031000 MB\n" for node in range(nodes))
    return ToolOutput(f"available: {nodes} nodes (0-{nodes - 1})\n{rows}")


def date(asked: ToolCall) -> ToolOutput:
    """Answer ``date``: the clocks of all hosts are the same one."""
    if asked.words != ("+%s.%N",):
        return ToolOutput(stderr="date: simulated rack: only +%s.%N is simulated\n", status=1)
    whole, part = divmod(round((EPOCH_S + asked.at_s) * 1e6), 10**6)
    return ToolOutput(f"{whole}.{part:06d}000\n")


def ssh(asked: ToolCall) -> ToolOutput | None:
    """Answer ``ssh [-o NAME=VALUE]... HOST true``: every host trusts every other."""
    words = list(asked.words)
    while words[:1] == ["-o"]:
        del words[:2]
    if words[1:] != ["true"]:
        return ToolOutput(stderr="ssh: simulated rack: only `ssh HOST true` is simulated\n", status=255)
    peer = asked.rack.hosts.reached(asked.site, words[0])
    if peer is None:
        return ToolOutput(stderr=f"ssh: connect to host {words[0]} port 22: No route to host\n", status=255)
    return None if asked.rack.hosts.kind(peer.host.name) == "hanging" else ToolOutput()


def _sudo_list(asked: ToolCall) -> ToolOutput:
    """Answer ``sudo -n -l PROGRAM``: everybody may do everything."""
    names = [word for word in asked.words if not word.startswith("-")]
    return ToolOutput(f"{names[0] if names[0].startswith('/') else '/usr/bin/' + names[0]}\n" if names else "")


def mlxconfig(asked: ToolCall) -> ToolOutput:
    """Answer ``mlxconfig -d DEVICE query SETTING...``: nothing keeps a port from closing."""
    words = asked.words
    if len(words) < 3 or words[0] != "-d" or words[2] not in ("query", "q"):
        return ToolOutput(stderr="-E- simulated rack: only query is simulated\n", status=1)
    if asked.local_port(words[1]) is None:
        return ToolOutput(stderr=f"-E- Failed to open device: {words[1]}. No such file or directory\n", status=3)
    return ToolOutput(page("mlxconfig", device=words[1], settings=words[3:]))


def grep(asked: ToolCall) -> ToolOutput:
    """Answer ``grep -H . FILE...``: every line that is not empty, with its file."""
    if asked.words[:2] != ("-H", "."):
        return ToolOutput(stderr="grep: simulated rack: only `grep -H . FILE...` is simulated\n", status=2)
    stdout = stderr = ""
    for path, text in zip(asked.words[2:], contents(asked, asked.words[2:]), strict=True):
        stdout += "".join(f"{path}:{line}\n" for line in (text or "").splitlines())
        stderr += f"grep: {path}: No such file or directory\n" if text is None else ""
    return ToolOutput(stdout, stderr, 2 if stderr else int(not stdout))


def network(asked: ToolCall) -> ToolOutput:
    """Answer ``readlink /proc/self/ns/net``: every machine has one network namespace, with the same number."""
    if asked.words != ("/proc/self/ns/net",):
        return ToolOutput(stderr="readlink: simulated rack: only /proc/self/ns/net is simulated\n", status=1)
    return ToolOutput("net:[4026531840]\n")


def listed(asked: ToolCall) -> ToolOutput:
    """Answer ``ls`` of the RDMA devices, or of programs: every program is in /usr/bin."""
    if asked.words == (ROOT.rstrip("/"),):
        return ToolOutput("".join(f"{rnic.device}\n" for rnic in sorted(asked.rnics, key=lambda rnic: rnic.device)))
    there = [path for path in asked.words if path.startswith(("/usr/bin/", "/opt/"))]
    missing = [path for path in asked.words if path not in there]
    stderr = "".join(f"ls: cannot access '{path}': No such file or directory\n" for path in missing)
    return ToolOutput("".join(f"{path}\n" for path in there), stderr, 2 if missing else 0)


_LSPCI = ("-D", "-vv", "-d", "15b3:")


def lspci(asked: ToolCall) -> ToolOutput:
    """Answer one call of ``lspci``; only the question of identity is simulated."""
    if asked.words != _LSPCI:
        return ToolOutput(stderr=f"lspci: simulated rack: only `lspci {' '.join(_LSPCI)}` is simulated\n", status=1)
    entries = [
        page("lspci", address=pci_address(at), numa=rnic.numa, serial=serial_of_rnic(asked.site, rnic.device))
        for at, rnic in enumerate(asked.site.layout.platform.rnics)
        if rnic in asked.rnics
    ]
    return ToolOutput("".join(sorted(entries)))


SMALL_TOOLS = dict[str, Tool](
    date=date, grep=grep, ls=listed, lspci=lspci, mlxconfig=mlxconfig, readlink=network, ssh=ssh
)


def _hostname(asked: ToolCall) -> ToolOutput:
    return ToolOutput(f"{asked.site.host.name}\n")


QUICK_TOOLS = dict[str, Tool](
    true=ToolOutput(),
    false=ToolOutput(status=1),
    echo=lambda asked: ToolOutput(" ".join(asked.words) + "\n"),
    hostname=_hostname,
    uname=lambda asked: _hostname(asked) if asked.words == ("-n",) else ToolOutput("Linux\n"),
)
"""Tools that look at no part of the host and end as soon as they have begun."""


def sleep(words: tuple[str, ...], setting: Surroundings) -> Program:
    """Run ``sleep SECONDS``."""
    if len(words) != 1 or not words[0].replace(".", "", 1).isdecimal():
        raise BadOption(f"invalid time interval '{' '.join(words)}'")
    return ToolJob(ToolOutput(), words, setting, after_s=SAY_S + float(words[0]))


def garbage(bits: int) -> str:
    """Return what a sick host prints: bytes that are no text, the same every time."""
    return "".join(chr(word(bits, number) % 0x250) for number in range(120)) + "\x00\x1b[31m\ufffd"
