"""Who may run a probe, and how probes that wait in groups start."""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fabric.engine.admission import HostHealth, ProbeAdmission, Waiting
from fabric.model.probe import Probe

CLAIMS = st.lists(st.sampled_from("abcde"), unique=True, max_size=3).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("release"), st.sampled_from("abcde")),
        st.tuples(st.sampled_from(["append", "put_first"]), CLAIMS),
        st.tuples(st.just("refuse"), st.sampled_from("xy")),
    ),
    max_size=30,
)


class Plain:
    """One list, looked through from its beginning each time."""

    def __init__(self, probes: list[Probe]) -> None:
        self._probes = probes

    def __iter__(self) -> Iterator[Probe]:
        return iter(self._probes)

    def append(self, probe: Probe) -> None:
        """At the end."""
        self._probes.append(probe)

    def put_first(self, probe: Probe) -> None:
        """At the beginning."""
        self._probes.insert(0, probe)

    def start(self, held: set[str]) -> list[Probe]:
        """Whatever is free."""
        held, started, kept = set(held), [], []
        for probe in self._probes:
            if held.isdisjoint(probe.claims):
                held.update(probe.claims)
                started.append(probe)
            else:
                kept.append(probe)
        self._probes = kept
        return started

    def refuse(self, out: list[str]) -> list[Probe]:
        """All of these hosts."""
        gone = [probe for probe in self._probes if not set(out).isdisjoint(probe.hosts)]
        self._probes = [probe for probe in self._probes if probe not in gone]
        return gone


def probe_of(number: int, claims: tuple[str, ...]) -> Probe:
    """Of one of two hosts."""
    return Probe(f"p{number}", "loopback", "x", ("xy"[number % 2],), claims, 1.0, {})


@given(st.lists(CLAIMS, max_size=12), STEPS)
def test_groups_start_what_a_look_at_every_probe_starts(
    planned: list[tuple[str, ...]], steps: list[tuple[str, object]]
) -> None:
    probes = [probe_of(number, claims) for number, claims in enumerate(planned)]
    plain, grouped = Plain(list(probes)), Waiting(probes)
    held: dict[str, float] = {}
    freed: set[str] = set()
    out: list[str] = []
    for number, (what, of) in enumerate(steps, start=len(probes)):
        if what == "release":
            held.pop(str(of), None)
            freed.add(str(of))
        elif what == "refuse":
            out.extend({str(of)}.difference(out))
            assert grouped.refuse(lambda probe: not set(out).isdisjoint(probe.hosts), out) == plain.refuse(out)
        else:
            assert isinstance(of, tuple)
            for waiting in (plain, grouped):
                getattr(waiting, what)(probe_of(number, of))
        expected = plain.start(set(held))
        assert grouped.start(held, freed, 0.0) == expected
        assert held.keys() >= {claim for probe in expected for claim in probe.claims}
        freed.clear()
        assert list(grouped) == list(plain)


class Held(dict[str, float]):
    """Claims that are held; counts how often a group's claims were looked up."""

    looks = 0

    def keys(self) -> KeysView[str]:
        """Once a group."""
        self.looks += 1
        return super().keys()


def test_a_claim_that_falls_free_costs_looks_until_it_is_taken() -> None:
    """A hundred groups wait for each of ten claims: the first of them may start, and the others need not be asked."""
    claims = [("abcdefghij"[number % 10], f"own{number}") for number in range(1000)]
    waiting = Waiting(probe_of(number, pair) for number, pair in enumerate(claims))
    held = Held()
    assert len(waiting.start(held, (), 0.0)) == 10
    held.looks = 0
    del held["c"]
    assert [probe.probe_id for probe in waiting.start(held, "c", 1.0)] == ["p12"]
    assert held.looks == 1


def test_nobody_is_asked_again_before_something_changes() -> None:
    """And then those alone that a name is of: a host, or a claim."""
    waiting = Waiting([probe_of(0, ("a",)), probe_of(1, ("b",)), probe_of(2, ("c",)), probe_of(4, ("d",))])
    asked: list[str] = []

    def refused(probe: Probe) -> bool:
        asked.append(probe.probe_id)
        return probe.hosts == ("y",)

    assert [probe.probe_id for probe in waiting.refuse(refused, ["y"])] == ["p1"]
    assert (waiting.refuse(refused, ["y"]), asked) == ([], ["p1"])
    waiting.append(probe_of(3, ("c",)))
    assert [probe.probe_id for probe in waiting.refuse(refused, ["y"])] == ["p3"]
    assert (waiting.refuse(refused, ["y", "a"]), asked) == ([], ["p1", "p3", "p0"])


ROUTES = Probe("pairs/gpu001/routes.x", "routes", "pairs", ("gpu001",), (), 1.0, {})
LEFT_OUT = {"gpu001": "did not pass intra-host: 1 loopback fail"}


def test_a_slow_host_that_was_left_out_may_still_read_tables_of_switches() -> None:
    admission = ProbeAdmission(LEFT_OUT, HostHealth())
    assert admission.refusal(ROUTES) is None
    assert admission.refusal(replace(ROUTES, kind="loopback")) is not None


def test_a_host_that_does_not_answer_may_not() -> None:
    assert ProbeAdmission(LEFT_OUT, HostHealth({"gpu001": "no route to host"})).refusal(ROUTES) is not None
