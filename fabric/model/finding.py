"""What a pre-flight check found before anything was measured, and all of it together."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain

from fabric.model import gathered


class Severity(Enum):
    """
    What a finding means for the scenario, the worst first.

    PROBLEM: it would fail, or its numbers would be wrong. UNKNOWN: it could not be checked. WARNING: worth knowing.
    """

    PROBLEM = "problem"
    UNKNOWN = "unknown"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One thing that is not as it should be.

    *check* names what was looked at. *hosts* are those it is true of; none: the machine that runs fabric. *what* is
    wrong, *why* it matters, *advice* is what to do. No text names a host, so that equal findings can be folded.
    """

    check: str
    severity: Severity
    hosts: tuple[str, ...]
    what: str
    why: str
    advice: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A whole pre-flight: *hosts* were looked at, *findings* are folded and the worst come first."""

    scenario: str | None
    inventory: str
    backend: str
    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    elapsed_s: float

    @property
    def exit_code(self) -> int:
        """0 nothing is wrong (warnings included), 1 there are problems, 3 something could not be checked."""
        found = {finding.severity for finding in self.findings}
        if Severity.PROBLEM in found:
            return 1
        return 3 if Severity.UNKNOWN in found else 0


def folded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Equal findings as one, with all their hosts; the worst first, then what is true of most hosts."""
    alike = gathered((replace(one, hosts=()), one.hosts) for one in findings)
    made = [replace(one, hosts=tuple(dict.fromkeys(chain(*hosts)))) for one, hosts in alike.items()]
    order = list(Severity)
    # Sorting is stable: what is equally bad stays in the order of the checks.
    return tuple(sorted(made, key=lambda one: (order.index(one.severity), -len(one.hosts))))
