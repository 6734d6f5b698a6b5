"""
links.jsonl: what both ends of every cable counted and how they stood, written as samples are (``runs/samples.py``).

A reading's *host* is the switch or the host, its *part* the number of the switch's port or the RNIC. Beside them stand
the cables as they were found, which port is joined with which, and why a look at them failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from fabric.model.sampling import Samples
from fabric.runs.plain_file import is_there
from fabric.runs.samples import SampleLog, notes, read_samples

FILE = "links.jsonl"

End = tuple[str, str]
"""A port: the switch and its number (``("spine02", "4")``), or the host and the RNIC."""

_CABLE, _FAILED, _MODULE = "cable", "failed", "module"


@dataclass(frozen=True, slots=True)
class LinkModule:
    """
    What is plugged in at an end, as it was last read, its own alarm limits, and below which light it warns (dBm).

    None: it does not say. ``mlxlink`` tells no warning limits.
    """

    vendor: str | None = None
    part_number: str | None = None
    serial: str | None = None
    firmware: str | None = None
    rx_low_dbm: float | None = None
    rx_high_dbm: float | None = None
    tx_low_dbm: float | None = None
    tx_high_dbm: float | None = None
    rx_warn_dbm: float | None = None
    tx_warn_dbm: float | None = None


@dataclass(frozen=True, slots=True)
class LinkSamples:
    """
    What was read of the links of a run: courses by end and name, the cables as they were found, each end's partner.

    *modules*: what is plugged in at an end. *failed*: why a look at them failed, the last one; empty where each
    succeeded.
    """

    samples: Samples = field(default_factory=lambda: Samples(0.0, {}))
    cables: tuple[tuple[End, End], ...] = ()
    modules: Mapping[End, LinkModule] = field(default_factory=dict)
    failed: str = ""


_FIELDS = {one.name for one in fields(LinkModule)}


class LinkLog(SampleLog):
    """Appends what a look at all links found."""

    def __init__(self, run: Path, every_s: float) -> None:
        super().__init__(run / FILE, every_s)
        self._told: set[frozenset[End]] = set()
        self._modules: dict[End, LinkModule] = {}

    def joined(self, cables: Iterable[tuple[End, End]]) -> None:
        """These ports are joined; each pair is written once."""
        for one, other in cables:
            key = frozenset((one, other))
            if key not in self._told:
                self._told.add(key)
                self.note(_CABLE, [*one, *other])

    def plugged(self, end: End, module: LinkModule) -> None:
        """This module is in this end; written when more or something else is known of it than before."""
        before = self._modules.get(end, module)
        if before.serial == module.serial:  # who asks differently hears of other things
            known = {name: value for name, value in asdict(module).items() if value is not None}
            module = replace(before, **known)
        if self._modules.get(end) != module:
            self._modules[end] = module
            self.note(_MODULE, [*end, asdict(module)])

    def failed(self, reason: str) -> None:
        """A look at the links failed for this reason."""
        self.note(_FAILED, reason)


def read_links(run: Path) -> LinkSamples | None:
    """None where nobody looked. Raises StoreError for a file that is not as this version writes it."""
    if not is_there(run / FILE):
        return None
    cables: dict[tuple[End, End], None] = {}
    modules: dict[End, LinkModule] = {}
    failed = ""
    for kind, said in notes(run / FILE):
        match kind, said:
            case "cable", [str(node), str(part), str(other), str(other_part)]:
                cables[(node, part), (other, other_part)] = None
            case "module", [str(node), str(part), dict(said_of)] if said_of.keys() <= _FIELDS:
                modules[node, part] = LinkModule(**said_of)
            case "failed", str(reason):
                failed = reason
    return LinkSamples(read_samples(run, file=FILE), tuple(cables), modules, failed)
