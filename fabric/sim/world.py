"""The simulated rack from outside: start a command line on a host, let time pass, read what happened."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf

from fabric.model.change import SubnetManager
from fabric.model.inventory import MockSettings
from fabric.model.topology import Topology
from fabric.sim.hashing import text_hash
from fabric.sim.hosts.timeline import Exited, Listening, Process
from fabric.sim.rack import Rack
from fabric.sim.tools import job_of
from fabric.sim.tools.call import SAY_S, Program, Surroundings
from fabric.sim.tools.host_programs import garbage
from fabric.sim.tools.sysfs import Readings

MOST_JOBS = 50_000  # cached command lines; a bound on memory, far above what one host's self-check needs

_KILLED = 137  # 128 + SIGKILL


class World:
    """
    Hosts that answer command lines in the real tools' words.

    *mock*: the state of the hosts and their faults. *ufm*: there is a UFM that can be asked. *subnet_managers*: in the
    order in which they prevail at equal priority; none: an unreachable manager. The same arguments, *seed* included,
    give the same answers. A command's text depends only on the host, the command, how often it was started on that host
    before, and what runs on the same parts at the same time.
    """

    def __init__(
        self,
        topology: Topology,
        mock: MockSettings,
        *,
        seed: int,
        ufm: bool = False,
        subnet_managers: tuple[SubnetManager, ...] = (),
    ) -> None:
        self.rack = Rack(topology, mock, seed=seed, ufm=ufm, subnet_managers=subnet_managers)
        self._timeline = self.rack.timeline
        self._job = lru_cache(maxsize=MOST_JOBS)(_job)
        self._last_pid = 0

    def unreachable(self, host: str, now_s: float | None = None) -> str | None:
        """
        Return why no session with the host is possible, None when it is; *now_s* lets everything due by then happen
        first.
        """
        if now_s is not None and self.rack.passing.next_s() <= now_s:
            self._pass(now_s)
        return self.rack.hosts.unreachable(host)

    def start(self, host: str, argv: Sequence[str], env: Mapping[str, str], now_s: float) -> int:
        """
        Start a command line; return a number that stands for the process. Raises ValueError on an unreachable host.
        """
        timeline = self._timeline
        self._pass(now_s)
        reason = self.unreachable(host)
        if reason is not None:
            raise ValueError(f"{host}: {reason}")
        kind = self.rack.hosts.kind(host)
        self._last_pid = pid = self._last_pid + 1
        process = Process(pid, self.rack.hosts.site(host))
        timeline.alive[pid] = process
        if kind == "garbage":
            output = garbage(text_hash(host))
            timeline.exit_later(process, timeline.now_s + SAY_S, status=0, stdout=output)
        elif kind != "hanging":
            self._job(tuple(argv), tuple(sorted(env.items()))).begin(self.rack, process, timeline.now_s)
        return pid

    def kill(self, pid: int, now_s: float) -> None:
        """
        End a process and all it started; its Exited with 137 follows from ``advance``. Unknown processes are ignored.
        """
        timeline = self._timeline
        self._pass(now_s)
        silent = timeline.silent.pop(pid, None)
        if silent is not None:
            timeline.alive[pid] = silent
        process = timeline.alive.get(pid)
        if process is not None:
            process.let_go(timeline.now_s)
            timeline.exit(process, timeline.now_s, status=_KILLED, stdout=process.printed)

    def readings(self, host: str, paths: Sequence[str]) -> Readings:
        """Return a reader of files of a reachable host, for repeated reading."""
        return Readings(self.rack, host, paths)

    def next_s(self) -> float | None:
        """Return the simulated time of the next thing to happen, None if nothing will."""
        next_s = self._timeline.next_s()
        if self._timeline.alive:  # else no process is there to be affected
            next_s = min(next_s, self.rack.passing.next_s())
        return None if next_s == inf else next_s

    def advance(self, now_s: float) -> list[Listening | Exited]:
        """Let time pass; return everything that happened up to and including *now_s*, in order."""
        self._pass(now_s)
        return self._timeline.drain()

    def _pass(self, now_s: float) -> None:
        """Let time pass, with the faults that come over the hosts meanwhile."""
        passing = self.rack.passing
        while (due_s := passing.next_s()) <= now_s:
            self._timeline.run(due_s)
            passing.step()
        self._timeline.run(now_s)


def _job(words: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> Program:
    return job_of(words, Surroundings(dict(env)))
