"""The small words of the model; names of parts; what switches join, and what a pair shares above its leaves."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import dgx_platform, rack_topology
from fabric.model.differing import MOST_DIFFERENCES, differing
from fabric.model.finding import Checked, Finding, Severity, merged
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.sampling import Growth, growth
from fabric.model.text import change_text, fold, gbps_text, unfold
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.model.verdict import bound_by_lines, out_of_reach


def pods(spines: int = 2, cores: int = 1) -> Topology:
    """Two pods of two units of four hosts, two rails; each spine reaches so many cores of its own."""
    platform = dgx_platform(parts=2)
    hosts = {}
    for number in range(16):
        leaves = tuple(f"u{number // 4}-leaf{rail}" for rail in range(2))
        hosts[f"h{number:02d}"] = Host(f"h{number:02d}", platform, "x", None, leaves)
    up = [
        Uplinks(
            tuple(f"u{unit}-leaf{rail}" for unit in (2 * pod, 2 * pod + 1) for rail in range(2)),
            tuple(f"p{pod}-spine{spine}" for spine in range(spines)),
            1,
            400.0,
        )
        for pod in range(2)
    ]
    for spine in range(spines):
        above = tuple(f"core{spine}-{core}" for core in range(cores))
        up.append(Uplinks(tuple(f"p{pod}-spine{spine}" for pod in range(2)), above, 1, 400.0))
    names = {name: None for one in up for name in (*one.lower, *one.upper)}
    tiers = {"u": "leaf", "p": "spine", "c": "core"}
    return Topology(hosts, {name: Switch(name, tiers[name[0]]) for name in names}, tuple(up))


def test_leaves_are_joined_over_spines_and_cores() -> None:
    """All leaves of pods with common cores are one part; a pod without cores is one by itself."""
    made = pods()
    assert len(set(made.parts.values())) == 1
    alone = replace(made, uplinks=made.uplinks[:2])
    assert [len({alone.parts[f"u{unit}-leaf0"] for unit in units}) for units in ((0, 1), (0, 2))] == [1, 2]


def test_leaves_without_spines_are_apart_only_where_no_spine_is_listed() -> None:
    """Rails by themselves need a list of switches that has nothing above leaves; else it is just not described."""
    listed = rack_topology(2)
    bare = replace(listed, switches={name: one for name, one in listed.switches.items() if one.tier == "leaf"})
    assert (listed.apart, len(set(listed.parts.values()))) == (False, 1)
    assert (bare.apart, len(set(bare.parts.values()))) == (True, 8)
    hosts = dict(bare.hosts)
    hosts["gpu002"] = replace(hosts["gpu002"], leaves=tuple(f"other{rail}" for rail in range(8)))
    assert not replace(bare, hosts=hosts).apart


def test_pairs_of_one_pod_share_no_cable_to_the_cores() -> None:
    """Up from the sender's pod and down to the receiver's; nothing below a common spine."""
    made = pods()
    assert made.core_cables("u0-leaf0", "u1-leaf0", "h04/mlx5_0") == ()
    assert made.core_cables("u0-leaf0", "u2-leaf0", "h08/mlx5_0") == ("p0-spine0:up:0.0", "p1-spine0:down:0.0")
    assert made.core_cables("u0-leaf0", "u2-leaf0", "h09/mlx5_0") == ("p0-spine0:up:1.0", "p1-spine0:down:1.0")


def test_cables_to_cores_are_those_of_the_routes() -> None:
    """Two receivers share one exactly where OpenSM's ftree sends both over the same link."""
    import numpy as np

    from fabric.sim.net.named_clos import net_from_topology
    from fabric.sim.net.route import routes

    made = pods(spines=3, cores=2)
    net = net_from_topology(made)
    ends = [(host, device) for host, device in net.ends if made.hosts[host].leaves[0] >= "u2"]
    src = np.full(len(ends), net.nics["h00", "mlx5_0"])
    dst = np.array([net.nics[end] for end in ends])
    links = routes(net.clos, src, dst, engine="ftree").links[:, 2:4].tolist()
    leaf = {rnic.device: rnic.rail for rnic in made.hosts["h00"].platform.rnics}
    claims = [made.core_cables("u0-leaf0", made.hosts[h].leaves[leaf[d]], f"{h}/{d}") for h, d in ends]
    assert (
        len(set(claims))
        == len({tuple(link) for link in links})
        == len(set(zip(claims, map(tuple, links), strict=True)))
    )


NAMES = {
    "gpu001": Part("gpu001"),
    "gpu001:network": Part("gpu001", "", "network"),
    "gpu001/mlx5_0": Part("gpu001", "mlx5_0"),
    "gpu001/mlx5_0:port": Part("gpu001", "mlx5_0", "port"),
    "gpu001/mlx5_0->numa1-gpus": Part("gpu001", "mlx5_0->numa1-gpus"),
    "leaf3--spine2#1": Part("leaf3--spine2#1"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_and_written_back(name: str) -> None:
    """Host, item and aspect of every form; the name of the part is the name that was read."""
    assert (Part.of(name), str(Part.of(name))) == (NAMES[name], name)


WORD = st.text("ab1->+#.", min_size=1, max_size=8)


@given(WORD, st.just("") | WORD, st.just("") | WORD)
def test_every_part_is_read_as_it_was_written(host: str, item: str, aspect: str) -> None:
    """Whatever its host, item and aspect are, as long as they hold neither slash nor colon."""
    part = Part(host, item, aspect)
    assert Part.of(str(part)) == part


def test_a_part_has_a_name_within_its_host() -> None:
    """A host has none, whatever its aspect."""
    names = ("gpu001/mlx5_0:port", "gpu001/gpu3", "gpu001:network", "gpu001")
    assert [Part.of(name).inside for name in names] == ["mlx5_0:port", "gpu3", "", ""]


def test_a_path_has_a_device_and_an_end() -> None:
    """Both are items of the same host."""
    path = Part.of("gpu001/mlx5_0->numa1")
    assert (path.device, path.end, Part.of("gpu001/mlx5_0").end) == ("mlx5_0", "numa1", "")


def test_one_direction_is_a_part_of_both() -> None:
    """Other aspects stay."""
    assert str(Part.of("gpu001/mlx5_0:tx").both_ways) == "gpu001/mlx5_0"
    assert str(Part.of("gpu001/mlx5_0:port").both_ways) == "gpu001/mlx5_0:port"


def test_a_pair_has_two_members() -> None:
    """Also a pair of RNICs."""
    assert [one.host for one in Part.of("gpu001/mlx5_0+gpu002/mlx5_0").members] == ["gpu001", "gpu002"]


def test_a_link_has_two_ends_whichever_way() -> None:
    """Without the number of the cable; a path inside a host is no link."""
    assert Part.of("leaf3--spine2#1").link_ends == Part.of("leaf3->spine2").link_ends == ("leaf3", "spine2")
    assert Part.of("gpu001/mlx5_0->numa1").link_ends is None


def test_nothing_measured_is_inconclusive() -> None:
    """No outcome at all is not a pass."""
    assert Outcome.worst([]) is Outcome.INCONCLUSIVE


def test_only_skipped_is_inconclusive() -> None:
    """A run in which everything was skipped measured nothing."""
    assert Outcome.worst([Outcome.SKIPPED, Outcome.SKIPPED]) is Outcome.INCONCLUSIVE


def test_fail_beats_error() -> None:
    """A bad fabric is not hidden behind our own trouble."""
    assert Outcome.worst([Outcome.ERROR, Outcome.FAIL, Outcome.PASS]) is Outcome.FAIL


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1))
def test_pass_only_when_all_pass(outcomes: list[Outcome]) -> None:
    """The whole passes if and only if every part does."""
    assert (Outcome.worst(outcomes) is Outcome.PASS) == (set(outcomes) == {Outcome.PASS})


def _one(host: str, what: str = "w", severity: Severity = Severity.WARNING) -> Finding:
    return Finding("c", severity, (host,), what, "y", "a")


def test_equal_findings_are_one() -> None:
    """With all their hosts, each once."""
    (one,) = merged([_one("a"), _one("b"), _one("a")])
    assert one.hosts == ("a", "b")


def test_the_worst_come_first() -> None:
    """Then what is true of most hosts."""
    found = merged(
        [_one("a", "x"), _one("a"), _one("b"), _one("c", "u", Severity.UNKNOWN), _one("d", "p", Severity.PROBLEM)]
    )
    assert [(one.what, len(one.hosts)) for one in found] == [("p", 1), ("u", 1), ("w", 2), ("x", 1)]


@pytest.mark.parametrize(
    ("severities", "code"),
    [
        ((), 0),
        ((Severity.WARNING,), 0),
        ((Severity.UNKNOWN, Severity.WARNING), 3),
        ((Severity.UNKNOWN, Severity.PROBLEM), 1),
    ],
)
def test_exit_codes(severities: tuple[Severity, ...], code: int) -> None:
    """A problem beats what is unknown; a warning is no failure."""
    found = tuple(_one("a", str(severity), severity) for severity in severities)
    assert Checked(None, "i", "mock", ("a",), found, 1.0).exit_code == code


@pytest.mark.parametrize(
    ("name", "before", "after", "found"),
    [
        ("link_downed", 3, 5, Growth(2)),
        ("link_downed", 250, 4, Growth(4, reset=True)),
        ("link_downed", 255, 0, Growth(0, reset=True)),
        ("port_rcv_errors", 65000, 0, Growth(0, reset=True)),
        ("link_downed", 100, 4, Growth(4, reset=True)),
        ("link_downed", 254, 255, Growth(1, full=True)),
        ("link_downed", 4000, 4002, Growth(2)),
        ("out_of_sequence", 2**32 - 10, 5, Growth(15)),
        ("out_of_sequence", 1000, 0, Growth(0, reset=True)),
        ("symbol_error", 65535, 65535, Growth(0, full=True)),
    ],
)
def test_growth_knows_wraps_resets_and_full_counters(name: str, before: int, after: int, found: Growth) -> None:
    """A wrap is from the last quarter into the first; what else goes down, and counters of PMA, were cleared."""
    assert growth(name, before, after) == found


@given(st.sampled_from(["link_downed", "symbol_error", "x"]), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_growth_is_never_negative(name: str, before: int, after: int) -> None:
    """Whatever is read."""
    assert growth(name, before, after).by >= 0


@pytest.mark.parametrize(
    ("least", "lines", "said"),
    [
        (360.0, [200.0], "limit 360 Gb/s is above the line rate of 200 Gb/s"),
        (200.0, [200.0], "limit 200 Gb/s is all of the line rate of 200 Gb/s"),
        (199.9, [200.0], ""),
        (2944.0, [200.0] * 8, "limit 2944 Gb/s is above the line rate of 8 RNICs together, 1600 Gb/s"),
        (1599.0, [200.0] * 8, ""),
        (360.0, [], ""),
    ],
)
def test_headers_leave_less_than_the_line(least: float, lines: list[float], said: str) -> None:
    """As much as the line is too much; without a line nothing is."""
    assert out_of_reach(least, lines) == said


@pytest.mark.parametrize(
    ("kind", "algorithm", "bound"),
    [
        ("loopback", None, True),
        ("link_burn", None, True),
        ("tor_all_reduce", "RING", True),
        ("tor_all_reduce", "NVLSTREE", False),
        ("all_to_all", None, False),
    ],
)
def test_only_what_all_bytes_pass_is_a_bound(kind: str, algorithm: str | None, bound: bool) -> None:
    """A tree's bus bandwidth may exceed the lines, and NVLink is none of them."""
    assert bound_by_lines(kind, algorithm) is bound


def test_fold_keeps_padding() -> None:
    """Consecutive names become one range with its zeros."""
    assert fold(["gpu001", "gpu002", "gpu004"]) == "gpu[001-002,004]"


def test_unfold_in_order() -> None:
    """A two-dimensional set unfolds in order."""
    assert unfold("su[0-1]-leaf[0-1]") == ("su0-leaf0", "su0-leaf1", "su1-leaf0", "su1-leaf1")


def test_broken_set_says_why() -> None:
    """A broken set is a ValueError with the reason."""
    with pytest.raises(ValueError, match="bracket"):
        unfold("gpu[1-")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.62, "-38%"),
        (0.996, "-0.4%"),
        (0.9951, "-0.5%"),
        (0.9996, "-0.04%"),
        (0.999999, "-0.01% or less"),
        (1.0, "+0%"),
        (1.004, "+0.4%"),
        (0.0, "-100%"),
    ],
)
def test_what_is_below_is_never_said_to_be_below_by_nothing(ratio: float, text: str) -> None:
    assert change_text(ratio) == text


@pytest.mark.parametrize(
    ("gbps", "text"), [(391.27, "391.3"), (1638.2, "1638.2"), (1.0, "1.0"), (0.095638, "0.0956"), (0.0, "0.0")]
)
def test_a_bandwidth_is_never_rounded_away(gbps: float, text: str) -> None:
    """Also that of a slow port or of a box."""
    assert gbps_text(gbps) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_documents_differ_where_their_bytes_do(one: Any, other: Any) -> None:
    one, other = (orjson.loads(orjson.dumps(document)) for document in (one, other))
    same = orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)
    zeros = -0.0 in _numbers(one) or -0.0 in _numbers(other)
    assert differing(one, one) == []
    assert zeros or (differing(one, other) == []) == same


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [number for one in inside for number in _numbers(one)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize(
    ("stated", "again", "said"),
    [
        ({"a": 1}, {"a": 1.0}, "a: it says 1, the run's files say 1.0"),
        ({"a": True}, {"a": 1}, "a: it says true, the run's files say 1"),
        ({"a": "1"}, {"a": 1}, 'a: it says "1", the run\'s files say 1'),
        ({"a": None}, {}, "a: it says null, the run's files say nothing"),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, "a.b[1].c: it says 2, the run's files say 3"),
        ({"a": [1, 2]}, {"a": [1]}, "a: it says a list of 2, the run's files say a list of 1"),
        ({"a": {"b": 1}}, {"a": []}, "a: it says an object of 1, the run's files say a list of 0"),
        ([], {}, "all of it: it says a list of 0, the run's files say an object of 0"),
    ],
)
def test_a_difference_is_said_with_its_place_and_both_values(stated: Any, again: Any, said: str) -> None:
    assert differing(stated, again) == [said]


def test_what_is_said_of_hostile_documents_is_short() -> None:
    """However long a text, however many fields, however deep."""
    deep: Any = orjson.loads("[" * 900 + "]" * 900)
    stated = {**{str(number): number for number in range(10_000)}, "x" * 10**6: deep, "0": "y" * 10**6}
    lines = differing(stated, {"0": "z"})
    assert len(lines) == MOST_DIFFERENCES + 1
    assert max(map(len, lines)) < 200


def test_only_where_asked_for_the_last_digits_of_a_number_may_differ() -> None:
    one, other = {"a": 0.1 + 0.2}, {"a": 0.3}
    assert differing(one, other)
    assert not differing(one, other, close=True)
    assert differing({"a": 0.3001}, other, close=True)
