"""A port that UFM isolates because of our own fault is given back, however the fault ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fabric.changes.hold import Hold
from fabric.changes.procedure import Ask, Pause
from fabric.changes.restore import intent_of, list_before, take_back, take_off_list
from fabric.errors import ToolError
from fabric.model.change import ChangeSettings
from tests.changes.played import VIA, Played, change
from tests.changes.test_hold import begun, held

URL = "https://ufm.example"
UFM = replace(VIA, ufm_url=URL, ufm_ca="/etc/pki/ufm.pem")
FAULT = change("ber", "leaf1--spine0", for_=300.0, effective="1e-6", direction="up")


@pytest.fixture
def rack() -> Played:
    """UFM isolates, a minute after the first errors."""
    return Played(UFM, ufm_isolates=True)


def listed(rack: Played) -> list[str]:
    """What is on UFM's list."""
    return [entry["UnhealthyPort"] for entry in json.loads(rack.world.rack.ufm.listing())]


def list_by_hand(rack: Played) -> str:
    """Somebody else isolates a port of another cable; its name."""
    ports = rack.world.rack.ports
    node = next(one for one in ports.cabling.nodes.values() if one.name == "leaf3")
    number = next(end[1] for end in ports.cabling.ends(node) if ports.has_link(end))
    name = f"{node.guid:016x}_{number}"
    assert rack.world.rack.ufm.put(json.dumps({"ports": [name], "ports_policy": "UNHEALTHY"}), rack.now_s) is None
    return name


@pytest.mark.parametrize("hurry", [False, True])
def test_it_is_given_back_when_the_run_stops_in_order_or_in_a_hurry(rack: Played, hurry: bool) -> None:
    theirs = list_by_hand(rack)
    seen: list[list[str]] = []

    def stop(hold: Hold, step: Pause) -> float:
        if hold.in_force and rack.now_s > 80.0 and not hold.signal.stop:
            seen.append(listed(rack))
            hold.signal.stop, hold.signal.hurry = True, hurry
        return min(step.until_s, rack.now_s + 5.0)

    hold = held(rack, FAULT, on_pause=stop)
    assert hold.state == "reverted", hold.reason
    assert len(seen[0]) == 2
    assert listed(rack) == [theirs]


@pytest.mark.parametrize(("times", "state"), [(4, "reverted"), (5, "open")])
def test_a_list_that_cannot_be_read_is_asked_again_before_it_is_open(rack: Played, times: int, state: str) -> None:
    unread: list[tuple[str, ...]] = []

    def curl(words: tuple[str, ...]) -> tuple[str, str, int] | None:
        if rack.entries and rack.entries[-1][0] == "in_force" and len(unread) < times:
            unread.append(words)
            return "garbage", "", 0
        return None

    rack.answers["gpu004 curl"] = curl
    hold = held(rack, replace(FAULT, spec=FAULT.spec.model_copy(update={"for_s": 20.0})))
    assert (hold.state, len(unread)) == (state, times), hold.reason
    if state == "open":
        ends = [end for end in rack.entries[0][1]["unhealthy"]["ends"] if end in hold.reason]
        assert len(ends) == 2
        assert hold.reason.startswith("by hand: on gpu004: curl ")
        assert "PUT" in hold.reason
        assert "PTER" not in hold.reason


def killed(rack: Played) -> Mapping[str, Any]:
    """The orchestrator is gone after 80 s, the guard takes the fault back; what the journal's intent says."""
    procedure, answer = begun(rack, FAULT).procedure(), None
    while rack.now_s < 80.0:
        step = procedure.send(answer)
        answer = rack.ask(step.host, step.argv) if isinstance(step, Ask) else rack.wait(step.until_s)
    rack.wait(rack.now_s + 120.0)
    (intent,) = (fields for state, fields in rack.entries if state == "intent")
    return intent


def restored(rack: Played, intent: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """What ``fabric restore`` does with it."""
    told: list[tuple[str, str, bool]] = []
    for left in intent_of(intent).guarded:
        rack.run(take_back(left, lambda *said: told.append(said)))
    rack.run(take_off_list(intent_of(intent).list_was, lambda *said: told.append(said)))
    return told


def test_restore_gives_it_back_after_the_guard_has_taken_the_fault_back(rack: Played) -> None:
    theirs = list_by_hand(rack)
    intent = killed(rack)
    assert len(listed(rack)) == 2
    told = restored(rack, intent)
    assert listed(rack) == [theirs]
    assert ("gpu004", True) in [(host, certain) for host, said, certain in told if "taken off UFM's list" in said]


def test_restore_says_so_when_the_list_cannot_be_asked(rack: Played) -> None:
    intent = killed(rack)
    rack.answers["gpu004 curl"] = ("", "curl: (7) Failed to connect\n", 7)
    assert [certain for _, said, certain in restored(rack, intent) if "isolated still" in said] == [False]


def test_what_a_person_has_put_on_the_list_meanwhile_stays_on_it(rack: Played) -> None:
    intent = killed(rack)
    (name,) = listed(rack)
    ufm, now_s = rack.world.rack.ufm, rack.now_s
    for policy in ("HEALTHY", "UNHEALTHY"):
        assert ufm.put(json.dumps({"ports": [name], "ports_policy": policy}), now_s) is None
    restored(rack, intent)
    assert listed(rack) == [name]


def asked_before(settings: ChangeSettings) -> tuple[str, ...]:
    """How UFM is asked for its list before a change."""
    rack = Played(settings, ufm_isolates=True)
    rack.run(list_before(FAULT, rack.context))
    return next(argv for _, argv in rack.asked if argv[0] == "curl")


def test_ufm_with_its_own_certificate_is_asked_when_the_inventory_says_whom_to_believe() -> None:
    """As UFM is shipped: without a word of it nothing is altered, and the reason names the key."""
    with pytest.raises(ToolError, match=r"exit 60.*ufm_ca under changes"):
        asked_before(replace(UFM, ufm_ca=None))
    assert "-k" in asked_before(replace(UFM, ufm_ca=None, ufm_insecure=True))
