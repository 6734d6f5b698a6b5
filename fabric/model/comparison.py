"""The result of comparing two runs: what became better or worse, by component."""

from dataclasses import dataclass
from enum import Enum

WHOLE = "everything"
"""The component that every probe passes through."""


class Difference(Enum):
    """How a part changed from one run to the other, worst first."""

    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
    SAME = "same"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Compared:
    """
    The comparison of one component, for one kind of probe and one message size.

    *ratio* is the median of the second run's results over the first's; *low* and *high* bound its 99 % interval; None
    if there is no such number. *n* counts the ratios. *note* says what the numbers do not.
    """

    component: str
    kind: str
    size_bytes: int | None
    change: Difference
    n: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    Two runs compared: *rows* has every component, the worst first.

    *common* counts the probes that both runs measured. *only_first*, *only_second*: what only one of them asked for or
    measured, in words; *in_neither*: what was asked for and has no number to compare in either. *unmeasured* counts
    the probes that a run was to measure and that not both measured: nothing tells whether they changed.
    *measured_first*, *measured_second* count the probes that each run measured, or in which the fabric failed; *common*
    may be a small part of them.
    """

    rows: tuple[Compared, ...]
    common: int
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    in_neither: tuple[str, ...] = ()
    unmeasured: int = 0
    measured_first: int = 0
    measured_second: int = 0

    @property
    def change(self) -> Difference:
        """Return the worst of all; SAME or BETTER only if both runs measured everything that either was to measure."""
        found = {row.change for row in self.rows}
        if Difference.WORSE in found:
            return Difference.WORSE
        if Difference.INCONCLUSIVE in found or self.unmeasured or not self.rows:
            return Difference.INCONCLUSIVE
        return Difference.BETTER if Difference.BETTER in found else Difference.SAME
