"""PFC and DCQCN of RNICs: what is written, read back and given back; the shell text itself, on files of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from fabric.changes.congestion import NAME, Dcqcn, Pfc
from fabric.changes.procedure import Pause
from fabric.errors import NotInForce, Refused
from fabric.model.change import Change, ChangeSettings, Lease
from tests.builders import asked as asked_run
from tests.builders import on_mock
from tests.changes.asked import asked
from tests.changes.played import Played, change, topology
from tests.changes.test_hold import begun
from tests.places import INVENTORY, ROOT

TEXT = (ROOT / "fabric" / "changes" / "sh" / "congestion.sh").read_text()


def played() -> Played:
    """Hosts with PFC and DCQCN on for priority 3, the class that the simulated fabric keeps lossless."""
    return Played(ChangeSettings(), world=topology(link_layer="ethernet"), lossless_class=106)


def pfc(on: bool) -> Change:
    """Of one host."""
    return change("pfc", "gpu001", scope="fabric", hosts=("gpu001",), pfc=on, priority=3)


def dcqcn(**keys: object) -> Change:
    """Of one host."""
    return change("dcqcn", "gpu001", scope="host", hosts=("gpu001",), **keys)


@pytest.mark.parametrize(
    ("planned", "back"),
    [
        (pfc(False), ["pfc/3=1"]),
        (dcqcn(priority=3, np=False, rp=False), ["np/3=1", "rp/3=1"]),
        (dcqcn(knobs={"rp_ai_rate": 40}), ["rp_ai_rate=5"]),
    ],
)
def test_every_rnic_is_changed_and_given_back_what_it_had(planned: Change, back: list[str]) -> None:
    """The undo writes what was seen; before the change it is not said to be in force, after the undo not either."""
    rack = played()
    (alteration,) = rack.prepare(planned)
    assert len(alteration.apply) == len(alteration.undo) == len(alteration.checks) == 8
    assert list(alteration.undo[0][-len(back) :]) == back
    with pytest.raises(NotInForce, match="gpu001/mlx5_0"):
        rack.confirm(planned, (alteration,))
    rack.there_and_back(planned, (alteration,))
    assert rack.prepare(planned) == (alteration,)


def test_what_is_so_already_is_not_written() -> None:
    """Neither PFC that is on, nor a knob with that value; of two only the other one."""
    rack = played()
    assert rack.prepare(pfc(True)) == ()
    (alteration,) = rack.prepare(dcqcn(priority=3, np=True, rp=False))
    assert alteration.apply[0][-1] == "rp/3=0"


def test_what_is_not_told_is_refused() -> None:
    """Another driver has no such file."""
    rack = played()
    rack.answers["gpu001 sh"] = ("pfc/3=1\n", "", 0)
    with pytest.raises(Refused, match="does not tell rp_ai_rate"):
        rack.prepare(dcqcn(knobs={"rp_ai_rate": 40}))


def test_in_words() -> None:
    """As a plan and a report say it."""
    assert str(asked("pfc", pfc=False, priority=3, scope="fabric")) == "PFC of priority 3 off"
    assert str(asked("dcqcn", priority=3, np=False, knobs={"rp_gd": 7})) == "NP of priority 3 off, rp_gd 7"
    assert not Pfc.is_fault
    assert Dcqcn.model_fields["scope"].default == "host"


FELT = """\
name: felt
inventory: {inventory}
hosts: gpu[001-002]
phases:
  - name: p
    changes:
      - retransmission: {{{asked}}}
      - {other}
    env: {{NCCL_IB_TIMEOUT: 10}}
    probes: [{{concurrent_rings: {{groups_of: 2, sizes: [8G], iterations: 400, told: true}}}}]
"""
LOSSY = "ber: {links: gpu001/mlx5_0, effective: 1e-7, direction: up}"
FLAP = "port_flap: {links: gpu001/mlx5_0, down: 0.5s, at: 10s}"


@pytest.mark.parametrize(
    ("asked_for", "other", "least", "most"),
    [
        ("selective_repeat: off", LOSSY, 900, 1200),
        ("selective_repeat: on", LOSSY, 1400, 1600),
        ("short_timeouts: off", FLAP, 1200, 1600),  # 8 x 0.54 s is longer than the link is away
        ("short_timeouts: on", FLAP, None, None),  # 8 x 4 ms is not
    ],
)
def test_how_rnics_send_again_is_felt(
    tmp_path: Path, asked_for: str, other: str, least: float | None, most: float | None
) -> None:
    """By a job on a cable that loses packets, and by one whose cable is out for a while."""
    scenario = tmp_path / "felt.yaml"
    scenario.write_text(FELT.format(inventory=INVENTORY / "roce-64.yaml", asked=asked_for, other=other))
    (probe,) = on_mock(asked_run(scenario), tmp_path).verdict.probes
    if least is None or most is None:
        assert probe.value_gbps is None
    else:
        assert least < (probe.value_gbps or 0.0) < most


BEFORE = {"pfc/3": 1, "np/3": 1, "rp/3": 1, "rp_ai_rate": 5}
KILLED = {"pfc": pfc(False), "dcqcn": dcqcn(priority=3, np=False, rp=False, knobs={"rp_ai_rate": 40})}


def altered(rack: Played) -> list[str]:
    """What is not as it was, by the RNICs themselves."""
    ports = rack.world.rack.ports.known
    return [
        f"{port.end} {name}" for port in ports for name, was in BEFORE.items() if port.registers.get(name, was) != was
    ]


def left(planned: Change, *, at: int, delivered: bool) -> tuple[bool, list[str]] | None:
    """
    Whether something was altered when a run was killed at its *at*-th step, and what is when all leases are over.

    None: it had ended by then.

    *delivered*: the command of that step was carried out, and nobody heard its answer.
    """
    rack = Played(ChangeSettings(lease=Lease(60.0, 600.0)), world=topology(link_layer="ethernet"), lossless_class=106)
    hold = begun(rack, planned)
    procedure, answer = hold.procedure(), None
    for number in range(at + 1):
        try:
            step = procedure.send(answer)
        except StopIteration:
            return None
        if number == at and not delivered:
            break
        if isinstance(step, Pause):
            hold.signal.stop = rack.now_s > 200.0
            answer = rack.wait(min(step.until_s, rack.now_s + 30.0))
        else:
            answer = rack.ask(step.host, step.argv)
    live = bool(altered(rack))
    rack.wait(rack.now_s + 800.0)
    return live, altered(rack)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KILLED)
def test_nothing_is_left_wherever_its_run_is_killed(kind: str) -> None:
    """Before or after each command of its whole life: the guard undoes it when the lease is over."""
    kills = []
    for at in range(1000):
        found = [left(KILLED[kind], at=at, delivered=delivered) for delivered in (False, True)]
        kills += [one for one in found if one is not None]
        if None in found:
            break
    assert len(kills) >= 100
    assert sum(live for live, _ in kills) >= 50
    assert [still for _, still in kills if still] == []


class Port:
    """A port whose files are in a folder, with a ``dcb`` that keeps one priority's PFC; *stuck*: nothing can be set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path, value in (
            ("infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth1"),
            ("net/eth1/ecn/roce_np/enable/3", "1"),
            ("debug/0000:0c:00.0/cc_params/rp_ai_rate", "5"),
        ):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(f"{value}\n")
        (folder / "infiniband" / "mlx5_0" / "device").symlink_to(folder / "0000:0c:00.0")
        (folder / "pfc").write_text("on")
        dcb = folder / "dcb"
        dcb.write_text(
            f'#!/bin/sh\ncase $2 in set) [ "${{6%:*}}" = 3 ] || exit 1; printf %s "${{6#*:}}" >{folder}/pfc ;;\n'
            f'*) echo "prio-pfc 0:off 1:off 2:off 3:$(cat {folder}/pfc) 4:off 5:off 6:off 7:off" ;; esac\n'
        )
        dcb.chmod(0o755)
        text = TEXT.replace("/sys/kernel/debug/mlx5", str(folder / "debug"))
        self.text = text.replace("/sys/class/infiniband", str(folder / "infiniband")).replace(
            "/sys/class/net", str(folder / "net")
        )

    def run(self, *words: str) -> tuple[int, str]:
        """Exit status and all that is said."""
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        argv = ("sh", "-c", self.text, NAME, *words)
        ended = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=20, check=False)
        return ended.returncode, ended.stdout + ended.stderr


def test_the_shell_text_shows_sets_and_reads_back(tmp_path: Path) -> None:
    """All three ways, twice over; what is not there is not shown and cannot be set; no interface is an error."""
    port = Port(tmp_path)
    names = ("pfc/3", "np/3", "rp_ai_rate", "rp_gd")
    assert port.run("show", "mlx5_0", "1", *names) == (0, "pfc/3=1\nnp/3=1\nrp_ai_rate=5\n")
    for _ in range(2):
        assert port.run("set", "mlx5_0", "1", "pfc/3=0", "np/3=0", "rp_ai_rate=40") == (0, "")
        assert port.run("show", "mlx5_0", "1", *names) == (0, "pfc/3=0\nnp/3=0\nrp_ai_rate=40\n")
    assert port.run("set", "mlx5_0", "1", "pfc/3=1", "np/3=1", "rp_ai_rate=5") == (0, "")
    assert port.run("show", "mlx5_0", "1", *names) == (0, "pfc/3=1\nnp/3=1\nrp_ai_rate=5\n")
    status, said = port.run("set", "mlx5_0", "1", "pfc/4=1")
    assert (status, "pfc/4 cannot be set" in said) == (1, True)
    assert port.run("show", "mlx5_9", "1", "pfc/3") == (1, "fabric-rnic: mlx5_9 has no interface\n")


def test_a_value_that_does_not_stay_is_an_error(tmp_path: Path) -> None:
    """A driver that takes a write and does otherwise is read back."""
    port = Port(tmp_path)
    (tmp_path / "tee").write_text("#!/bin/sh\ncat >/dev/null\n")
    (tmp_path / "tee").chmod(0o755)
    assert port.run("set", "mlx5_0", "1", "np/3=0") == (1, "fabric-rnic: mlx5_0: np/3 is 1, not 0\n")
