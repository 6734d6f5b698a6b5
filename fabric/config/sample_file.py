"""``sample:`` of a scenario file: what is read on the hosts while the run works."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Duration
from fabric.model.fields.scalars import Flag
from fabric.model.sampling import SampleSettings

_DEFAULT = SampleSettings()


class SampleEntry(Entry):
    """What is sampled, and how often; without the key nothing is."""

    every: Annotated[int, Duration(1, 3600)] = Field(int(_DEFAULT.every_s), description="How often, 1s to 1h.")
    counters: Annotated[bool, Flag()] = Field(_DEFAULT.counters, description="Error counters of the RNICs' ports.")
    temperatures: Annotated[bool, Flag()] = Field(
        _DEFAULT.temperatures, description="Of RNICs, modules and GPUs; clocks of GPUs."
    )
    optics: Annotated[bool, Flag()] = Field(
        _DEFAULT.optics, description="Light received and sent (mlxlink -m, as root), five times less often."
    )

    def settings(self) -> SampleSettings:
        """The decoded entry."""
        return SampleSettings(float(self.every), self.counters, self.temperatures, self.optics)
