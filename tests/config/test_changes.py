"""Changes of a phase and how a fabric makes them become the model; every mistake is said on its line."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from fabric.changes.ber import BitErrorRate, BitErrorText
from fabric.config.inventory import load_inventory
from fabric.config.resolved import from_resolved, resolved_document
from fabric.config.scenario import load_scenario
from fabric.model.change import BlastRadius, ChangeSettings, ChangeSpec, Lease, SubnetManager
from fabric.model.scenario import Phase
from tests.changes.asked import asked, ber, link_down, port_flap, routing, shield

Explained = Callable[[Callable[[], object], list[str]], None]

SETTINGS = "changes: {via: gpu1, subnet_managers: [{host: gpu2}], adaptive_sl: 3}\n"
SCENARIO = """\
name: look
inventory: inventory.yaml
phases:
  - name: degraded
    env: {NCCL_IB_TIMEOUT: 22}
    changes:
      - CHANGE
    probes: [group_all_reduce]
"""


@pytest.fixture
def written(folder: Path, inventory_text: str) -> Callable[[str], Path]:
    """Writes a scenario with one change, on an inventory that knows how to make it."""

    def write(change: str, *, settings: str = SETTINGS, roce: bool = False) -> Path:
        text = inventory_text.replace("infiniband", "ethernet") if roce else inventory_text
        (folder / "inventory.yaml").write_text(text + settings)
        (folder / "scenario.yaml").write_text(SCENARIO.replace("CHANGE", change))
        return folder / "scenario.yaml"

    return write


def phase_of(path: Path) -> Phase:
    """The only phase of a scenario, after it has also come back from run.json."""
    resolved = load_scenario(path)
    assert from_resolved(json.loads(json.dumps(resolved_document(*resolved)))) == resolved
    (phase,) = resolved[0].phases
    return phase


GOOD: list[tuple[str, ChangeSpec]] = [
    (
        "ber: {links: leaf0--spine1, effective: 1e-7, direction: up, at: 20s, for: 1.5m}",
        ber("leaf0--spine1", effective="1e-7", direction="up", at=20.0, for_=90.0),
    ),
    ("ber: {links: gpu1/mlx5_0, raw: 3e-4}", ber("gpu1/mlx5_0", raw="3e-4")),
    (
        "link_down: {links: [spine0--leaf1#1, gpu2/mlx5_1], by: mlxlink, for: 500ms}",
        link_down("leaf1--spine0#1", "gpu2/mlx5_1", by="mlxlink", for_=0.5),
    ),
    (
        "port_flap: {links: gpu1/mlx5_0, down: 1s, stop_above: {link_downed: 3}}",
        port_flap("gpu1/mlx5_0", down=1.0, stop_above={"link_downed": 3}),
    ),
    ("link_down: {links: leaf0--spine0#0}", link_down("leaf0--spine0")),
    ("port_flap: {links: gpu1/mlx5_0, down: 0.5s}", port_flap("gpu1/mlx5_0", down=0.5)),
    (
        "port_flap: {links: gpu1/mlx5_0, down: 5s, count: 3, period: 30s, by: ip, at: 0s}",
        port_flap("gpu1/mlx5_0", down=5.0, count=3, period=30.0, by="ip", at=0.0),
    ),
    ("{adaptive_routing: on, scope: fabric}", routing(True)),
    ("{adaptive_routing: off, scope: job}", routing(False, "job")),
    ("{shield: off, scope: fabric}", shield(False)),
]


@pytest.mark.parametrize(("change", "spec"), GOOD, ids=[change for change, _ in GOOD])
def test_a_change_becomes_the_model(written: Callable[..., Path], change: str, spec: ChangeSpec) -> None:
    """Every key reaches the model, and comes back from run.json."""
    assert phase_of(written(change)).changes == (spec,)


def test_adaptive_routing_of_the_hosts_is_for_roce(written: Callable[..., Path]) -> None:
    """There the RNICs decide."""
    path = written("{adaptive_routing: on, scope: host}", roce=True)
    assert phase_of(path).changes == (routing(True, "host"),)


def test_retransmission_is_for_roce(written: Callable[..., Path]) -> None:
    """There the RNICs send again what was lost."""
    path = written("retransmission: {selective_repeat: on, adaptive_timers: off}", roce=True)
    assert phase_of(path).changes == (asked("retransmission", selective_repeat=True, adaptive_timers=False),)


@pytest.mark.parametrize(
    ("change", "settings", "env"),
    [
        ("{adaptive_routing: off, scope: job}", SETTINGS, {"NCCL_IB_ADAPTIVE_ROUTING": "0"}),
        ("{adaptive_routing: on, scope: job}", SETTINGS, {"NCCL_IB_ADAPTIVE_ROUTING": "1", "NCCL_IB_SL": "3"}),
        ("{adaptive_routing: on, scope: job}", "", {"NCCL_IB_ADAPTIVE_ROUTING": "1"}),
        ("{adaptive_routing: on, scope: fabric}", SETTINGS, {}),
    ],
)
def test_adaptive_routing_of_the_job_is_asked_of_nccl(
    written: Callable[..., Path], change: str, settings: str, env: dict[str, str]
) -> None:
    """Its collectives get the variables, besides those of the phase."""
    assert dict(phase_of(written(change, settings=settings)).env) == {"NCCL_IB_TIMEOUT": "22", **env}


BAD = [
    ("ber", ["7: 'links' is required here"]),
    (
        "[ber]",
        [
            "7: expected one change (ber, link_down, port_flap, adaptive_routing, shield, retransmission, pfc, dcqcn, "
            "ecn or switch_pfc)"
        ],
    ),
    ("bre: {links: gpu1/mlx5_0, raw: 1e-6}", ["7: unknown change 'bre'; did you mean 'ber'?"]),
    ("{ber: {}, shield: on}", ["7: ber and shield are changes of their own: an entry for each"]),
    ("ber: {links: gpu1/mlx5_0}", ["7: 'raw' or 'effective' is required here"]),
    ("ber: {raw: 2.5e-6, links: gpu1/mlx5_0}", ["7: got '2.5e-6'; write 2e-6 or 3e-6"]),
    ("ber: {raw: 1e-6, links: gpu1/mlx5_0, for: 601s}", ["7: expected at most 600s, 'max_hold' of the lease in the"]),
    (
        "ber: {raw: 1e-6, links: gpu1/mlx5_0, stop_above: {symbol_erors: 9}}",
        ["7: unknown key 'symbol_erors'; did you mean 'symbol_errors'?"],
    ),
    ("link_down: {links: gpu1/mlx5_0, stop_above: {}}", ["7: a counter is required here: raw_errors, "]),
    ("port_flap: {links: gpu1/mlx5_0, down: 5s, count: 2}", ["7: 'period' is required with a count of 2"]),
    ("port_flap: {links: gpu1/mlx5_0, down: 5s, period: 9s}", ["7: 'period' goes with a count of two or more"]),
    ("port_flap: {links: gpu1/mlx5_0, down: 5s, count: 2, period: 5s}", ["7: expected a period above 5s (down)"]),
    (
        "adaptive_routing: on",
        ["7: 'scope' is required here: fabric (the subnet managers' setting, for everyone on this"],
    ),
    ("shield: on", ["7: 'scope' is required here: fabric, because it is the subnet managers' setting, for everyone"]),
    ("{shield: on, scope: job}", ["7: expected fabric, got 'job'"]),
    ("{adaptive_routing: on, scope: host}", ["7: scope host is for RoCE"]),
    ("retransmission: {selective_repeat: on}", ["7: it is for RoCE"]),
    (
        "retransmission: {}",
        ["7: 'selective_repeat', 'adaptive_timers' or 'short_timeouts' is required here", "7: it is for RoCE"],
    ),
    ("{pfc: off, priority: 3}", ["7: 'scope' is required here: fabric, because a class that is lossy at one end"]),
    ("{pfc: off, scope: fabric}", ["7: 'priority' is required here: which one: 0 to 7"]),
    ("{pfc: off, priority: 3, scope: fabric}", ["7: it is for RoCE"]),
    ("{ecn: off, traffic_class: 3}", ["7: 'scope' is required here: fabric, because switches mark the packets of"]),
    ("{ecn: off, scope: fabric}", ["7: 'traffic_class' is required here: which one: 0 to 7"]),
    ("{switch_pfc: off, priority: 8, scope: fabric}", ["7: expected a whole number from 0 to 7, got '8'"]),
    ("{switch_pfc: off, priority: 3, scope: fabric}", ["7: it is for RoCE"]),
    ("dcqcn: {np: off}", ["7: 'priority' is required with 'np' and 'rp'", "7: it is for RoCE"]),
    ("dcqcn: {priority: 3}", ["7: 'np', 'rp' or 'knobs' is required here", "7: it is for RoCE"]),
    ("dcqcn: {knobs: {np_cnp_prio: 6}}", ["7: expected a knob that stands for itself: rp_clamp_tgt_rate, "]),
    (
        "{shield: on, scope: fabric}\n      - {shield: off, scope: fabric}",
        ["8: shield with scope fabric is in this phase twice"],
    ),
    ("link_down: {links: leaf0--spin1}", ["7: no switch 'spin1'; did you mean 'spine1'?"]),
    ("link_down: {links: leaf0--leaf1}", ["7: no cable between leaf0 and leaf1"]),
    ("link_down: {links: leaf0}", ["7: expected a link such as su0-leaf3--spine02 or gpu001/mlx5_0, got 'leaf0'"]),
    ("link_down: {links: leaf0--spine0#2}", ["7: leaf0 and spine0 have cables #0 to #1, got #2"]),
    ("link_down: {links: gpu9/mlx5_0}", ["7: no host 'gpu9'; did you mean 'gpu"]),
    ("link_down: {links: gpu1/mlx5_2}", ["7: 'mlx5_2' is not an RNIC of gpu1; did you mean 'mlx5_"]),
    ("link_down: {links: [gpu1/mlx5_0, gpu1/mlx5_0]}", ["7: link 'gpu1/mlx5_0' is there twice"]),
    (
        "link_down: {links: {tier: spine, count: 9}}",
        ["7: expected at most 8: the hosts of this run have no more spine"],
    ),
    ("link_down: {links: {tier: core}}", ["7: the hosts of this run have no core links that their traffic can take"]),
    ("link_down: {links: {tier: spine, of: [leaf7]}}", ["7: no host or switch 'leaf7'; did you mean 'leaf"]),
    ("link_down: {links: {tier: access, of: ['gpu[1-2]'], count: 5}}", ["7: no more access links of those; got 5"]),
]


@pytest.mark.parametrize(("change", "expected"), BAD, ids=[case[0] for case in BAD])
def test_a_bad_change_is_explained(
    written: Callable[..., Path], explained: Explained, change: str, expected: list[str]
) -> None:
    """Each mistake gives exactly its problems, on its line."""
    path = written(change)
    explained(lambda: load_scenario(path), expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            "{adaptive_routing: on, scope: fabric}",
            "7: to switch adaptive routing of the fabric the subnet managers must",
        ),
        ("{shield: on, scope: fabric}", "7: to switch SHIELD the subnet managers must be known"),
        (
            "link_down: {links: leaf0--spine0}",
            "7: to alter links between switches (leaf0--spine0) 'via' under changes:",
        ),
        ("ber: {links: {tier: spine}, raw: 1e-6}", "7: to alter links between switches (leaf"),
    ],
)
def test_what_the_inventory_must_say_is_said(
    written: Callable[..., Path], explained: Explained, change: str, expected: str
) -> None:
    """A change that cannot be made on this fabric is refused before anything starts."""
    path = written(change, settings="")
    explained(lambda: load_scenario(path), [expected])


def test_only_hosts_that_take_part_are_altered(written: Callable[..., Path], explained: Explained) -> None:
    """--hosts that leaves a host out leaves its cables alone."""
    path = written("link_down: {links: gpu1/mlx5_0}")
    said = "7: gpu1 does not take part in this run: only links of its hosts are altered"
    explained(lambda: load_scenario(path, hosts="gpu[2-4]"), [said])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("NCCL_IB_TIMEOUT: 22", "NCCL_ALGO: TREE", ["5: 'NCCL_ALGO' cannot be set here"]),
        ("NCCL_IB_TIMEOUT: 22", "nccl: 1", ["5: expected a variable's name"]),
        (
            "NCCL_IB_TIMEOUT: 22",
            "NCCL_IB_ADAPTIVE_ROUTING: 1",
            ["5: 'NCCL_IB_ADAPTIVE_ROUTING' is set by adaptive_routing with scope job: leave out one"],
        ),
        ("[group_all_reduce]", "[loopback]", ["5: no probe of this phase is a collective"]),
        ("    env: {NCCL_IB_TIMEOUT: 22}\n", "", []),
    ],
)
def test_the_environment_of_a_phase_is_checked(
    written: Callable[..., Path], explained: Explained, old: str, new: str, expected: list[str]
) -> None:
    """As that of a platform is; and it must reach somebody."""
    path = written("{adaptive_routing: on, scope: job}")
    path.write_text(path.read_text().replace(old, new))
    if expected:
        explained(lambda: load_scenario(path), expected)
    else:
        assert dict(phase_of(path).env) == {"NCCL_IB_ADAPTIVE_ROUTING": "1", "NCCL_IB_SL": "3"}


def test_all_problems_come_at_once(written: Callable[..., Path], explained: Explained) -> None:
    """One bad change hides none in another, nor in the inventory's absence of settings."""
    path = written("ber: {links: leaf9--spine0, raw: 1e-6}\n      - {shield: on}\n      - {shield: on, scope: fabric}")
    path.write_text(path.read_text().replace("TIMEOUT: 22", "TIMEOUT: []"))
    expected = ["7: no switch 'leaf9'", "8: 'scope' is required here", "5: expected a value"]
    explained(lambda: load_scenario(path), expected)


ALL = """\
changes:
  via: gpu1
  port_state: mlxlink
  sudo: true
  guard_directory: /var/lib/fabric.guard
  lease: {ttl: 30s, max_hold: 2h}
  management: [eth0, bond0.100, mlx5_bond_0, gpu4, leaf1]
  subnet_managers:
    - {host: gpu2}
    - {host: gpu3, config: /opt/ufm/opensm.conf, reload: [pkill, -HUP, opensm]}
  adaptive_on: {routing_engine: "ar_ftree,updn", ar_sl_mask: 0xFFFF}
  adaptive_off: {routing_engine: ftree, ar_sl_mask: 0}
  shield_on: {shield_mode: 2}
  shield_off: {shield_mode: 0}
  adaptive_sl: 3
  ufm_url: https://ufm.example.net:8443/ufmRest
  blast_radius: {changes: 8, per_switch: 2, per_host: 3, links_fraction: 0.25}
"""


def with_settings(folder: Path, inventory_text: str, settings: str) -> Path:
    """The inventory with these settings from its line 35 on."""
    path = folder / "inventory.yaml"
    path.write_text(inventory_text + settings)
    return path


def test_every_setting_reaches_the_model(folder: Path, inventory_text: str) -> None:
    """No key is read and dropped."""
    assert load_inventory(with_settings(folder, inventory_text, ALL)).changes == ChangeSettings(
        via="gpu1",
        port_state="mlxlink",
        sudo=True,
        guard_directory="/var/lib/fabric.guard",
        lease=Lease(30.0, 7200.0),
        management=("eth0", "bond0.100", "mlx5_bond_0", "gpu4", "leaf1"),
        subnet_managers=(
            SubnetManager("gpu2"),
            SubnetManager("gpu3", "/opt/ufm/opensm.conf", ("pkill", "-HUP", "opensm")),
        ),
        adaptive_on={"routing_engine": "ar_ftree,updn", "ar_sl_mask": "0xFFFF"},
        adaptive_off={"routing_engine": "ftree", "ar_sl_mask": "0"},
        shield_on={"shield_mode": "2"},
        shield_off={"shield_mode": "0"},
        adaptive_sl=3,
        ufm_url="https://ufm.example.net:8443/ufmRest",
        blast_radius=BlastRadius(8, 2, 3, 0.25),
    )


BAD_SETTINGS = [
    ("via: gpu1", "via: gpu7", ["+1: no host 'gpu7' under hosts:; did you mean 'gpu"]),
    ("via: gpu1", "via: leaf0", ["+1: no host 'leaf0' under hosts:"]),
    ("  via: gpu1\n", "", ["+14: 'ufm_url' needs 'via'"]),
    ("port_state: mlxlink", "port_state: mlxlnk", ["+2: got 'mlxlnk'; did you mean 'mlxlink'?"]),
    ("/var/lib/fabric.guard", "run/guard", ["+4: expected an absolute path"]),
    ("/var/lib/fabric.guard", "/run/../etc", ["+4: expected an absolute path without '.' and '..'"]),
    ("/var/lib/fabric.guard", "/", ["+4: expected an absolute path"]),
    ("/var/lib/fabric.guard", "'/run/a b'", ["+4: expected an absolute path"]),
    ("/var/lib/fabric.guard", "/dev/shm/x", ["+4: not every user may write (what is there is run as root)"]),
    ("ttl: 30s", "ttl: 9s", ["+5: expected a duration from 10s to 10m"]),
    ("max_hold: 2h", "max_hold: 20s", ["+5: expected at least ttl, 30s, got 20s"]),
    ("eth0,", "eth0 x,", ["+6: expected a name of 1 to 64"]),
    ("{host: gpu2}", "{host: gpu22}", ["+8: no host 'gpu22' under hosts:; did you mean 'gpu2'?"]),
    ("{host: gpu2}", "{host: gpu3}", ["+9: the subnet manager on 'gpu3' is there twice"]),
    ("{host: gpu2}", "{config: /a/b}", ["+8: 'host' is required here"]),
    ("[pkill, -HUP, opensm]", "pkill -HUP opensm", ["+9: expected a list, got 'pkill -HUP opensm'"]),
    ("[pkill, -HUP, opensm]", "[-HUP]", ["+9: expected a program first, got '-HUP'"]),
    ("[pkill, -HUP, opensm]", "['A=b', x]", ["+9: expected a program first, got 'A=b'"]),
    ("[pkill, -HUP, opensm]", "['sh -c x']", ["+9: expected one printable word without blanks"]),
    ("routing_engine: ftree", "Routing: ftree", ["+11: expected an option of opensm.conf"]),
    ("routing_engine: ftree", "routing_engine: 'x; id'", ["+11: expected a value of opensm.conf"]),
    (
        "routing_engine: ftree, ar_sl_mask: 0",
        "routing_engine: ftree",
        ["+10: adaptive_on and adaptive_off must say the same options: 'ar_sl_mask' is in one of them only"],
    ),
    ("shield_off: {shield_mode: 0}", "shield_off: {shield_mode: 2}", ["+12: nothing would be switched"]),
    ("shield_off: {shield_mode: 0}", "shield_off: {}", ["+13: expected at least 1 entry, got 0"]),
    ("https://ufm", "ftp://ufm", ["+15: expected an address such as https://ufm.example.net"]),
    ("https://ufm", "https://admin:secret@ufm", ["+15: expected an address without an account"]),
    ("per_host", "per_hots", ["+16: unknown key 'per_hots'; did you mean 'per_host'?"]),
]


@pytest.mark.parametrize(
    ("old", "new", "expected"), BAD_SETTINGS, ids=[case[1].strip() or "no via" for case in BAD_SETTINGS]
)
def test_a_bad_setting_is_explained(
    folder: Path, inventory_text: str, explained: Explained, old: str, new: str, expected: list[str]
) -> None:
    """Each mistake gives exactly its problems, on its line."""
    assert ALL.count(old) == 1
    path = with_settings(folder, inventory_text, ALL.replace(old, new))
    first = inventory_text.count("\n") + 1
    numbered = [part.split(": ", 1) for part in expected]
    explained(lambda: load_inventory(path), [f"{first + int(line)}: {text}" for line, text in numbered])


def test_an_account_in_an_address_is_not_repeated(folder: Path, inventory_text: str) -> None:
    """Messages end in logs."""
    path = with_settings(folder, inventory_text, "changes: {via: gpu1, ufm_url: 'https://admin:secret@ufm'}\n")
    with pytest.raises(Exception, match="expected an address without an account") as caught:
        load_inventory(path)
    assert "secret" not in str(caught.value)


def test_hosts_are_looked_up_only_where_all_are_known(folder: Path, inventory_text: str, explained: Explained) -> None:
    """A bad entry of hosts must not make its hosts unknown."""
    text = inventory_text.replace("hosts_per_rack: 2", "hosts_per_rack: two")
    path = with_settings(folder, text, "changes: {via: gpu1}\n")
    explained(lambda: load_inventory(path), ["22: expected a whole number from 1 to 100000, got 'two'"])


read = BitErrorText().parse


@pytest.mark.parametrize(
    ("text", "mantissa", "exponent"),
    [
        ("1e-6", 1, 6),
        ("0.000001", 1, 6),
        ("10e-7", 1, 6),
        ("3E-4", 3, 4),
        ("1.5e-5", 15, 6),
        ("12e-9", 12, 9),
        ("0.5", 5, 1),
        ("1e-255", 1, 255),
    ],
)
def test_a_rate_is_a_small_number_and_an_exponent(text: str, mantissa: int, exponent: int) -> None:
    """However it is written, the smallest mantissa is taken."""
    assert read(text) == BitErrorRate(mantissa, exponent)


@pytest.mark.parametrize(
    ("text", "below", "above"),
    [
        ("2.5e-6", "2e-6", "3e-6"),
        ("1.55e-5", "1e-5", "2e-5"),
        ("9.99e-7", "9e-7", "10e-7"),
        ("16e-5", "1e-4", "2e-4"),
        ("1.5e-255", "1e-255", "2e-255"),
    ],
)
def test_what_the_register_cannot_hold_is_refused_with_two_beside_it(text: str, below: str, above: str) -> None:
    """Nobody is left to work out what can be written."""
    with pytest.raises(PydanticCustomError, match=f"got '{text}'; write {below} or {above}$"):
        read(text)


@pytest.mark.parametrize(
    "value", ["0", "1", "0.51", "1e-256", "-1e-6", "1e", "e-6", "1e-6 ", "nan", "", "1e-9999", [], {}]
)
def test_what_is_no_rate_is_refused(value: object) -> None:
    """Certainty, nothing and what is no number."""
    with pytest.raises(PydanticCustomError, match=r"expected a bit error rate from 1e-255 to 0\.5"):
        read(value)


@given(digits=st.integers(1, 10**6), exponent=st.integers(7, 200))
def test_what_may_be_written_instead_is_on_both_sides_of_what_was_asked(digits: int, exponent: int) -> None:
    """Read exactly, or refused between two rates that can be written."""
    wanted = Fraction(digits, 10**exponent)
    try:
        assert Fraction(str(read(f"{digits}e-{exponent}"))) == wanted
    except PydanticCustomError as exc:
        below, above = (read(word) for word in exc.message().rpartition("write ")[2].split(" or "))
        assert Fraction(str(below)) < wanted < Fraction(str(above))
