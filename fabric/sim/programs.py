"""The small programs: ``true``, ``echo``, ``hostname``, and everything that only says something and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabric.sim.hashing import word
from fabric.sim.job import Job, Setting
from fabric.sim.port_tool import Said
from fabric.sim.process import Process
from fabric.sim.rack import Rack
from fabric.sim.site import Site

SAY_S = 0.01  # choice: a process start

Words = Callable[[Site], str]


class Say:
    """Prints and ends; under a launcher once a rank."""

    def __init__(
        self, setting: Setting, *, stdout: str | Words = "", stderr: str = "", status: int = 0, after_s: float = SAY_S
    ) -> None:
        self._setting = setting
        self._stdout = stdout
        self._stderr = stderr
        self._status = status
        self._after_s = after_s

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Say it, a moment later."""
        names = self._setting.hosts
        sites = [rack.site(name) for name in names] if names else [process.site]
        said = []
        for rank, site in enumerate(sites):
            text = self._stdout if isinstance(self._stdout, str) else self._stdout(site)
            mark = {"mpirun": f"[1,{rank}]<stdout>:", "srun": f"{rank}: "}.get(self._setting.tag or "", "")
            said.append("".join(mark + line for line in text.splitlines(keepends=True)) if mark else text)
        rack.timeline.exit_later(
            process, at_s + self._after_s, status=self._status, stdout="".join(said), stderr=self._stderr
        )

    def said_on(self, site: Site) -> Said:
        """What it says on one host, at once."""
        stdout = self._stdout if isinstance(self._stdout, str) else self._stdout(site)
        return Said(stdout, self._stderr, self._status)


def small_program(name: str, words: Sequence[str], setting: Setting) -> Job | None:
    """The small program of this name, None when there is none."""
    if name in ("true", "false"):
        return Say(setting, status=int(name == "false"))
    if name == "echo":
        bare = words[:1] == ["-n"]
        return Say(setting, stdout=" ".join(words[1:] if bare else words) + ("" if bare else "\n"))
    if name == "hostname":
        return Say(setting, stdout=lambda site: f"{site.host.name}\n")
    if name == "uname":
        if list(words) == ["-n"]:
            return Say(setting, stdout=lambda site: f"{site.host.name}\n")
        return Say(setting, stdout=_uname if {"-a", "--all"} & set(words) else "Linux\n")
    if name == "sleep":
        seconds = seconds_of(words[0]) if len(words) == 1 else None
        if seconds is None:
            said = f"sleep: invalid time interval '{words[0]}'\n" if words else "sleep: missing operand\n"
            return Say(setting, stderr=said, status=1)
        return Say(setting, after_s=SAY_S + seconds)
    return None


def _uname(site: Site) -> str:
    return f"Linux {site.host.name} 5.15.0 #1 SMP x86_64 x86_64 x86_64 GNU/Linux\n"


def seconds_of(text: str) -> float | None:
    """``10``, ``1.5s``, ``2m``, ``1h`` in seconds, as coreutils reads them; None when it is none of these."""
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}.get(text[-1:], 0.0)
    digits = text[:-1] if factor else text
    if not digits.isascii() or not digits.replace(".", "", 1).isdigit():
        return None
    return float(digits) * (factor or 1.0)


def garbage(bits: int) -> str:
    """What a sick host prints: bytes that are no text, the same every time."""
    return "".join(chr(word(bits, number) % 0x250) for number in range(120)) + "\x00\x1b[31m\ufffd"
