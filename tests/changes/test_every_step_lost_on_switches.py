"""The promises of test_every_step_lost on RoCE: three switches with NVUE, and a register of every RNIC of a host."""

from dataclasses import replace
from functools import partial

import pytest

from fabric.changes import nvue
from fabric.changes.adaptive_routing import AdaptiveRouting
from fabric.changes.congestion import Dcqcn, Pfc
from fabric.changes.procedure import Procedure
from fabric.changes.rnics import SELECTIVE_REPEAT, Retransmission
from fabric.changes.switch_qos import SwitchQos
from fabric.model.change import Change, ChangeSettings, Check, Lease, When
from fabric.model.inventory import MockSettings
from fabric.sim.world import World
from fabric.tools import switch_qos
from tests.changes import test_every_step_lost as steps
from tests.changes.played import change
from tests.changes.roce import LOSSLESS, SWITCHES, TOLD, roce, switch_of

KIND, OF_HOST = "adaptive routing", "retransmission"
OF_RNICS = ("pfc", "dcqcn")


class Passing(Retransmission):
    """One that ends before its phase, which no scenario can ask for."""

    @property
    def when(self) -> When:
        """For 20 s."""
        return steps.FOR


def resends() -> Change:
    """Of one host."""
    asked = change("retransmission", "gpu001", hosts=("gpu001",), scope="host", selective_repeat=True)
    return replace(asked, spec=Passing(selective_repeat=True))


class PassingPfc(Pfc):
    """The same of PFC."""

    when = Passing.when


class PassingDcqcn(Dcqcn):
    """The same of DCQCN."""

    when = Passing.when


def congested(kind: str) -> Change:
    """Of the RNICs of one host, whose class is lossless in no simulated fabric here: PFC and NP go on."""
    if kind == "pfc":
        asked = change("pfc", "gpu001", hosts=("gpu001",), scope="fabric", pfc=True, priority=3)
        return replace(asked, spec=PassingPfc(on=True, priority=3, scope="fabric"))
    knobs = {"rp_ai_rate": 40}
    asked = change("dcqcn", "gpu001", hosts=("gpu001",), scope="host", priority=3, np=True, knobs=knobs)
    return replace(asked, spec=PassingDcqcn(priority=3, np=True, knobs=knobs))


BEFORE = {"pfc/3": 0, "np/3": 0, "rp_ai_rate": 5}


def altered(world: World) -> list[str]:
    """What is not as it was, by the switches and RNICs themselves."""
    ports = world.rack.ports.known
    found = [f"{port.end} sends otherwise" for port in ports if port.registers.get(SELECTIVE_REPEAT)]
    found += [
        f"{port.end}: {name}" for port in ports for name, was in BEFORE.items() if port.registers.get(name, was) != was
    ]
    for told in TOLD.values():
        found += [f"{name}: {value}" for name, value in told.values(world).items() if value is not None]
    found += [f"{name} has edits" for name in SWITCHES if switch_of(world, name).changes()]
    return found + [f"{name} waits" for name in SWITCHES if switch_of(world, name).waits is not None]


def nothing_seen(*_: object) -> Procedure[None]:
    """A last look that is content."""
    yield from ()


@pytest.fixture(autouse=True)
def on_switches(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The same lives, on another fabric; with a lossless class where its switches are told of it."""
    kind = getattr(request.node, "callspec", None) and request.node.callspec.params["kind"]
    if kind in TOLD:
        monkeypatch.setattr(steps, "MockSettings", partial(MockSettings, lossless_class=LOSSLESS))
    monkeypatch.setattr(steps, "RACK", roce())
    monkeypatch.setattr(steps, "SETTINGS", ChangeSettings(lease=Lease(60.0, 600.0)))
    monkeypatch.setattr(
        steps,
        "CHANGES",
        {
            **{kind: told.change() for kind, told in TOLD.items()},
            OF_HOST: resends(),
            **{one: congested(one) for one in OF_RNICS},
        },
    )
    monkeypatch.setattr(steps, "altered", altered)
    steps.commands_of.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mishap"),
    [
        pytest.param(
            kind, mishap, marks=() if kind in (OF_HOST, *OF_RNICS) or mishap in steps.EVERY else pytest.mark.slow
        )
        for kind in (*TOLD, OF_HOST, *OF_RNICS)
        for mishap in steps.MISHAPS
    ],
)
def test_it_is_never_said_to_be_over_while_it_is_live_whatever_happens_to_one_command(kind: str, mishap: str) -> None:
    assert steps.each_step(kind, steps.MISHAPS[mishap], onwards=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*TOLD, OF_HOST, *OF_RNICS])
@pytest.mark.parametrize("mishap", steps.FOR_GOOD)
def test_it_is_never_said_to_be_over_while_it_is_live_though_nothing_answers_from_one_command_on(
    kind: str, mishap: str
) -> None:
    assert steps.each_step(kind, steps.MISHAPS[mishap], onwards=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOLD)
def test_an_undo_that_only_looks_done_is_caught(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    kept, blind = nvue.shell, Check(switch_qos.ROCE, ("enable",))
    monkeypatch.setattr(nvue, "shell", lambda verb, *words: ("true",) if verb == "commit" else kept(verb, *words))
    monkeypatch.setattr("fabric.tools.nvue.equals", lambda setting: f'"{setting.key}"')
    monkeypatch.setattr("fabric.changes.switch_qos.Check", lambda argv, patterns: blind)
    for one in (AdaptiveRouting, SwitchQos):
        monkeypatch.setattr(one, "still_in_force", nothing_seen)  # it would be caught there
    wrong = steps.each_step(kind, steps.MISHAPS["says nothing"], onwards=False)
    assert any(f"leaf0: {TOLD[kind].becomes}" in one for one in wrong)
