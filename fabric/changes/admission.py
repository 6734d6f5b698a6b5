"""All that can refuse a change: looked at before the first probe of its phase, and again when it comes due."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from fabric.changes.company import HANDOVER_S, Company
from fabric.changes.isolation import Unhealthy, list_before
from fabric.changes.kind import Context, Kind
from fabric.changes.procedure import Procedure, pause
from fabric.changes.rails import check_rails
from fabric.errors import Refused
from fabric.model.change import Alteration, Change

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """
    A change that nothing refuses: what is to be done, and what its host and UFM looked like before.

    *other_paths* are RNICs of its host that were seen active beside it, None where it needs none.
    """

    alterations: tuple[Alteration, ...]
    other_paths: frozenset[str] | None
    unhealthy: Unhealthy | None


@dataclass(frozen=True, slots=True)
class Admission:
    """Looks at one change; *company* knows the others of its phase."""

    change: Change
    kind: Kind
    context: Context
    allow: Collection[str]
    company: Company

    def look(self) -> Procedure[Admitted]:
        """Before the first probe, while nothing of ours runs on the hosts; raises Refused."""
        found = yield from self._look(ours_run=False)
        self.company.join(self.change, found.other_paths)
        return found

    def look_again(self) -> Procedure[Admitted]:
        """When it is due: what was seen may have changed. Processes of our own probes are not somebody's job."""
        return (yield from self._look(ours_run=True))

    def begin(self, found: Admitted, *, clock: Callable[[], float], stopped: Callable[[], bool]) -> Procedure[None]:
        """
        Take its place among those that are live; waits a while for those that are late. Raises Refused after that.

        The plan has room for all (else the look had refused), so whoever is in the way should have been taken back.
        """
        until_s = clock() + HANDOVER_S
        while not stopped():
            wrong = self.company.begin(self.change, found.other_paths)
            if not wrong:
                return
            if clock() >= until_s:
                raise Refused(wrong)
            yield from pause(min(clock() + _LOOK_S, until_s))

    def _look(self, *, ours_run: bool) -> Procedure[Admitted]:
        alterations = yield from self.kind.prepare(self.change, self.context)
        paths = yield from check_rails(self.change, alterations, self.context, self.allow, ours_run=ours_run)
        return Admitted(alterations, paths, (yield from list_before(self.change, self.context)))
