"""Adaptive routing on or off: for the whole fabric by subnet managers or switches, or in the RNICs of hosts."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes import nvue
from fabric.changes.kind import Alters, Context, KeyProblem
from fabric.changes.procedure import Procedure
from fabric.changes.rnics import ADAPTIVE_ROUTING, look_at_register, need_on_every_rnic, set_on_every_rnic
from fabric.changes.subnet_manager import SM_NEEDED, Toggle
from fabric.model.change import Alterations, Change, ChangeSettings
from fabric.model.fields.scalars import Choice, OnOff


class AdaptiveRouting(Toggle):
    """
    The change adaptive_routing.

    Of the fabric: InfiniBand by its subnet managers, RoCE by each of its switches. Scope ``job`` alters nothing: the
    probes ask for it themselves.
    """

    kind: ClassVar[str] = "adaptive_routing"
    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric (the subnet managers' setting, for everyone on this fabric), host (RoCE: the RNICs of these"
        " hosts) or job (only what the probes ask for)"
    }

    on: Annotated[bool, OnOff()] = Field(alias="adaptive_routing")
    """Adaptive routing on or off."""
    scope: Annotated[str, Choice(("fabric", "host", "job"))]
    """For whom: fabric (everyone on this fabric), host (RoCE: these hosts) or job (these probes)."""

    @property
    def _field(self) -> dict[str, int]:
        return {ADAPTIVE_ROUTING: int(self.on)}

    @property
    def alters(self) -> bool:
        """False for scope ``job``, where only the probes ask for it."""
        return self.scope != "job"

    def env(self, settings: ChangeSettings, written: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables that ask NCCL for it, for scope ``job`` only; a service level that is written stays."""
        if self.scope != "job":
            return {}
        level = settings.adaptive_sl if self.on and "NCCL_IB_SL" not in written else None
        asked = {"NCCL_IB_ADAPTIVE_ROUTING": "1" if self.on else "0"}
        return asked if level is None else {**asked, "NCCL_IB_SL": str(level)}

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield a scope that this fabric does not know, or what is missing for it."""
        yield from super().problems(context)
        if context is None:
            return
        ethernet, hosts = context.topology.ethernet, context.topology.hosts
        if self.scope == "fabric" and ethernet:
            yield from nvue.wrong_scope(context, "adaptive routing")
        elif self.scope == "fabric" and not context.settings.subnet_managers:
            yield ("scope",), f"to switch adaptive routing of the fabric {SM_NEEDED}"
        if self.scope == "host" and any(hosts[name].platform.link_layer == "infiniband" for name in context.hosts):
            yield ("scope",), "scope host is for RoCE: on InfiniBand the subnet managers (fabric) or the job decide"

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Yield also the RNICs' register."""
        yield from super().needs(context)
        for name in context.hosts if self.scope == "host" else ():
            yield name, Alters(("mlxreg",), guarded=True)

    def commits(self, context: Context) -> bool:
        """Return whether switches commit it: for the whole of a RoCE fabric."""
        return self.scope == "fabric" and context.topology.ethernet

    def sets(self, context: Context) -> Mapping[str, str]:
        """
        Return the inventory's keys for the subnet managers; none where switches, RNICs or probes are set themselves.
        """
        if self.scope != "fabric" or context.topology.ethernet:
            return {}
        return dict(context.settings.adaptive_on if self.on else context.settings.adaptive_off)

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """Return one Alteration per subnet manager or switch, or one for the host; none when all is as wanted."""
        if change.scope == "host":
            return (yield from set_on_every_rnic(change.component, self._field, context, look_at_register))
        if context.topology.ethernet:
            return (
                yield from nvue.prepare_switches(
                    change.change_id, context, partial(nvue.routing, on=self.on), on=self.on
                )
            )
        return (yield from super().prepare(change, context))

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Check the managers' files and a master, every switch, or the register of every RNIC."""
        if change.scope == "host":
            yield from need_on_every_rnic(alterations, self._field, context, look_at_register)
        elif context.topology.ethernet:
            yield from nvue.confirm_routing(alterations, context, on=self.on)
        else:
            yield from super().confirm(change, alterations, context)

    def recovered(self, change: Change, alterations: Alterations, context: Context, until_s: float) -> Procedure[None]:
        """Wait until a master is at work again, where subnet managers were altered."""
        by_managers = change.scope == "fabric" and not context.topology.ethernet
        yield from super().recovered(change, alterations if by_managers else (), context, until_s)
