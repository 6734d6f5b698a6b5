"""What a check is, how hosts are asked, how a check reports findings, and what a scenario needs of its hosts.

Other packages add checks by entry points.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from fabric.changes.kind import Alters, Context, Kind
from fabric.changes.procedure import Procedure, ask, carry_out
from fabric.errors import CommandTimeout, ExecutorError, ToolError
from fabric.model.finding import Finding, Severity
from fabric.model.inventory import Inventory
from fabric.model.probe import Command, CommandResult
from fabric.model.scenario import ProbeSpec, Scenario, Uses
from fabric.model.topology import Host, Platform
from fabric.ports import Executor
from fabric.tools import infiniband, management
from fabric.tools.driver import as_root, complaint, plain

Argv = tuple[str, ...]
Read = TypeVar("Read")
Ordered = TypeVar("Ordered", int, str)

IN_FLIGHT_MOST = 256
"""Most commands that run at the same time over all hosts; a choice: each takes one thread over SSH."""
PER_HOST_MOST = 3
"""Most commands that run at the same time on one host; a choice, far below the 10 sessions that sshd allows."""
TIMEOUT_S = 15.0
"""
Deadline of one command; a choice: the slowest command of the checks, nvidia-smi without persistence mode, takes a few
seconds.
"""
TIMEOUTS_MOST = 3
"""After this many deadlines have passed, a host is asked nothing more."""
OUTPUT_MOST_BYTES = 256 << 10
"""Largest output of one command; eight RNICs print 50 KiB about RoCE (a choice: twice what sixteen RNICs print)."""

_MOST = 160  # characters of a quoted line


@dataclass(frozen=True, slots=True)
class HostAnswer(CommandResult):
    """
    How one command ended; *lost* says why there is no answer, and is empty when there is one.

    A lost answer has no output, and exit status -1.
    """

    lost: str = ""

    @property
    def text(self) -> str:
        """Return stdout and stderr together without colours, for tools that may print to either."""
        return plain(f"{self.stdout}\n{self.stderr}")

    @property
    def absent(self) -> bool:
        """Return whether the program is missing, or a library that it needs."""
        return self.exit_status == 127


Answers = Mapping[Argv, HostAnswer]
"""All answers of one host, by command."""


def quoted(text: str) -> str:
    """Return text of a host as a finding may quote it: one line, cut at 160 characters, and always encodable."""
    line = " ".join(plain(text).split())
    shown = line.encode("utf-8", "replace").decode("utf-8")
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}..."


def excuse(answer: HostAnswer) -> str:
    """Return why an answer cannot be used: why it was lost, or the line in which the tool complains."""
    if answer.lost:
        return quoted(answer.lost)
    return f"exit {answer.exit_status}: {quoted(complaint(answer.stdout, answer.stderr))}"


def parsed(answer: HostAnswer, parse: Callable[[str, str, int], Read], what: str, unread: list[str]) -> Read | None:
    """Parse an answer; when that fails, return None and append a line to *unread* that says why."""
    if answer.lost:
        unread.append(f"{what}: {quoted(answer.lost)}")
        return None
    try:
        return parse(answer.stdout, answer.stderr, answer.exit_status)
    except ToolError as exc:
        unread.append(f"{what}: {quoted(str(exc))}")
        return None


def usual(values: Iterable[Ordered | None]) -> Ordered | None:
    """Return the most frequent value, the least of equally frequent ones; None is no value."""
    counts = Counter(value for value in values if value is not None)
    return min(counts, key=lambda value: (-counts[value], value), default=None)


def ask_all(
    executor: Executor,
    asked: Mapping[str, Sequence[Argv]],
    *,
    timeout_s: float = TIMEOUT_S,
    output_most_bytes: int = OUTPUT_MOST_BYTES,
) -> dict[str, dict[Argv, HostAnswer]]:
    """
    Run every command on its host, each once, and return one answer for each.

    A host that cannot be reached, or that lets too many deadlines pass, is asked nothing more: the rest of its commands
    are lost for the same reason.
    """
    answers: dict[str, dict[Argv, HostAnswer]] = {host: {} for host in asked}
    left = {host: deque(dict.fromkeys(argvs)) for host, argvs in asked.items()}
    limits = timeout_s, output_most_bytes
    turns = (_turn(host, argvs, answers[host], *limits) for host, argvs in left.items() for _ in range(PER_HOST_MOST))
    carry_out(turns, executor, most=IN_FLIGHT_MOST)
    return answers


def _turn(
    host: str, left: deque[Argv], answers: dict[Argv, HostAnswer], timeout_s: float, most_bytes: int
) -> Procedure[None]:
    """Ask the commands that are left, one after the other; several turns of one host share *left*."""
    late = f"no answer within {timeout_s:g} s"
    while left:
        argv = left.popleft()
        try:
            result = yield from ask(host, argv, timeout_s=timeout_s, output_cap_bytes=most_bytes)
        except ExecutorError as exc:
            timed_out = isinstance(exc, CommandTimeout)
            why = late if timed_out else str(exc).removeprefix(f"{host}: ")  # findings are folded: no host
            answers[argv] = _unanswered(host, argv, why)
            if not timed_out or [one.lost for one in answers.values()].count(late) >= TIMEOUTS_MOST:
                answers.update((one, _unanswered(host, one, why)) for one in left)
                left.clear()
        else:
            answers[argv] = HostAnswer(**{field.name: getattr(result, field.name) for field in fields(result)})


def _unanswered(host: str, argv: Argv, why: str) -> HostAnswer:
    return HostAnswer(Command(host, argv, TIMEOUT_S), -1, "", "", 0.0, 0.0, lost=why)


GUARD_PROGRAMS = ("flock", "setsid", "timeout")
"""What the guard of a change calls besides sh and the smallest tools."""


@dataclass(frozen=True, slots=True)
class HostNeeds(Uses):
    """
    What one host must have, for all its probes together and for its other tasks.

    *measured*: the host takes part in the measurement; else it only carries out changes. *alters*: what changes call as
    root. *peer*: the host that mpirun logs in to from here, by the name mpirun uses. *sudo*: commands that need root go
    through sudo. *ssh*: the host is reached over SSH. *in_band*: commands that show whether switches and UFM can be
    reached from here. *links*: commands that show whether it can look at both ends of every InfiniBand cable.
    """

    measured: bool = True
    alters: Alters = field(default_factory=Alters)
    peer: str | None = None
    sudo: bool = False
    ssh: bool = False
    in_band: tuple[tuple[str, ...], ...] = ()
    links: tuple[tuple[str, ...], ...] = ()


def host_needs(
    scenario: Scenario | None, hosts: tuple[str, ...], inventory: Inventory, *, backend: str
) -> dict[str, HostNeeds]:
    """
    Return the needs of *hosts*, and of the hosts that carry out the scenario's changes.

    Without a scenario, return what every measurement on these hosts needs, but no programs.
    """
    specs = [spec for phase in scenario.phases for spec in phase.probes] if scenario else []
    made_by = altering(scenario, inventory) if scenario else {}
    alters = {name: what for name, what in made_by.items() if name is not None}
    common = HostNeeds(sudo=inventory.changes.sudo, ssh=backend == "ssh")
    made = {name: _of_platform(specs, inventory.topology.hosts[name].platform, common) for name in hosts}
    for name, what in alters.items():
        made[name] = replace(made.get(name, replace(common, measured=False)), alters=what)
    via = inventory.changes.via
    if via in made:
        asked = [*_reaching(Context(inventory.topology, inventory.changes))] if via in alters else []
        ufm = management.UfmAccess.of(inventory.changes)
        if ufm is not None and scenario is not None and scenario.sample is not None:
            asked.append(management.ask_telemetry(ufm))
        made[via] = replace(made[via], in_band=tuple(asked))
    if (
        scenario is not None
        and scenario.sample is not None
        and scenario.sample.counters
        and (via is None or via in made)
    ):
        made |= {name: replace(made[name], links=tuple(_looking(name, inventory))) for name in made}
    return made


def _looking(name: str, inventory: Inventory) -> Iterator[tuple[str, ...]]:
    """Yield the commands that look at cables from a host, through each of its ways out, for its own node alone."""
    changes = inventory.changes
    if inventory.topology.hosts[name].platform.link_layer != "infiniband":
        return
    for rnic in inventory.ways_out(name).values():
        through = (*infiniband.through(rnic.device, rnic.port, changes.m_key), *infiniband.HERE)
        for argv in (infiniband.all_ports(through=through), infiniband.errors(through=through)):
            yield as_root(argv, sudo=changes.sudo)


def _reaching(context: Context) -> Iterator[tuple[str, ...]]:
    """Yield the commands for ``via``: one shows whether its port leads to the fabric, the other reads UFM's list."""
    settings, via = context.settings, context.need_via()
    platform = context.topology.hosts[via].platform
    if platform.link_layer == "infiniband":
        asked = infiniband.subnet_manager(through=context.in_band())
        yield as_root(asked, sudo=settings.sudo)
    if (ufm := management.UfmAccess.of(settings)) is not None:
        yield management.list_unhealthy(ufm)


def with_peers(
    needs: Mapping[str, HostNeeds], reached: tuple[str, ...], hosts: Mapping[str, Host]
) -> dict[str, HostNeeds]:
    """
    Return the needs of the hosts that were reached, with a peer set for each host that uses mpirun.

    The peers form a ring: each host logs in to the next one.
    """
    ring = [name for name in reached if "mpirun" in needs[name].programs and _by_ssh(hosts[name].platform)]
    peers = {name: ring[(place + 1) % len(ring)] for place, name in enumerate(ring)} if len(ring) > 1 else {}
    return {name: replace(needs[name], peer=peers[name]) if name in peers else needs[name] for name in reached}


def _by_ssh(platform: Platform) -> bool:
    """Return whether Open MPI starts its daemons over ssh: yes, unless the site's options choose another way."""
    return not any("plm" in word for word in platform.mpirun_options)


def _of_platform(specs: list[ProbeSpec], platform: Platform, common: HostNeeds) -> HostNeeds:
    found = [need for need in (spec.uses(platform) for spec in specs) if need is not None]
    return replace(
        common,
        programs=tuple(dict.fromkeys(name for need in found for name in need.programs)),
        cuda=any(need.cuda for need in found),
        gpudirect=any(need.gpudirect for need in found),
        pinned_bytes=max((need.pinned_bytes for need in found), default=0),
    )


def altering(scenario: Scenario, inventory: Inventory) -> dict[str | None, Alters]:
    """
    Return the hosts that carry out changes of a scenario, and what each needs as root for them.

    The key None means: some change reaches a switch in-band, and the inventory does not say from which host.
    """
    context = Context(inventory.topology, inventory.changes, hosts=scenario.hosts)
    specs = (spec for phase in scenario.phases for spec in phase.changes if isinstance(spec, Kind))
    made: dict[str | None, Alters] = {}
    for host, more in (need for spec in specs for need in spec.needs(context)):
        one = made.get(host, Alters())
        made[host] = Alters(tuple(dict.fromkeys(one.programs + more.programs)), one.guarded or more.guarded)
    return made


GROUP = "fabric.checks"
"""The entry point group under which a package registers its own checks, each a ``HostCheck``."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One host, what it must have, and its answers to every check."""

    host: Host
    needs: HostNeeds
    answers: Answers


@dataclass(frozen=True, slots=True)
class HostCheck:
    """
    One thing to look at on each host; a check alters nothing there.

    *ask* returns the commands to run on a host: none where the check does not matter. *read* yields what is wrong with
    one host that was asked something, *compare* yields what is wrong between hosts. Neither raises, whatever a host
    printed.
    """

    name: str
    ask: Callable[[Host, HostNeeds], Sequence[Argv]] = lambda _host, _needs: ()
    read: Callable[[Looked], Iterable[Finding]] = lambda _looked: ()
    compare: Callable[[Mapping[str, Looked]], Iterable[Finding]] = lambda _hosts: ()

    def findings(self, hosts: Mapping[str, Looked]) -> Iterator[Finding]:
        """Yield everything that the check finds on the hosts."""
        for name, looked in hosts.items():
            if self.ask(looked.host, looked.needs):
                yield from signed(self.name, self.read(looked), name)
        yield from signed(self.name, self.compare(hosts))


def problem(what: str, why: str, advice: str, *hosts: str) -> Finding:
    """
    Return a PROBLEM: the scenario would fail, or its numbers would be wrong. Without *hosts* it is about the host read.
    """
    return Finding("", Severity.PROBLEM, hosts, what, why, advice)


def unknown(what: str, why: str, advice: str, *hosts: str) -> Finding:
    """Return an UNKNOWN finding: something could not be checked."""
    return Finding("", Severity.UNKNOWN, hosts, what, why, advice)


def warning(what: str, why: str, advice: str, *hosts: str) -> Finding:
    """Return a WARNING: something is worth knowing."""
    return Finding("", Severity.WARNING, hosts, what, why, advice)


def signed(check: str, findings: Iterable[Finding], *hosts: str) -> Iterator[Finding]:
    """Yield the findings with the name of the check, and with *hosts* where a finding names none."""
    return (replace(one, check=check, hosts=one.hosts or hosts) for one in findings)


def with_plugins(checks: Sequence[HostCheck]) -> tuple[list[HostCheck], list[Finding]]:
    """
    Return the checks with those that installed packages add under ``fabric.checks``, and findings about broken ones.

    A check that cannot be loaded is reported; the other checks run all the same.
    """
    found, broken = list(checks), list[Finding]()
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            found.append(_guarded(_loaded(point, {one.name for one in found})))
        except Exception as exc:  # noqa: BLE001 - somebody else's code may raise anything when it is imported
            broken.append(_broken(f"{point.name} ({point.value})", "cannot be loaded", exc))
    return found, broken


def _loaded(point: EntryPoint, taken: set[str]) -> HostCheck:
    check = point.load()
    if not isinstance(check, HostCheck):
        raise TypeError(f"expected a fabric.checks.kind.HostCheck, got {type(check).__name__}")
    if check.name in taken:
        raise ValueError(f"there is a check {check.name!r} already")
    return check


def _guarded(check: HostCheck) -> HostCheck:
    """Wrap a check of another package: when it raises, that is reported as its finding, and nothing else is lost."""

    def ask(host: Host, needs: HostNeeds) -> Sequence[Argv]:
        try:
            return _commands(check, host, needs)
        except Exception:  # noqa: BLE001 - reported by ``compare``, once for all hosts
            return ()

    def compare(hosts: Mapping[str, Looked]) -> Iterable[Finding]:
        try:
            for looked in hosts.values():
                _commands(check, looked.host, looked.needs)
            return list(check.findings(hosts))
        except Exception as exc:  # noqa: BLE001 - somebody else's code
            return [_broken(check.name, "broke", exc)]

    return HostCheck(check.name, ask, compare=compare)


def _commands(check: HostCheck, host: Host, needs: HostNeeds) -> Sequence[Argv]:
    asked = tuple(check.ask(host, needs))
    for argv in asked:
        if not (isinstance(argv, tuple) and argv and all(isinstance(word, str) for word in argv)):
            raise TypeError(f"expected commands as tuples of words, got {argv!r}")
    return asked


def _broken(name: str, how: str, exc: Exception) -> Finding:
    what = f"the check {name} of another package {how}: {type(exc).__name__}: {quoted(str(exc))}"
    return Finding("plug-ins", Severity.UNKNOWN, (), what, "what it looks at is not known", "mend or uninstall it")
