"""What the operator says about the machines: the topology, how to reach it, and what the mock shall break."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.model.change import ChangeSettings
from fabric.model.topology import Topology


@dataclass(frozen=True, slots=True)
class JumpHost:
    """A host to go through; its key is checked like any other."""

    address: str
    user: str | None = None
    port: int = 22


@dataclass(frozen=True, slots=True)
class SshSettings:
    """How hosts are reached over SSH; no password, no switch that turns host keys off."""

    user: str | None = None
    port: int = 22
    key_file: str | None = None  # else the agent
    agent: bool = True
    jump: tuple[JumpHost, ...] = ()
    known_hosts: tuple[str, ...] = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
    connect_timeout_s: float = 15.0


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """The argv that carries a command to a host, ``{host}`` replaced: ``ip netns exec {host}``; empty is local."""

    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """
    Something the simulated rack shall do wrong.

    *component*: ``gpu003`` (host), ``gpu003/mlx5_2``, ``gpu003/gpu5``, ``gpu003/gpu5:nvlink``, ``gpu003/numa1``,
    ``gpu003/pcie2``, ``gpu003/mlx5_2->gpu4`` (one path), ``gpu003/mlx5_2->numa1`` (path to that memory node),
    ``gpu003/mlx5_2->numa1-gpus`` (paths to that node's GPUs), a switch, ``su0-leaf3--spine2`` (the cables between two
    switches) or ``su0-leaf3->spine2`` (one direction of them).
    *kind*: ``slow`` (keeps *factor* of its bandwidth), ``broken``, ``hanging``, ``absent``, ``garbage``; ``lemon`` (a
    host, an RNIC or a cable that fails now and then), ``hot`` (an RNIC whose link errs, a GPU that throttles),
    ``bit_errors`` (an RNIC's cable; *factor* is the bit error ratio behind the FEC), ``symbol_errors`` (the same behind
    the link's own retries); ``dipping``, ``fading``, ``heat_sick`` (an RNIC or its cable: sim/life/passing.py).
    """

    component: str
    kind: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class TimedFault:
    """
    A fault that comes at *at_s* of simulated time and goes *duration_s* later.

    *cause* is what the operator would write down. A *companion* came with another failure and is not counted as one.
    """

    at_s: float
    duration_s: float
    fault: Fault
    cause: str = ""
    companion: bool = False


@dataclass(frozen=True, slots=True)
class MockSettings:
    """
    How the simulated rack behaves; *noise_cv* is the coefficient of variation of a healthy measurement.

    *routing* (None: as fat trees usually are), *qps* and *salt* say how paths between leaves are chosen. *shield*: the
    switches reroute around dead ports by themselves. *sm_reroute_s*: how long the subnet manager takes to route anew.
    *ufm_isolates*: a manager above it isolates ports with many bit errors, and they stay isolated until it is told.
    *timed_faults* come and go. *failures_per_host_day* makes hosts fail by chance; a lemon errs *lemon_per_hour* times.
    """

    faults: tuple[Fault, ...] = ()
    noise_cv: float = 0.003
    routing: str | None = None
    qps: int = 1
    salt: int = 0
    shield: bool = False
    sm_reroute_s: float = 15.0
    ufm_isolates: bool = False
    timed_faults: tuple[TimedFault, ...] = ()
    failures_per_host_day: float = 0.0
    lemon_per_hour: float = 1.0


@dataclass(frozen=True)
class Inventory:
    """One inventory file, decoded; *backend* is used when the command line names none."""

    name: str
    source: str  # the file it came from, for messages
    topology: Topology
    backend: str  # "mock" | "ssh" | "process"
    ssh: SshSettings
    process: ProcessSettings
    mock: MockSettings
    changes: ChangeSettings = field(default_factory=ChangeSettings)
