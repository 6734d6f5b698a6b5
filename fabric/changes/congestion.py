"""
How RNICs treat congestion (RoCE): PFC of a priority, and DCQCN, who answers marks, who slows down and how.

PFC is set by ``dcb`` of iproute2 (dcb-pfc(8)); mlx5 then sizes its buffers anew, and does so again when it is taken
back. DCQCN's switches are files of the driver that OFED and DOCA bring (``ecn/roce_np``, ``ecn/roce_rp``), its knobs
those of debugfs (Linux, mlx5/core: ``cc_params``), where root alone writes. Knobs that set others along with them
(np_cnp_prio its mode, rtt_resp_dscp its validity) are left out: giving one back would not give the other back.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes import one_line
from fabric.changes.kind import Alters, Context, Kind, Wrong
from fabric.changes.procedure import Procedure
from fabric.changes.retransmission import ethernet_host
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alteration, Argv, Change, Check
from fabric.model.fields.scalars import Choice, OnOff, Whole, Word
from fabric.model.topology import Rnic
from fabric.tools.driver import need_success, plain

NAME = "fabric-rnic"
"""The name ($0) under which the text is started."""

KNOBS = (
    *("rp_clamp_tgt_rate", "rp_clamp_tgt_rate_ati", "rp_time_reset", "rp_byte_reset", "rp_threshold", "rp_ai_rate"),
    *("rp_max_rate", "rp_hai_rate", "rp_min_dec_fac", "rp_min_rate", "rp_rate_to_set_on_first_cnp", "rp_dce_tcp_g"),
    *("rp_dce_tcp_rtt", "rp_rate_reduce_monitor_period", "rp_initial_alpha_value", "rp_gd"),
    *("np_cnp_dscp", "np_min_time_between_cnps"),
)
"""Files of ``cc_params`` that stand for themselves alone (Linux, mlx5/core/... cong.c)."""

KNOB = Word(f"(?:{'|'.join(KNOBS)})", f"a knob that stands for itself: {', '.join(KNOBS)}")

_TEXT = one_line("congestion.sh")
_LINE = re.compile(r"([a-z_/0-7]{1,40})=([0-9]{1,10})", re.ASCII)

Priority = Annotated[int, Whole(0, 7)]
Values = Mapping[str, int]


def _call(verb: str, rnic: Rnic, *words: str) -> Argv:
    return ("sh", "-c", _TEXT, NAME, verb, rnic.device, str(rnic.port), *words)


def _words(values: Values) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


class RnicSettings(Kind):
    """Values of every RNIC of the scenario's hosts; a subclass says which."""

    is_fault: ClassVar[bool] = False
    scope: str

    @property
    def values(self) -> dict[str, int]:
        """What is asked for, by the names of ``sh/congestion.sh``."""
        raise NotImplementedError

    def __str__(self) -> str:
        said = []
        for name, value in self.values.items():
            side, _, priority = name.partition("/")
            on = "on" if value else "off"
            said.append(f"{side.upper()} of priority {priority} {on}" if priority else f"{name} {value}")
        return ", ".join(said)

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """What is asked for."""
        return self.values

    def problems(self, context: Context | None) -> Iterator[Wrong]:
        """The hosts have no RoCE."""
        hosts = context.topology.hosts if context is not None else {}
        if any(hosts[name].platform.link_layer == "infiniband" for name in (context.hosts if context else ())):
            yield (), "it is for RoCE: InfiniBand has no such setting"

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Each host."""
        for name in context.hosts:
            yield name, self.scope, self

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """What the shell text runs."""
        tools = {"dcb" if one.startswith("pfc/") else "tee" for one in self.values}
        for name in context.hosts:
            yield name, Alters(tuple(sorted(tools)), guarded=True)

    def prepare(self, change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
        """One Alteration for the host; none when all its RNICs are so already. Refused where a value is not there."""
        name, wanted = change.component, self.values
        apply: list[Argv] = []
        undo: list[Argv] = []
        checks: list[Check] = []
        seen: dict[str, list[str]] = {}
        for rnic in ethernet_host(name, context).platform.rnics:
            before = yield from _shown(name, rnic, wanted, context)
            if missing := wanted.keys() - before.keys():
                why = f"{name}/{rnic.device} does not tell {', '.join(sorted(missing))} (dcb; driver; debugfs as root)"
                raise Refused(why)
            others = {key: value for key, value in before.items() if value != wanted[key]}
            if others:
                apply.append(_call("set", rnic, *_words({key: wanted[key] for key in others})))
                undo.append(_call("set", rnic, *_words(others)))
                patterns = tuple(f"^{line}$" for line in _words(others))
                checks.append(Check(_call("show", rnic, *others), patterns))
                seen.setdefault(", ".join(_words(others)), []).append(rnic.device)
        prior = "; ".join(f"{text} on {', '.join(devices)}" for text, devices in seen.items())
        return (Alteration(name, tuple(apply), tuple(undo), tuple(checks), f"{name}: {prior}"),) if apply else ()

    def confirm(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """Every RNIC says so."""
        for alteration in alterations:
            for rnic in ethernet_host(alteration.host, context).platform.rnics:
                there = yield from _shown(alteration.host, rnic, self.values, context)
                if there != self.values:
                    raise NotInForce(f"{alteration.host}/{rnic.device}: {', '.join(_words(there)) or 'nothing told'}")


def _shown(host: str, rnic: Rnic, wanted: Values, context: Context) -> Procedure[dict[str, int]]:
    stdout, stderr, status = yield from context.look(host, _call("show", rnic, *wanted))
    need_success(NAME, stdout, stderr, status)
    lines = (_LINE.fullmatch(line) for line in plain(stdout).splitlines())
    told = {found[1]: int(found[2]) for found in lines if found is not None}
    return {name: told[name] for name in wanted if name in told}


class Pfc(RnicSettings):
    """The change pfc: PFC of one priority on or off at the hosts' ends of their cables."""

    kind: ClassVar[str] = "pfc"
    about: ClassVar[str] = "PFC of one priority, on or off at the RNICs of these hosts (dcb)."
    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric, because a class that is lossy at one end is lossy for everyone who sends there",
        "priority": "which one: 0 to 7 (mlnx_qos says which has PFC, docs/roce.md)",
    }

    on: Annotated[bool, OnOff()] = Field(alias="pfc")
    """PFC of the priority on or off."""
    priority: Priority
    """Which priority, 0 to 7."""
    scope: Annotated[str, Choice(("fabric",))]
    """fabric: what is lossy at one end is lossy for everyone who sends there."""

    @property
    def values(self) -> dict[str, int]:
        """The one."""
        return {f"pfc/{self.priority}": int(self.on)}


class Dcqcn(RnicSettings):
    """The change dcqcn: congestion control of RNICs, on or off for a priority, and its knobs."""

    kind: ClassVar[str] = "dcqcn"
    about: ClassVar[str] = "DCQCN of the RNICs of these hosts: who answers marks, who slows down, and its knobs."

    scope: Annotated[str, Choice(("host",))] = "host"
    """host: the RNICs of these hosts."""
    priority: Priority | None = None
    """Of np and rp: which priority, 0 to 7."""
    np: Annotated[bool, OnOff()] | None = None
    """Whether a receiver answers marked packets with CNPs."""
    rp: Annotated[bool, OnOff()] | None = None
    """Whether a sender slows down for CNPs."""
    knobs: Mapping[Annotated[str, KNOB], Annotated[int, Whole(0, 2**32 - 1)]] = Field(
        default_factory=dict, max_length=len(KNOBS)
    )
    """Knobs of mlx5's cc_params, such as {rp_ai_rate: 10}."""

    @property
    def values(self) -> dict[str, int]:
        """Switches, then knobs."""
        sides = {f"np/{self.priority}": self.np, f"rp/{self.priority}": self.rp}
        return {name: int(on) for name, on in sides.items() if on is not None} | dict(self.knobs)

    def problems(self, context: Context | None) -> Iterator[Wrong]:
        """Nothing is asked for, or not of which priority."""
        if not self.values:
            yield (), "'np', 'rp' or 'knobs' is required here"
        if (self.np, self.rp) != (None, None) and self.priority is None:
            yield (), "'priority' is required with 'np' and 'rp': 0 to 7"
        yield from super().problems(context)
