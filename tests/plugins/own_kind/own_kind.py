"""A kind of probe of somebody else's package: asks the clock of every host."""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.model.fields.scalars import Whole
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Command, Probe, ProbeCommands, Reading
from fabric.model.scenario import ProbeSpec
from fabric.model.topology import Topology


class HostnameSpec(ProbeSpec):
    """What each host calls itself (hostname)."""

    kind: ClassVar[str] = "called"
    needs: ClassVar[str] = "nothing"

    name: str = kind
    patience_s: Annotated[
        int, Whole(1, 60), Field(validation_alias="patience", description="How long it may take.")
    ] = 5

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """One a host."""
        for host in hosts:
            params = {"patience_s": self.patience_s, "series": self.name}
            yield Probe(f"{phase}/{host}/{self.name}", self.kind, phase, (host,), (), 1.0, params)

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """hostname."""
        return ProbeCommands((), Command(probe.hosts[0], ("hostname",), float(str(probe.params["patience_s"]))))

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """A host that says its name is well."""
        said = answered.client.stdout.strip() if answered.client else ""
        return Reading((), Outcome.PASS if said else Outcome.ERROR, said)
