"""Hosts drained by a verdict and given back by an acceptance, against a Slurm that others alter, too."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fabric.app.scheduler import SlurmNodes, act, drain, hosts_of, standing
from fabric.errors import ConfigError, StoreError
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, CommandResult
from fabric.runs.journal import LEDGER, read_journal
from fabric.runs.run_directory import RUN_FORMAT
from fabric.tools import slurm as words_of_slurm

ARRAY = "7"  # of two tasks, of which the second began first


@dataclass(frozen=True)
class SlurmNode:
    """A node as ``scontrol`` has it."""

    name: str
    states: frozenset[str]
    reason: str = ""
    by: str = ""

    @property
    def is_drained(self) -> bool:
        """No job begins there."""
        return "DRAIN" in self.states


class Slurm:
    """Nodes in memory that answer as ``scontrol`` does; *then* happens behind each command's back."""

    def __init__(self, *names: str) -> None:
        self.nodes = {name: SlurmNode(name, frozenset({"IDLE"})) for name in names}
        self.asked: list[tuple[str, ...]] = []
        self.then: dict[int, SlurmNode] = {}

    def __call__(self, argv: tuple[str, ...]) -> CommandResult:
        """Answer; *then*, by how many commands there were, replaces a node."""
        self.asked.append(argv)
        stdout, status = self._answer(argv)
        if (late := self.then.get(len(self.asked))) is not None:
            self.nodes[late.name] = late
        return CommandResult(Command("here", argv, 1.0), status, stdout, "", 0.0, 0.0)

    def _answer(self, argv: Sequence[str]) -> tuple[str, int]:
        if argv[0] == "squeue":
            return (
                (f"9 {ARRAY}_0 gpu003\n{ARRAY} {ARRAY}_1 gpu[001-002]\n", 0)
                if argv[3] == ARRAY
                else ("slurm_load_jobs error: Invalid job id specified\n", 1)
            )
        name = argv[-1] if argv[1] == "show" else argv[2].removeprefix("nodename=")
        node = self.nodes.get(name)
        if node is None:
            return f"Node {name} not found\n", 1
        if argv[1] == "show":
            said = f" Reason={node.reason} [{node.by}@2026-11-23T18:00:00]" if node.reason else ""
            return f"NodeName={name} Arch=x State={'+'.join(sorted(node.states))} Weight=1{said}\n", 0
        if argv[3] == "state=drain":
            self.nodes[name] = SlurmNode(name, node.states | {"DRAIN"}, argv[4].removeprefix("reason="), "root")
        else:
            self.nodes[name] = SlurmNode(name, node.states - {"DRAIN"})
        return "", 0


def judged(results: Path, name: str, *, backend: str = "ssh", hosts: int = 8, **fails: Sequence[str]) -> Path:
    """A run's verdict.json: *fails* are parts by host, or by the name of a switch."""
    path = results / "self-check" / name
    path.mkdir(parents=True)
    (path / "run.json").write_text("{}")
    names = [f"gpu{number:03d}" for number in range(1, hosts + 1)]
    suspects = [
        {
            **{"component": part, "outcome": "fail", "hosts": [host] if host in names else names[:4]},
            **{"kind": "rnic", "confidence": 0.9, "evidence": []},
        }
        for host, parts in fails.items()
        for part in parts
    ]
    components: list[dict[str, Any]] = [
        {"component": host, "outcome": "fail" if host in fails else "pass"} for host in names
    ]
    verdict = {"format": 1, "scenario": "self-check", "run_id": name, "backend": backend, "suspects": suspects}
    verdict |= {"outcome": "fail" if fails else "pass", "components": components, "not_passed": []}
    (path / "verdict.json").write_text(json.dumps(verdict))
    return path


def killed(path: Path, *hosts: str, backend: str = "ssh") -> None:
    """The same run, ended before it was judged; *hosts* were asked."""
    (path / "verdict.json").unlink()
    document = {"format": RUN_FORMAT, "run_id": path.name, "backend": backend, "baselines": {}}
    (path / "run.json").write_text(json.dumps(document | {"asked": {"scenario": {"hosts": hosts}}}))


def accepted(path: Path, **decisions: str) -> Path:
    """The same run as a validation after a repair."""
    each = [{"name": name, "decision": decision} for name, decision in decisions.items()]
    (path / "acceptance.json").write_text(json.dumps({"decision": each[0]["decision"], "reasons": [], "each": each}))
    return path


def test_a_host_with_a_bad_part_is_drained_and_others_are_not(tmp_path: Path) -> None:
    """The reason names the part and the run; the ledger has a line before and one after."""
    run, slurm = judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"]), Slurm("gpu001", "gpu003")
    assert list(act(run, nodes=SlurmNodes(slurm))) == [
        "gpu003: drained (fabric: gpu003/mlx5_2; run self-check/20251123-1)"
    ]
    assert slurm.nodes["gpu003"].is_drained
    assert not slurm.nodes["gpu001"].is_drained
    lines = [(line["change"], line["state"], line["act"]) for line in read_journal(tmp_path / LEDGER)]
    assert lines == [("gpu003", "intended", "drain"), ("gpu003", "done", "drain")]


def test_a_drain_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    """Before ours; and one that replaces ours between our two looks is not called ours."""
    run, slurm = judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"]), Slurm("gpu003")
    other = SlurmNode("gpu003", frozenset({"IDLE", "DRAIN"}), "NHC: disk", "ops")
    slurm.nodes["gpu003"] = other
    assert list(act(run, nodes=SlurmNodes(slurm))) == ["gpu003: is drained already (ops: NHC: disk); left as it is"]
    assert slurm.nodes["gpu003"] == other
    late = Slurm("gpu003")
    late.then = {2: other}
    assert list(act(run, nodes=SlurmNodes(late))) == ["gpu003: drained by ops: NHC: disk"]
    assert [line["state"] for line in read_journal(tmp_path / LEDGER)] == ["intended", "not seen"]


def test_an_accepted_host_is_given_back_and_only_ours(tmp_path: Path) -> None:
    """A foreign drain, an edited reason, a drain of ours that no ledger knows: all stay."""
    bad = judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"])
    slurm = Slurm("gpu003")
    list(act(bad, nodes=SlurmNodes(slurm)))
    ours = slurm.nodes["gpu003"]
    good = accepted(judged(tmp_path, "20251123-2"), gpu003="ACCEPT")
    for foreign in (replace(ours, reason="NHC: disk", by="ops"), replace(ours, reason=ours.reason + ", and hot")):
        slurm.nodes["gpu003"] = foreign
        assert list(act(good, nodes=SlurmNodes(slurm))) == [
            f"gpu003: drained by {foreign.by}: {foreign.reason}; not by us, left as it is"
        ]
    slurm.nodes["gpu003"] = ours
    elsewhere = accepted(judged(tmp_path / "other", "20251123-2"), gpu003="ACCEPT")
    assert "not by us" in next(iter(act(elsewhere, nodes=SlurmNodes(slurm))))
    assert list(act(good, nodes=SlurmNodes(slurm))) == ["gpu003: given back to Slurm"]
    assert not slurm.nodes["gpu003"].is_drained
    assert list(act(good, nodes=SlurmNodes(slurm))) == ["gpu003: is not drained"]


def test_a_rejected_host_is_drained(tmp_path: Path) -> None:
    """A validation that fails names no suspect where the repair is what is missing."""
    slurm = Slurm("gpu003")
    (said,) = act(accepted(judged(tmp_path, "20251123-2"), gpu003="REJECT"), nodes=SlurmNodes(slurm))
    assert said == "gpu003: drained (fabric: post-repair: REJECT; run self-check/20251123-2)"


def test_a_bad_leaf_drains_nobody(tmp_path: Path) -> None:
    """It is said, for it is not done."""
    slurm = Slurm()
    (said,) = act(judged(tmp_path, "20251123-1", leaf1=["leaf1:uplinks"]), nodes=SlurmNodes(slurm))
    assert said == "leaf1:uplinks: it is no part of one host: nobody is drained for it"
    assert slurm.asked == []


def test_many_bad_hosts_are_not_drained_at_once(tmp_path: Path) -> None:
    """Three of eight: then it is the network, or the measurement."""
    fails = {f"gpu00{number}": [f"gpu00{number}/mlx5_0"] for number in (1, 2, 3)}
    slurm = Slurm(*fails)
    assert list(act(judged(tmp_path, "20251123-1", **fails), nodes=SlurmNodes(slurm))) == [
        "3 of 8 hosts have a bad part: too many to be drained at once"
    ]
    assert slurm.asked == []


def test_nothing_is_told_to_slurm_where_nothing_can_be_written_down(tmp_path: Path) -> None:
    """No drain without its line."""
    run, slurm = judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"]), Slurm("gpu003")
    (tmp_path / LEDGER).mkdir()
    (said,) = act(run, nodes=SlurmNodes(slurm))
    assert said.startswith("gpu003: not drained: ")
    assert not slurm.nodes["gpu003"].is_drained


def test_a_simulated_run_and_one_without_a_verdict_drain_nobody(tmp_path: Path) -> None:
    """Neither says anything of a real host."""
    with pytest.raises(ConfigError, match="simulated"):
        list(act(judged(tmp_path, "20251123-1", backend="mock", gpu003=["gpu003"]), nodes=SlurmNodes(Slurm("gpu003"))))
    with pytest.raises(StoreError, match="not judged"):
        list(act(tmp_path / "none" / "run", nodes=SlurmNodes(Slurm())))


def test_a_host_that_slurm_does_not_know_is_told(tmp_path: Path) -> None:
    """Names of the inventory may be others."""
    (said,) = act(judged(tmp_path, "20251123-1", gpu003=["gpu003"]), nodes=SlurmNodes(Slurm()))
    assert said == "gpu003: Slurm knows no node of that name"


def test_the_hosts_of_a_job() -> None:
    """As ``--hosts`` takes them; a job that is over has none."""
    assert hosts_of(job="7", reserved=None, run=Slurm()) == "gpu001,gpu002"
    with pytest.raises(ConfigError, match="--slurm-job: 8: squeue: exit 1: slurm_load_jobs error"):
        hosts_of(job="8", reserved=None, run=Slurm())
    with pytest.raises(ConfigError, match="a job is a number"):
        hosts_of(job="x y", reserved=None, run=Slurm())


def test_the_newest_run_that_speaks_of_a_host_decides(tmp_path: Path) -> None:
    """A simulated run says nothing, a later validation clears; who was never measured is open."""
    days = 100_000
    run = judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"])
    found = standing("gpu003", tmp_path, days=days)
    assert (found.outcome, found.why, found.run) == (Outcome.FAIL, "gpu003/mlx5_2", str(run))
    assert standing("gpu001", tmp_path, days=days).outcome is Outcome.PASS
    judged(tmp_path, "20251123-2", backend="mock")
    assert standing("gpu003", tmp_path, days=days).outcome is Outcome.FAIL
    accepted(judged(tmp_path, "20251123-3"), gpu003="ACCEPT")
    assert standing("gpu003", tmp_path, days=days).outcome is Outcome.PASS
    assert standing("gpu099", tmp_path, days=days).outcome is Outcome.INCONCLUSIVE


def test_a_gate_drains_what_it_found(tmp_path: Path) -> None:
    """With the same ledger and the same rules."""
    judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"])
    slurm = Slurm("gpu003")
    said = drain(standing("gpu003", tmp_path, days=100_000), tmp_path, nodes=SlurmNodes(slurm))
    assert said == "gpu003: drained (fabric: gpu003/mlx5_2; run self-check/20251123-1)"
    assert len(list(read_journal(tmp_path / LEDGER))) == 2


def changed(path: Path, **keys: Any) -> Path:
    """The same run with other keys in its verdict."""
    document = json.loads((path / "verdict.json").read_text())
    (path / "verdict.json").write_text(json.dumps(document | keys))
    return path


def without(path: Path, *names: str, outcome: str = "skipped") -> Path:
    """The same run, in which these parts have another outcome."""
    components = json.loads((path / "verdict.json").read_text())["components"]
    return changed(
        path,
        components=[one for one in components if one["component"] not in names]
        + [{"component": name, "outcome": outcome} for name in names],
    )


OPEN, BAD = Outcome.INCONCLUSIVE, Outcome.FAIL
DAYS = 36_500


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (lambda path: changed(path, format=2), OPEN),  # of another version
        (lambda path: (path / "verdict.json").write_text("{"), OPEN),  # damaged
        (lambda path: without(path, "gpu001", outcome="inconclusive"), OPEN),
        (lambda path: without(path, "gpu001/mlx5_3", outcome="error"), OPEN),
        (lambda path: accepted(path, gpu001="INCONCLUSIVE"), OPEN),
        (lambda path: (path / "run.json").write_text('{"because": {}}'), OPEN),  # a repair, and nothing decided
        (lambda path: path.rename(path.with_name("20991123-1")), OPEN),  # of the future
        (lambda path: killed(path, "gpu001"), OPEN),
        (lambda path: killed(path, "gpu002"), Outcome.PASS),  # it was not asked
        (lambda path: killed(path, "gpu001", backend="mock"), Outcome.PASS),
        (lambda path: without(path, "gpu001"), Outcome.PASS),  # left out: the older run holds
        (lambda path: path.rename(path.with_name("old-20251123-2")), Outcome.PASS),  # no name of a run
    ],
)
def test_a_newer_run_that_does_not_say_good_is_no_pass(tmp_path: Path, newest: Any, expected: Outcome) -> None:
    """An older run said so; what the newer one is about is not known, or not good."""
    judged(tmp_path, "20251123-1")
    newest(judged(tmp_path, "20251123-2"))
    assert standing("gpu001", tmp_path, days=DAYS).outcome is expected


def test_either_of_a_pair_is_no_pass_and_nobody_is_drained(tmp_path: Path) -> None:
    """One of them is bad, or what is between them; so with rivals on another host."""
    suspect = {"component": "gpu001+gpu002", "outcome": "fail", "hosts": ["gpu001", "gpu002"], "kind": "pair"}
    rivals = {"component": "gpu003/mlx5_0", "outcome": "fail", "hosts": ["gpu003"], "kind": "rnic"}
    sure = {"confidence": 0.5, "evidence": []}
    run = changed(
        judged(tmp_path, "20251123-1"),
        suspects=[suspect | sure, rivals | sure | {"ambiguous_with": ["leaf1"]}],
    )
    for host in ("gpu001", "gpu002", "gpu003"):
        assert standing(host, tmp_path, days=DAYS).outcome is OPEN
    slurm = Slurm("gpu001", "gpu002", "gpu003")
    assert all("nobody is drained" in line for line in act(run, nodes=SlurmNodes(slurm)))
    assert slurm.asked == []


def test_a_bad_part_stays_bad_until_it_was_measured_again(tmp_path: Path) -> None:
    """A run of other parts does not clear it, nor one that could not measure the host."""
    judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2->numa1-gpus"])
    judged(tmp_path, "20251123-2")
    without(judged(tmp_path, "20251123-3"), "gpu003", outcome="inconclusive")
    assert standing("gpu003", tmp_path, days=DAYS).outcome is BAD
    without(judged(tmp_path, "20251123-4"), "gpu003/mlx5_2", outcome="pass")
    assert standing("gpu003", tmp_path, days=DAYS).outcome is Outcome.PASS


def test_an_old_run_does_not_undo_a_newer_one(tmp_path: Path) -> None:
    """Acted upon late: a host that was accepted since is not drained, one found bad since is not given back."""
    slurm = Slurm("gpu003")
    old = judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"])
    good = accepted(judged(tmp_path, "20251123-2"), gpu003="ACCEPT")
    assert list(act(old, nodes=SlurmNodes(slurm))) == [f"gpu003: not drained: found to be good since, by {good}"]
    list(act(judged(tmp_path, "20251123-3", gpu003=["gpu003/mlx5_2"]), nodes=SlurmNodes(slurm)))
    assert "drained since" in next(iter(act(good, nodes=SlurmNodes(slurm))))
    assert slurm.nodes["gpu003"].is_drained


def test_a_gate_drains_no_host_of_a_run_with_too_many(tmp_path: Path) -> None:
    """Each host's own gate would drain all of them, one by one."""
    judged(tmp_path, "20251123-1", **{f"gpu00{number}": [f"gpu00{number}/mlx5_0"] for number in (1, 2, 3)})
    slurm = Slurm("gpu001")
    assert "too many" in drain(standing("gpu001", tmp_path, days=DAYS), tmp_path, nodes=SlurmNodes(slurm))
    assert slurm.asked == []


def marginal(path: Path, *hosts: str) -> Path:
    """The same run, in which a part of these hosts is MARGINAL and nothing is bad."""
    known = {"outcome": "marginal", "kind": "rnic", "confidence": 0.9, "evidence": []}
    suspects = [known | {"component": f"{host}/mlx5_0", "hosts": [host]} for host in hosts]
    return changed(without(path, *hosts, outcome="marginal"), suspects=suspects)


def test_a_marginal_part_is_of_low_severity(tmp_path: Path) -> None:
    """A job may begin, the host is drained for after it; ``act`` of the run drains nobody, a later good run ends it."""
    run, slurm = marginal(judged(tmp_path, "20251123-1"), "gpu003"), Slurm("gpu003")
    found = standing("gpu003", tmp_path, days=DAYS)
    assert (found.outcome, found.why, found.run) == (Outcome.MARGINAL, "gpu003/mlx5_0", str(run))
    assert (list(act(run, nodes=SlurmNodes(slurm))), slurm.asked) == ([], [])
    assert drain(found, tmp_path, nodes=SlurmNodes(slurm)) == (
        "gpu003: drained (fabric: gpu003/mlx5_0 (marginal); run self-check/20251123-1)"
    )
    assert standing("gpu001", tmp_path, days=DAYS).outcome is Outcome.PASS
    judged(tmp_path, "20251123-2")
    assert standing("gpu003", tmp_path, days=DAYS).outcome is Outcome.PASS


def test_many_marginal_hosts_are_not_drained(tmp_path: Path) -> None:
    """As of bad ones."""
    marginal(judged(tmp_path, "20251123-1"), "gpu001", "gpu002", "gpu003")
    slurm = Slurm("gpu001")
    said = drain(standing("gpu001", tmp_path, days=DAYS), tmp_path, nodes=SlurmNodes(slurm))
    assert said == "gpu001: not drained: 3 of 8 hosts have a bad or marginal part: too many to be drained at once"
    assert slurm.asked == []


def test_the_ledger_is_in_the_results_folder_also_from_within_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``fabric report . --act drain``."""
    monkeypatch.chdir(judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"]))
    list(act(Path(), nodes=SlurmNodes(Slurm("gpu003"))))
    assert (tmp_path / LEDGER).is_file()


def test_hosts_that_are_drained_at_once_wait_for_the_ledger(tmp_path: Path) -> None:
    """A health check runs on all hosts in the same second."""
    names = [f"gpu{number:03d}" for number in range(1, 9)]
    for number, name in enumerate(names, start=1):
        judged(tmp_path, f"20251123-{number}", hosts=0, **{name: [f"{name}/mlx5_0"]})
        changed(
            tmp_path / "self-check" / f"20251123-{number}",
            suspects=[
                {
                    **{"component": name, "outcome": "fail", "hosts": [name], "kind": "host"},
                    **{"confidence": 0.9, "evidence": []},
                }
            ],
        )
    slurm = Slurm(*names)
    with ThreadPoolExecutor(8) as pool:
        said = list(
            pool.map(lambda name: drain(standing(name, tmp_path, days=DAYS), tmp_path, nodes=SlurmNodes(slurm)), names)
        )
    assert all(": drained (" in line for line in said), said
    assert len(list(read_journal(tmp_path / LEDGER))) == 2 * len(names)


def test_a_step_is_one_task_on_each_node_beside_all_others() -> None:
    argv = words_of_slurm.step("12", ["gpu001", "gpu002"], ["--gres=gpu:8"], ["python3", "-c", "a b"])
    assert argv[:3] == ("srun", "--jobid=12", "--overlap")
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=gpu[001-002]"} <= {*argv}
    assert argv[-5:] == ("--gres=gpu:8", "/usr/bin/env", "python3", "-c", "a b")
    for job, nodes, option in (
        ("1;2", ["gpu001"], ""),
        ("1", ["gpu 1"], ""),
        ("1", ["-x"], ""),
        ("1", ["gpu001"], "a b"),
    ):
        with pytest.raises(ValueError, match=r"job|node|option"):
            words_of_slurm.step(job, nodes, [option] if option else [], ["true"])


def test_what_srun_says_of_a_node_that_is_away() -> None:
    said = (
        "srun: error: Task launch for StepId=6.0 failed on node gpu005: Communication connection failure\n"
        "srun: error: Application launch failed: Communication connection failure\nsrun: Job step aborted\n"
    )
    assert words_of_slurm.not_launched(said) == {"gpu005": "Communication connection failure"}


@pytest.mark.parametrize(("said", "ports"), [("0-0", range(0)), ("60001-60003", range(60001, 60004))])
def test_the_ports_of_steps_are_the_site_s(said: str, ports: range) -> None:
    assert words_of_slurm.srun_ports(f"SlurmUser               = root(0)\nSrunPortRange           = {said}\n") == ports
    assert words_of_slurm.srun_ports("SlurmUser = root(0)\n") == range(0)
