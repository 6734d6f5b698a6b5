"""How the switches of a RoCE fabric treat its lossless class: whether they mark its queue (ECN), and pause it (PFC).

The profile ``default-global`` is set, which every port follows that has none of its own; if ports have their own, the
change is refused. Sources: NVIDIA's "NVUE Command Reference" (Set and Unset Commands, QoS: ``qos congestion-control
<profile> traffic-class <queue> ecn``, ``qos pfc <profile> tx|rx``, ``enable`` and ``disable``). Their JSON form is
published nowhere, so they are read back in two places that must agree: the applied configuration (``nv config show -o
commands``) and the text of ``nv show qos roce``.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes import nvue
from fabric.changes.kind import FABRIC, Context, KeyProblem, Kind
from fabric.changes.nvue import LOOK_S, SwitchKey, errors_naming, shell
from fabric.changes.procedure import Procedure
from fabric.errors import Refused
from fabric.model.change import Alterations, Change, Check
from fabric.model.fields.folded import some
from fabric.model.fields.scalars import Choice, OnOff, Whole
from fabric.tools import switch_qos
from fabric.tools.nvue import COMMANDS, WORDS, Setting
from fabric.tools.roce import RocePort
from fabric.tools.switch_qos import GLOBAL

Class = Annotated[int, Whole(0, 7)]


class SwitchQos(Kind):
    """Base of kinds that set keys of ``default-global`` on every leaf and spine; a subclass says which."""

    is_fault: ClassVar[bool] = False
    profile: ClassVar[str]
    """The kind of profile, as NVUE calls it."""

    on: bool
    scope: str

    @property
    def queue(self) -> int | None:
        """The queue that the keys belong to; None where they belong to the whole profile."""
        return None

    def now(self, name: str, usual: RocePort) -> Mapping[str, tuple[str, bool | None]]:
        """Return each key, its name in ``nv show qos roce``, and whether it is on; Refused where it must not be set."""
        raise NotImplementedError

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """Return 1 for on, 0 for off."""
        return {"on": int(self.on)}

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield problems: the fabric is not RoCE, or switches cannot be configured."""
        if context is not None and not context.topology.ethernet:
            yield (), "it is for RoCE: InfiniBand has no such setting"
        elif context is not None:
            yield from nvue.wrong_scope(context, self.profile)

    def commits(self, context: Context) -> bool:
        """Return True: every switch commits it."""
        return True

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Yield the whole fabric as the only target."""
        yield FABRIC, self.scope, self

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """Return one Alteration for each switch that differs; none when all are as wanted."""
        return (yield from nvue.prepare_switches(change.change_id, context, self._look, on=self.on))

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Check that every switch is configured as wanted, and shows it."""
        yield from nvue.confirm_switches(alterations, context, self._look, on=self.on)

    def _look(self, name: str, context: Context) -> Procedure[tuple[SwitchKey, ...]]:
        table = yield from context.look(name, switch_qos.ROCE, timeout_s=LOOK_S)
        lines = yield from context.look(name, COMMANDS, timeout_s=LOOK_S)
        with errors_naming(name):
            usual = switch_qos.read_roce(*table)
            known = switch_qos.read_global(self.profile, self.queue, *lines)
        if usual.pfc is None:
            raise Refused(f"{name}: RoCE is not enabled there (nv set qos roce)")
        if known.apart:
            raise Refused(
                f"{name}: {some(list(known.apart))} follow {self.profile} profiles of their own, not {GLOBAL}; what is "
                f"set for all would not reach them (nv unset interface PORT qos {self.profile})"
            )
        if known.together:
            raise Refused(f"{name}: {GLOBAL} sets traffic-class {known.together} together; set each for itself")
        path = ("qos", self.profile, GLOBAL) + (() if self.queue is None else ("traffic-class", str(self.queue)))
        found = []
        for key, (label, on) in self.now(name, usual).items():
            explicit = known.explicit.get(key)
            if on is None or explicit not in (None, WORDS[key][int(on)]):
                raise Refused(f"{name}: {' '.join(path)} {key} is set to {explicit}, and nv show qos roce says {on}")
            setting = Setting(key, WORDS[key][int(on)], path)
            back = "unset" if explicit is None else "set"
            with errors_naming(name):
                line = switch_qos.shown(label, *table)
            checks = (
                Check(switch_qos.ROCE, (line,)),
                Check(shell("seen", path, key, setting.value, back), (f"nv {back} .* {key}",)),
            )
            found.append(SwitchKey(" ".join(path), setting, explicit is not None, checks))
        return tuple(found)


class Ecn(SwitchQos):
    """The change ecn: whether switches mark packets of one class where its queue grows."""

    kind: ClassVar[str] = "ecn"
    profile: ClassVar[str] = "congestion-control"
    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric, because switches mark the packets of everyone on this fabric",
        "traffic_class": "which one: 0 to 7 (nv show qos roce says which are marked, docs/roce.md)",
    }

    on: Annotated[bool, OnOff()] = Field(alias="ecn")
    """Marks of the class on or off."""
    traffic_class: Class
    """Which class (the switches' queue), 0 to 7."""
    scope: Annotated[str, Choice(("fabric",))]
    """fabric: switches mark the packets of everyone on this fabric."""

    def __str__(self) -> str:
        return f"ECN of class {self.traffic_class} {'on' if self.on else 'off'} at switches"

    @property
    def queue(self) -> int | None:
        """The class, which is the number of its queue."""
        return self.traffic_class

    def now(self, name: str, usual: RocePort) -> Mapping[str, tuple[str, bool | None]]:
        """Return the key ecn: whether the queue is among those that are marked."""
        return {"ecn": ("enabled-tc", None if usual.marks is None else self.traffic_class in usual.marks)}


class SwitchPfc(SwitchQos):
    """The change switch_pfc: whether switches pause, and let themselves be paused, where a class is lossless."""

    kind: ClassVar[str] = "switch_pfc"
    profile: ClassVar[str] = "pfc"
    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric, because a class that is lossy at one switch is lossy for everyone who sends there",
        "priority": "which one: 0 to 7 (nv show qos roce says which has PFC, docs/roce.md)",
    }

    on: Annotated[bool, OnOff()] = Field(alias="switch_pfc")
    """Pauses, sent and obeyed, on or off."""
    priority: Class
    """Which priority, 0 to 7; on the switches it has to be the only one with PFC."""
    scope: Annotated[str, Choice(("fabric",))]
    """fabric: what is lossy at one switch is lossy for everyone who sends there."""

    def __str__(self) -> str:
        return f"PFC of priority {self.priority} {'on' if self.on else 'off'} at switches"

    def now(self, name: str, usual: RocePort) -> Mapping[str, tuple[str, bool | None]]:
        """Return both directions. Switches have one setting for all priorities, so no other priority may have PFC."""
        if usual.pfc != frozenset({self.priority}):
            enabled = ", ".join(map(str, sorted(usual.pfc or ()))) or "none"
            raise Refused(
                f"{name} has PFC on priority {enabled}, not on {self.priority} alone, and switches it for all at once"
            )
        return {"tx": ("tx-enabled", usual.sends), "rx": ("rx-enabled", usual.obeys)}
