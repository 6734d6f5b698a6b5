"""Findings of pre-flight checks, which run before anything is measured, and the result of all checks."""

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

    *check* names what was looked at. *hosts* are the hosts it is true of; none: the machine that runs fabric. *what* is
    wrong, *why* it matters, *advice* on what to do. No text names a host, so that equal findings can be merged.
    """

    check: str
    severity: Severity
    hosts: tuple[str, ...]
    what: str
    why: str
    advice: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A whole pre-flight: *hosts* were looked at; *findings* are merged, and the worst come first."""

    scenario: str | None
    inventory: str
    backend: str
    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    elapsed_s: float

    @property
    def exit_code(self) -> int:
        """Return 0 if nothing is wrong (warnings included), 1 for problems, 3 if something could not be checked."""
        found = {finding.severity for finding in self.findings}
        if Severity.PROBLEM in found:
            return 1
        return 3 if Severity.UNKNOWN in found else 0


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge equal findings with all their hosts; the worst first, then those of most hosts."""
    alike = gathered((replace(one, hosts=()), one.hosts) for one in findings)
    made = [replace(one, hosts=tuple(dict.fromkeys(chain(*hosts)))) for one, hosts in alike.items()]
    order = list(Severity)
    # Sorting is stable: equally bad findings stay in the order of the checks.
    return tuple(sorted(made, key=lambda one: (order.index(one.severity), -len(one.hosts))))
