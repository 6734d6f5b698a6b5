"""``fabric simulate`` asks the simulated network, says that it is simulated, and refuses what it cannot understand."""

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from fabric.cli.main import main
from fabric.config.inventory import load_inventory
from fabric.config.problems import Problems
from fabric.config.what_if import link_faults
from fabric.errors import ConfigError
from fabric.sim.net.named_clos import net_from_topology
from tests.places import INVENTORY, ROOT

POD = INVENTORY / "pod-64.yaml"
NET = net_from_topology(load_inventory(POD).topology)


def simulate(*argv: str, inventory: Path = POD) -> str:
    """What the command prints; a ConfigError comes through, as ``fabric`` itself catches it."""
    words = ["simulate", *argv, "--inventory", str(inventory)]
    result = CliRunner().invoke(main, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result.output


def problems(*faults: str) -> list[str]:
    """What is wrong with faults of the pod."""
    found = Problems("--fault")
    link_faults(faults, NET, found, seed=0)
    return [problem.text for problem in found.all()]


def links(fault: str, *, seed: int = 0) -> list[str]:
    """The links that a fault means, by name."""
    found = Problems("--fault")
    (one,) = link_faults([fault], NET, found, seed=seed)
    assert not found
    return [NET.link_names[link] for link in one.links]


def test_it_says_that_it_is_simulated() -> None:
    """First line, table heading; and never that it reproduces anything."""
    text = simulate("pairs", "--fault", "trunk*16:slow=0.25")
    lines = text.splitlines()
    assert lines[0].startswith("simulated: pairs on pod-64, 64 hosts (gpu[001-064]), random order, 10 seeds from 0")
    assert "simulated share of line rate, per job (320 jobs over all seeds)" in lines
    assert "reproduce" not in text


def test_json_is_one_document() -> None:
    """Every engine of the default with its shares, the healthy ones beside them, links by name."""
    document = json.loads(simulate("pairs", "--fault", "su0-leaf3->spine02:slow=0.5", "--json"))
    assert document["simulated"] is True
    assert [engine["routing"] for engine in document["engines"]] == ["ftree", "updn", "ecmp", "ar"]
    assert document["faults"][0]["links"] == ["su0-leaf3->spine02"]
    for engine in document["engines"]:
        assert 0 < engine["share_of_line_rate"]["min"] <= engine["share_of_line_rate"]["mean"] <= 1
        assert engine["share_of_line_rate"]["min"] <= engine["healthy"]["min"]
        assert len(engine["busiest"]) == 5


def test_the_documentation_prints_what_the_command_prints() -> None:
    """Every line of every example in docs/simulate.md is a line of the output."""
    text = (ROOT / "docs" / "simulate.md").read_text()
    examples = re.findall(r"```console\n\$ fabric (.*?)\n```\n+(?:```text\n(.*?)```)", text, flags=re.DOTALL)
    assert len(examples) == 3
    for command, shown in examples:
        words = [word.replace("inventory/pod-64.yaml", str(POD)) for word in shlex.split(command)]
        result = CliRunner().invoke(main, words, standalone_mode=False)
        printed = [line.rstrip() for line in result.output.splitlines()]
        assert [line for line in shown.splitlines() if line not in printed] == []


def test_options_are_heard() -> None:
    """Engines in the order asked, the hosts asked for, the order of the pattern, seeds and queue pairs."""
    words = [
        "ring",
        "--routing",
        "ar,lft_random",
        "--hosts",
        "gpu[001-020]",
        "--seeds",
        "3",
        "--seed",
        "5",
        "--qps",
        "2",
    ]
    document = json.loads(simulate(*words, "--json"))
    assert [engine["routing"] for engine in document["engines"]] == ["ar", "lft_random"]
    assert (document["hosts"], document["order"], document["per"]) == ("gpu[001-020]", "sorted", "job")
    assert (document["seeds"], document["seed"], document["qps"]) == (3, 5, 2)
    assert (document["network"]["emptiest_leaf_rnics"], document["network"]["fullest_leaf_rnics"]) == (4, 16)
    assert document["engines"][0]["healthy"] is None
    assert document["engines"][0]["share_of_line_rate"]["count"] == 3


def test_the_same_words_give_the_same_text() -> None:
    """Byte for byte; another seed draws other cables."""
    words = ("permutation", "--fault", "trunk*4:slow=0.5", "--seeds", "2")
    assert simulate(*words) == simulate(*words)
    assert links("trunk*4:slow=0.5") != links("trunk*4:slow=0.5", seed=1)


def test_every_problem_is_said_at_once() -> None:
    """Pattern, engine, order, hosts and each fault, with the nearest word."""
    with pytest.raises(ConfigError) as caught:
        simulate("pair", "--routing", "ftre,ar,ar", "--order", "rand", "--hosts", "gpu065", "--fault", "trnk*2:slw=1")
    assert [str(problem) for problem in caught.value.problems] == [
        "--fault: 'trnk*2:slw=1': expected slow, down, ber, effective_ber or loss after the link, got 'slw';"
        " did you mean 'slow'?",
        f"--hosts: host is not in the inventory: 'gpu065' ({POD} has gpu[001-064]); did you mean 'gpu064'?",
        "--order: expected sorted or random, got 'rand'; did you mean 'random'?",
        "--routing: 'ar' is given twice",
        "--routing: expected ftree, updn, minhop, lft_random, ecmp or ar, got 'ftre'; did you mean 'ftree'?",
        "TRAFFIC: expected permutation, pairs, ring or all_to_all, got 'pair'; did you mean 'pairs'?",
    ]


def test_an_inventory_without_a_network_is_refused(tmp_path: Path) -> None:
    """Leaves without uplinks: exit code 2, and why."""
    text = POD.read_text().replace(', uplinks: {to: "spine[00-15]", line_rate_gbps: 400}', "")
    (tmp_path / "baselines").symlink_to(INVENTORY / "baselines")
    (tmp_path / "flat.yaml").write_text(text)
    with pytest.raises(ConfigError, match="cannot be simulated as a Clos network: leaf su0-leaf0 has no uplinks"):
        simulate("pairs", inventory=tmp_path / "flat.yaml")


def test_one_host_and_a_hall_of_all_to_all_are_refused() -> None:
    """Traffic needs two hosts; 33 million flows do not fit a laptop."""
    with pytest.raises(ConfigError, match="at least 2 hosts, got 1"):
        simulate("pairs", "--hosts", "gpu001")
    with pytest.raises(ConfigError, match="33,538,048 flows, at most 1,000,000"):
        simulate("all_to_all", inventory=INVENTORY / "hall-2048.yaml")


@pytest.mark.parametrize(
    ("fault", "meant"),
    [
        ("su0-leaf3->spine02:slow=0.5", ["su0-leaf3->spine02"]),
        ("spine02->su0-leaf3:ber=1e-3", ["spine02->su0-leaf3"]),
        ("su0-leaf3--spine02:down", ["su0-leaf3->spine02", "spine02->su0-leaf3"]),
        ("spine02--su0-leaf3#0:loss=0.01", ["spine02->su0-leaf3", "su0-leaf3->spine02"]),
        ("gpu003/mlx5_2:effective_ber=1e-7", ["gpu003/mlx5_2->su0-leaf2", "su0-leaf2->gpu003/mlx5_2"]),
    ],
)
def test_a_link_is_what_it_is_called(fault: str, meant: list[str]) -> None:
    """An arrow is one direction, two dashes are both, an RNIC is its cable in both."""
    assert links(fault) == meant


def test_drawn_cables_are_whole_and_different() -> None:
    """Sixteen cables are thirty-two links, each with its way back, none twice."""
    names = links("trunk*16:slow=0.25")
    assert len(set(names)) == 32
    assert {"->".join(reversed(name.split("->"))) for name in names} == set(names)
    assert len(links("trunk:down")) == 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("su0-leaf3", "expected LINK:KIND"),
        (":down", "expected LINK:KIND"),
        ("su0-leaf3--spine02:slow", "slow needs a value: slow=..."),
        ("su0-leaf3--spine02:down=1", "down has no value"),
        ("su0-leaf3--spine02:slow=0", "expected a number from 1e-06 to 1, got '0'"),
        ("su0-leaf3--spine02:slow=nan", "expected a number"),
        ("su0-leaf3--spine02:ber=0.6", "expected a number from 0 to 0.5, got '0.6'"),
        ("su0-leaf3--spine2:down", "no switch 'spine2'; did you mean 'spine12'?"),
        ("su0-leaf3--su0-leaf2:down", "no cable between su0-leaf3 and su0-leaf2"),
        ("su0-leaf3--spine02#1:down", "su0-leaf3 and spine02 have cables #0 to #0, got #1"),
        ("su0-leaf3->spine02:down", "a cable is down in both directions: write su0-leaf3--spine02:down"),
        ("gpu03/mlx5_2:down", "no host 'gpu03'; did you mean 'gpu063'?"),
        ("gpu003/mlx5_9:down", "'mlx5_9' is not an RNIC of gpu003; did you mean 'mlx5_7'?"),
        ("gpu003:down", "'gpu003' is no link"),
        ("spine02:down", "'spine02' is no link"),
        ("trunks:down", "expected a link, such as"),
        ("trunk*0:down", "expected 1 to 512 cables between switches, got 0"),
        ("trunk*513:down", "expected 1 to 512 cables between switches, got 513"),
        ("trunk:down:seed=2", "expected LINK:KIND"),
        ("su0-leaf3--spine02#x:down", "expected a whole number from 0 to 1000000, got 'x'"),
    ],
)
def test_a_fault_that_is_wrong_says_what_was_expected(fault: str, said: str) -> None:
    """One problem, with the fault as written or the form that was expected."""
    (text,) = problems(fault)
    assert said in text


def test_both_halves_of_a_fault_are_checked() -> None:
    """A wrong value does not hide a wrong link."""
    assert problems("gpu64/mlx5_2:ber=2") == [
        "'gpu64/mlx5_2:ber=2': expected a number from 0 to 0.5, got '2'",
        "'gpu64/mlx5_2:ber=2': no host 'gpu64'; did you mean 'gpu064'?",
    ]


_WORDS = st.sampled_from(
    [
        "su0-leaf3",
        "spine02",
        "--",
        "->",
        "#",
        "/",
        ":",
        "=",
        "*",
        "trunk",
        "slow",
        "down",
        "ber",
        "loss",
        "count",
        "seed",
    ]
)


@given(st.lists(st.one_of(_WORDS, st.text(max_size=3), st.integers(-2, 600).map(str)), max_size=10).map("".join))
def test_any_text_is_a_fault_or_a_problem(text: str) -> None:
    """Nothing that can be written crashes the reader; what is accepted means links that there are."""
    found = Problems("--fault")
    read = link_faults([text], NET, found, seed=0)
    assert bool(read) != bool(found)
    assert all(0 <= link < NET.clos.links for fault in read for link in fault.links)
