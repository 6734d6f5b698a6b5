"""Changes of real links over real SSH come back, whatever happens to the session, the guard, the undo or the run."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.lab.change_rack import END_S, FLAP, LEASE_S, LINK_DOWN, ChangeRack, ended
from benchmarks.lab.lab import SLOWER
from benchmarks.lab.namespaces import ip, until
from benchmarks.lab.sshd import children

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180 * SLOWER)]

_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """A host of the rack that nobody else uses now, and a results folder of its own."""

    rack: ChangeRack
    host: str
    results: Path
    runs: list[subprocess.Popen[str]]

    def start(self, change: str = LINK_DOWN, *, repeat: int = 1, more: str = "") -> subprocess.Popen[str]:
        """Begin a run."""
        scenario = self.rack.scenario(self.host, change, repeat=repeat, more=more)
        return self.begin(*self.rack.run_words(scenario, self.results))

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Begin ``fabric`` with some arguments; it does not outlive the test."""
        self.runs.append(self.rack.start(*words))
        return self.runs[-1]

    def closed_by(self, run: subprocess.Popen[str]) -> None:
        """Wait until a run has closed the link."""
        until(lambda: self.rack.closed(self.host) or run.poll() is not None, "the link is closed", timeout_s=60)
        assert run.poll() is None, ended(run)

    def killed_in_force(self) -> None:
        """Leave a closed link behind: its run is killed."""
        run = self.start(repeat=20)
        self.closed_by(run)
        run.kill()
        ended(run)

    def run(self, change: str = LINK_DOWN, *, more: str = "") -> tuple[int, str]:
        """A whole run: its exit code and all it said."""
        return ended(self.start(change, more=more))

    def restore(self, *words: str) -> tuple[int, str]:
        """``fabric restore`` of this place's runs, or with other arguments."""
        return ended(self.begin("restore", *(words or (f"--results={self.results}",))))

    def nothing_is_open(self) -> bool:
        """Whether ``fabric restore`` finds nothing to do."""
        code, said = self.restore()
        return code == 0 and said.startswith("no change is open")


@pytest.fixture
def place(change_rack: ChangeRack, tmp_path: Path) -> Iterator[Place]:
    """The next host in turn; when the test is over nothing may be left on it."""
    host = change_rack.hosts[next(_numbers) % len(change_rack.hosts)]
    place = Place(change_rack, host, tmp_path / "results", [])
    yield place
    for run in place.runs:
        run.kill()
        run.communicate(timeout=END_S)
    left = change_rack.live(host)
    change_rack.fail_to_open(host, 0)
    change_rack.open_by_hand(host)
    assert not left


def test_a_run_closes_a_real_link_and_opens_it_again(place: Place) -> None:
    """Three times, as the kernel counts it; what it forgets with the interface is there again."""
    space = ("-n", place.rack.lab.namespaces.of(place.host))
    ip(*space, "-6", "address", "replace", "2001:db8::11/64", "dev", "eth1", "nodad")
    ip(*space, "-4", "route", "replace", "198.18.0.0/15", "dev", "eth1", "table", "101")
    ip(*space, "-6", "route", "replace", "2001:db8:1::/48", "via", "2001:db8::1", "dev", "eth1", "metric", "7")
    kept = (
        ("-6", "address", "show", "scope", "global"),
        ("-4", "route", "show", "table", "101"),
        ("-6", "route", "show"),
    )
    there = [ip(*space, *what, "dev", "eth1") for what in kept]
    before = place.rack.times_down(place.host)
    code, said = place.run("port_flap: {{links: {host}/mlx5_0, down: 0.3s, count: 3, period: 0.6s}}")
    assert place.rack.times_down(place.host) == before + 3, said
    assert (code, "is taken back" in said) == (3, True), said
    assert all(there)
    assert [ip(*space, *what, "dev", "eth1") for what in kept] == there


def test_a_session_that_is_cut_does_not_lose_the_undo(place: Place) -> None:
    """The sshd processes of the session are killed: the run reconnects and takes the change back."""
    run = place.start(repeat=3)
    place.closed_by(run)
    kill_sessions(place.rack.lab.sshd[place.host].sessions())
    code, said = ended(run)
    assert (code, place.rack.live(place.host)) == (3, False), said
    assert place.nothing_is_open()


def test_a_host_whose_sshd_dies_takes_its_change_back_itself(place: Place) -> None:
    """Nobody can see it, so the run ends with 4; ``fabric restore`` sees it when the host answers again."""
    server = place.rack.lab.sshd[place.host]
    run = place.start(repeat=20)
    place.closed_by(run)
    sessions = server.sessions()
    server.stop()
    try:
        kill_sessions(sessions)
        until(lambda: not place.rack.live(place.host), "the guard has opened the link", timeout_s=LEASE_S + 20)
        code, said = ended(run)
        assert (code, "ip link set dev eth1 up" in said) == (4, True), said
        assert place.restore()[0] == 4
    finally:
        server.start()
    code, said = place.restore()
    assert (code, "taken back" in said) == (0, True), said
    assert place.nothing_is_open()


def test_a_dead_guard_of_a_dead_run_is_no_loss(place: Place) -> None:
    """Nobody is left to open the link: ``fabric restore`` does."""
    place.killed_in_force()
    kill_guard(place)
    assert place.rack.closed(place.host)
    code, said = place.restore()
    assert (code, place.rack.live(place.host)) == (0, False), said


def test_a_run_whose_guard_is_killed_takes_the_change_back(place: Place) -> None:
    """It notices when it renews the lease; the phase is not what was asked for."""
    run = place.start(repeat=20)
    place.closed_by(run)
    kill_guard(place)
    code, said = ended(run)
    assert (code, place.rack.live(place.host)) == (3, False), said
    assert "its guard took it back before its time" in said or "gone" in said, said


def test_an_undo_that_fails_at_first_is_tried_again(place: Place) -> None:
    """By the run and by its guard, until the link is open."""
    place.rack.fail_to_open(place.host, 3)
    code, said = place.run()
    assert (code, "is taken back" in said) == (3, True), said


def test_an_undo_that_never_works_is_said_until_it_does(place: Place) -> None:
    """Exit 4 of the run, of a new run and of ``fabric restore``, with the command; 0 when the cause is gone."""
    place.rack.fail_to_open(place.host, 100_000)
    code, said = place.run()
    assert (code, "ip link set dev eth1 up" in said) == (4, True), said
    code, said = place.run()
    assert (code, "fabric restore" in said) == (4, True), said
    code, said = place.restore()
    assert (code, "LIVE" in said) == (4, True), said
    assert place.rack.closed(place.host)
    place.rack.fail_to_open(place.host, 0)
    assert place.restore()[0] == 0
    assert place.nothing_is_open()


def test_two_orchestrators_on_one_host(place: Place, tmp_path: Path) -> None:
    """The second measures nothing and says whose change is held; the first is not disturbed."""
    first = place.start(repeat=20)  # the second is over long before
    place.closed_by(first)
    owner = next(place.rack.guards_of(place.host).glob("[!.]*/owner")).read_text().strip()
    code, said = replace(place, results=tmp_path / "other").run(more="allow: [isolate]\n")
    assert (code, f" of {owner} is " in said) == (4, True), said
    assert place.rack.closed(place.host)
    first.send_signal(signal.SIGINT)
    code, said = ended(first)
    assert (code, "is taken back" in said) == (3, True), said


def test_restore_asks_the_guards_of_all_hosts(place: Place) -> None:
    """Without any journal, at once and not when the lease runs out."""
    place.killed_in_force()
    code, said = place.restore("--all-hosts", f"--inventory={place.rack.inventory_file}")
    assert (code, "taken back" in said) == (0, True), said
    assert not place.rack.live(place.host)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("change", [LINK_DOWN, FLAP], ids=["link_down", "port_flap"])
def test_an_interrupted_run_leaves_nothing(place: Place, times: int, change: str) -> None:
    """Ctrl-C once, twice and three times, one soon after the other: exit 3, and everything is back."""
    run = place.start(change, repeat=20)
    place.closed_by(run)
    for _ in range(times):
        run.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(0.1)
    code, said = ended(run)
    # One that comes when all is done and the process is about to end is not caught any more.
    assert code == 3 or (times > 1 and code == -signal.SIGINT), said
    assert not place.rack.live(place.host), said
    assert "is taken back" in said, said


def test_the_interface_that_carries_ssh_is_refused(place: Place) -> None:
    """The RNIC is on eth0."""
    code, said = place.run("link_down: {{links: {host}/mlx5_1}}")
    assert (code, "carries the session through eth0" in said) == (3, True), said


@pytest.mark.parametrize("kind", [("bridge",), ("bond", "mode", "active-backup")], ids=["bridge", "bond"])
def test_what_the_session_interface_is_stacked_on_is_refused(place: Place, kind: tuple[str, ...]) -> None:
    """The RNIC's eth0 is only a member of what has the address."""
    with stacked(place, kind):
        code, said = place.run("link_down: {{links: {host}/mlx5_1}}")
    assert (code, "carries the session through top0" in said) == (3, True), said


def kill_sessions(pids: list[int]) -> None:
    """SIGKILL to sshd's processes of some connections; what runs in them is left to see that it is alone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            below = [child for child in children(pid) if Path(f"/proc/{child}/comm").read_text().startswith("sshd")]
            os.kill(pid, signal.SIGKILL)
            kill_sessions(below)


def kill_guard(place: Place) -> None:
    """SIGKILL to the guard of a host's change."""
    (path,) = place.rack.guards_of(place.host).glob("[!.]*/pid")
    pid = int(path.read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "the guard is dead")


def alive(pid: int) -> bool:
    """A process of this number is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def stacked(place: Place, kind: tuple[str, ...]) -> Iterator[None]:
    """The host's address is on ``top0``, of which eth0 is a member."""
    address = f"{place.rack.lab.addresses[place.host]}/24"
    inside = ("-n", place.rack.lab.namespaces.of(place.host))
    try:
        ip(*inside, "link", "add", "top0", "type", *kind)
    except OSError as exc:
        pytest.skip(f"this kernel has no {kind[0]}: {exc}")
    try:
        ip(*inside, "address", "delete", address, "dev", "eth0")
        ip(*inside, "link", "set", "eth0", "down")
        ip(*inside, "link", "set", "eth0", "master", "top0")
        ip(*inside, "address", "add", address, "dev", "top0")
        ip(*inside, "link", "set", "eth0", "up")
        ip(*inside, "link", "set", "top0", "up")
        yield
    finally:
        ip(*inside, "link", "delete", "top0")
        ip(*inside, "address", "add", address, "dev", "eth0")
        ip(*inside, "link", "set", "eth0", "up")
