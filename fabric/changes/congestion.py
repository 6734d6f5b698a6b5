"""How RNICs treat congestion (RoCE): PFC of a priority, and DCQCN (who answers marks, who slows down, and how).

PFC is set by ``dcb`` of iproute2 (dcb-pfc(8)); mlx5 then sizes its buffers anew, and again at the undo. DCQCN is
switched by files of the driver that OFED and DOCA bring (``ecn/roce_np``, ``ecn/roce_rp``). Its knobs are files of
debugfs (Linux, mlx5/core: ``cc_params``), which only root can write. Knobs that set others along with them (np_cnp_prio
its mode, rtt_resp_dscp its validity) are left out: restoring one would not restore the other.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes import one_line
from fabric.changes.kind import Alters, Context, KeyProblem
from fabric.changes.procedure import Procedure
from fabric.changes.rnics import RnicSettings, Shown, Values
from fabric.model.change import Argv, Check
from fabric.model.fields.scalars import Choice, OnOff, Whole, Word
from fabric.model.topology import Rnic
from fabric.tools.driver import need_success, plain

NAME = "fabric-rnic"
"""The name ($0) under which the shell text is started."""

KNOBS = (
    *("rp_clamp_tgt_rate", "rp_clamp_tgt_rate_ati", "rp_time_reset", "rp_byte_reset", "rp_threshold", "rp_ai_rate"),
    *("rp_max_rate", "rp_hai_rate", "rp_min_dec_fac", "rp_min_rate", "rp_rate_to_set_on_first_cnp", "rp_dce_tcp_g"),
    *("rp_dce_tcp_rtt", "rp_rate_reduce_monitor_period", "rp_initial_alpha_value", "rp_gd"),
    *("np_cnp_dscp", "np_min_time_between_cnps"),
)
"""Files of ``cc_params`` that set nothing but themselves (Linux, mlx5/core/... cong.c)."""

KNOB = Word(f"(?:{'|'.join(KNOBS)})", f"a knob that stands for itself: {', '.join(KNOBS)}")

_TEXT = one_line("congestion.sh")
_LINE = re.compile(r"([a-z_/0-7]{1,40})=([0-9]{1,10})", re.ASCII)

Priority = Annotated[int, Whole(0, 7)]


def _words(values: Values) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


class CongestionSettings(RnicSettings):
    """Settings by the names of ``sh/congestion.sh``."""

    def __str__(self) -> str:
        settings = []
        for name, value in self.values.items():
            side, _, priority = name.partition("/")
            on = "on" if value else "off"
            settings.append(f"{side.upper()} of priority {priority} {on}" if priority else f"{name} {value}")
        return ", ".join(settings)

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Yield the tools that the shell text runs."""
        tools = {"dcb" if one.startswith("pfc/") else "tee" for one in self.values}
        for name in context.hosts:
            yield name, Alters(tuple(sorted(tools)), guarded=True)

    def look(self, name: str, rnic: Rnic, wanted: Values, context: Context) -> Procedure[Shown]:
        """Read what the shell text shows; with a refusal if a value is missing."""

        def call(verb: str, words: Iterable[str]) -> Argv:
            return ("sh", "-c", _TEXT, NAME, verb, rnic.device, str(rnic.port), *words)

        def check(values: Values) -> Check:
            return Check(call("show", values), tuple(f"^{line}$" for line in _words(values)))

        stdout, stderr, status = yield from context.look(name, call("show", wanted))
        need_success(NAME, stdout, stderr, status)
        lines = (_LINE.fullmatch(line) for line in plain(stdout).splitlines())
        readings = {found[1]: int(found[2]) for found in lines if found is not None}
        there = {key: readings[key] for key in wanted if key in readings}
        missing = ", ".join(sorted(wanted.keys() - there.keys()))
        refusal = f" does not tell {missing} (dcb; driver; debugfs as root)" if missing else ""
        return Shown(there, refusal, lambda values: call("set", _words(values)), check)


class Pfc(CongestionSettings):
    """The change pfc: PFC of one priority on or off at the hosts' ends of their cables."""

    kind: ClassVar[str] = "pfc"
    reach: ClassVar[str] = "fabric"
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
        """The one value."""
        return {f"pfc/{self.priority}": int(self.on)}


class Dcqcn(CongestionSettings):
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
        """The switches, then the knobs."""
        sides = {f"np/{self.priority}": self.np, f"rp/{self.priority}": self.rp}
        return {name: int(on) for name, on in sides.items() if on is not None} | dict(self.knobs)

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield problems: nothing is asked for, or the priority is missing."""
        if not self.values:
            yield (), "'np', 'rp' or 'knobs' is required here"
        if (self.np, self.rp) != (None, None) and self.priority is None:
            yield (), "'priority' is required with 'np' and 'rp': 0 to 7"
        yield from super().problems(context)
