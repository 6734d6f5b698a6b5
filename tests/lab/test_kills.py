"""Whatever kills or stops a run, and whenever: real sshd, real links, and nothing is left of its changes."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import pytest

from benchmarks.lab.change_rack import ChangeRack
from benchmarks.lab.kills import Victims, on_all
from benchmarks.lab.lab import SLOWER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400 * SLOWER)]

KILLS = 24


def test_nothing_is_left_of_runs_killed_at_any_instant(
    change_rack: ChangeRack, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL at random instants: after the lease and 3 s no link is closed and no guard holds anything."""
    victims = Victims(change_rack, seed=1)
    on_all(change_rack.hosts, victims.live, len(change_rack.hosts))
    deaths = on_all(change_rack.hosts, victims.kill, KILLS)
    live_s = [death.revert_s for death in deaths if death.live]
    with capsys.disabled():
        worst_s, median_s = max(live_s, default=0.0), statistics.median(live_s or [0.0])
        sys.stdout.write(f"\n{len(deaths)} kills, {len(live_s)} with a change; gone after the death: ")
        sys.stdout.write(f"worst {worst_s:.2f} s, median {median_s:.2f} s\n")
    assert len(deaths) == KILLS
    assert [death for death in deaths if death.left] == []
    assert len(live_s) >= KILLS // 10, "hardly any run was killed while its change was live: this proves nothing"


def test_a_run_that_was_paused_beyond_its_lease_alters_nothing_any_more(change_rack: ChangeRack) -> None:
    """SIGSTOP, armed and not yet applied or later, then SIGCONT: its guard has taken it back, and no apply follows."""
    victims = Victims(change_rack, seed=2)

    def armed(host: str) -> bool:
        return bool(change_rack.held(host))

    instants: dict[str, Callable[[str], bool]] = dict.fromkeys(change_rack.hosts[:3], armed)
    instants |= dict.fromkeys(change_rack.hosts[3:5], change_rack.closed)
    thaws = on_all(tuple(instants), lambda host: victims.pause(host, once=instants[host]), len(instants))
    assert all(thaw.armed for thaw in thaws), thaws
    assert [thaw for thaw in thaws if thaw.late or thaw.left] == []
    assert {thaw.exit_code for thaw in thaws} == {3}
