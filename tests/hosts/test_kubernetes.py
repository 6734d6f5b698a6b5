"""
Nodes of Kubernetes through the official client, against the documented contract of the API server (no cluster).

``kubectl`` itself, where it is here, is the somebody else who cordons and gives back.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("kubernetes")

from fabric.app.scheduler import act
from fabric.errors import ConfigError, ToolError
from fabric.hosts.kubernetes import CONDITION, OWNER, TAINT, KubernetesNodes
from fabric.runs.journal import LEDGER, read_journal
from tests.app.test_scheduler import accepted, judged
from tests.cli.command_line import called
from tests.hosts.kubernetes_server import Cluster, serving
from tests.places import ROOT

REASON = "fabric: gpu003/mlx5_2; run self-check/20251123-1"
OURS = {"key": TAINT, "value": "true", "effect": "NoSchedule"}
THEIRS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.fixture
def cluster() -> Cluster:
    """Four nodes; one has a taint of somebody else."""
    made = Cluster("gpu001", "gpu002", "gpu003", "gpu004", pool="h100")
    made.set("gpu003", {"spec": {"taints": [THEIRS]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    return made


@pytest.fixture
def address(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where it is, and a KUBECONFIG that says so."""
    with serving(cluster) as where:
        named = {"cluster": "c", "user": "u"}
        config = {
            **{"apiVersion": "v1", "kind": "Config", "current-context": "x"},
            "clusters": [{"name": "c", "cluster": {"server": where}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": named}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield where


@pytest.fixture
def nodes(address: str) -> KubernetesNodes:
    """Reached as kubectl reaches them."""
    return KubernetesNodes()


def bad_run(tmp_path: Path) -> Path:
    """It found a bad part."""
    return judged(tmp_path, "20251123-1", gpu003=["gpu003/mlx5_2"])


def good_run(tmp_path: Path) -> Path:
    """It accepted the host after a repair."""
    return accepted(judged(tmp_path, "20251123-2"), gpu003="ACCEPT")


@pytest.mark.slow
def test_a_bad_host_is_cordoned_and_an_accepted_one_given_back(
    cluster: Cluster, nodes: KubernetesNodes, tmp_path: Path
) -> None:
    """With taint, annotation and condition; what others wrote stays; the ledger has a line before and after each."""
    bad = bad_run(tmp_path)
    assert list(act(bad, nodes=nodes)) == [f"gpu003: drained ({REASON})"]
    node = cluster.nodes["gpu003"]
    assert node["spec"] == {"unschedulable": True, "taints": [THEIRS, OURS]}
    assert node["metadata"]["annotations"] == {OWNER: REASON}
    ready, ours = node["status"]["conditions"]
    assert (ready["type"], ours["type"], ours["status"], ours["message"]) == ("Ready", CONDITION, "False", REASON)
    assert list(act(good_run(tmp_path), nodes=nodes)) == ["gpu003: given back to Kubernetes"]
    node = cluster.nodes["gpu003"]
    assert (node["spec"], node["metadata"]["annotations"]) == ({"taints": [THEIRS]}, {})
    assert node["status"]["conditions"][1]["status"] == "True"
    assert list(act(tmp_path / "self-check" / "20251123-2", nodes=nodes)) == ["gpu003: is not drained"]
    lines = [(line["change"], line["state"], line["act"]) for line in read_journal(tmp_path / LEDGER)]
    assert lines == [
        ("kubernetes/gpu003", state, act) for act in ("drain", "undrain") for state in ("intended", "done")
    ]


@pytest.mark.slow
def test_a_cordon_of_somebody_else_is_left_as_it_is(cluster: Cluster, nodes: KubernetesNodes, tmp_path: Path) -> None:
    """Before ours, also one of NVSentinel; and an accepted host that another holds is not given back."""
    bad = bad_run(tmp_path)
    cluster.set("gpu003", {"spec": {"unschedulable": True}})
    (said,) = act(bad, nodes=nodes)
    assert said == "gpu003: is drained already (somebody else: cordoned without a reason); left as it is"
    cluster.set("gpu003", {"metadata": {"labels": {"k8saas.nvidia.com/cordon-by": "NVSentinel"}}})
    (said,) = act(good_run(tmp_path), nodes=nodes)
    assert said.startswith("gpu003: drained by k8saas.nvidia.com/cordon-by=NVSentinel")
    assert cluster.patched == []


def test_who_cordons_between_our_look_and_our_patch_is_not_overwritten(
    cluster: Cluster, nodes: KubernetesNodes, tmp_path: Path
) -> None:
    """The patch rests on a version that is gone: 409, a second look, and hands off."""
    bad = bad_run(tmp_path)
    others = iter([lambda: cluster.set("gpu003", {"spec": {"unschedulable": True}})])
    cluster.before = lambda name: next(others, lambda: None)()
    (said,) = act(bad, nodes=nodes)
    assert said.startswith("gpu003: drained by somebody else")
    assert "somebody else cordoned it meanwhile" in said
    assert OWNER not in cluster.nodes["gpu003"]["metadata"].get("annotations", {})
    assert [line["state"] for line in read_journal(tmp_path / LEDGER)] == ["intended", "not seen"]


def test_a_kubelet_that_writes_meanwhile_only_makes_it_try_again(
    cluster: Cluster, nodes: KubernetesNodes, tmp_path: Path
) -> None:
    """And one that never stops is told, with nothing done."""
    beats = iter(range(2))

    def beat(name: str) -> None:
        if (number := next(beats, None)) is not None:
            cluster.set(name, {"status": {"beat": str(number)}})

    cluster.before = beat
    assert "drained (fabric" in next(iter(act(bad_run(tmp_path), nodes=nodes)))
    cluster.before = lambda name: cluster.set(name, {"status": {"beat": "again"}})
    with pytest.raises(ToolError, match="altered by others 5 times in a row"):
        nodes.drain("gpu001", REASON)
    assert cluster.nodes["gpu001"]["spec"] == {}


def test_what_somebody_uncordoned_is_not_cordoned_again_for_the_same(
    cluster: Cluster, nodes: KubernetesNodes, tmp_path: Path
) -> None:
    """A person knew better; an edited reason is no longer ours, either."""
    bad = bad_run(tmp_path)
    list(act(bad, nodes=nodes))
    cluster.set("gpu003", {"spec": {"unschedulable": None}})
    assert list(act(bad, nodes=nodes)) == ["gpu003: was drained for that, and somebody ended it; left as it is"]
    cluster.set("gpu003", {"spec": {"unschedulable": True}, "metadata": {"annotations": {OWNER: "ops: mine now"}}})
    assert "not by us" in next(iter(act(good_run(tmp_path), nodes=nodes)))


def test_no_right_to_write_the_condition_is_told_and_the_cordon_stands(
    cluster: Cluster, nodes: KubernetesNodes, tmp_path: Path
) -> None:
    """``nodes/status`` is a right of its own."""
    cluster.forbids_status = True
    (said,) = act(bad_run(tmp_path), nodes=nodes)
    assert said.startswith(f"gpu003: drained ({REASON}) (the condition FabricHealthy was not written: kubernetes: 403")
    assert cluster.nodes["gpu003"]["spec"]["unschedulable"] is True


def test_a_node_that_is_not_there_and_a_server_that_is_not_there(address: str, tmp_path: Path) -> None:
    """Said, host by host; the exit code stays that of the run."""
    bad = judged(tmp_path, "20251123-1", gpu008=["gpu008/mlx5_2"])
    assert list(act(bad, nodes=KubernetesNodes())) == ["gpu008: Kubernetes knows no node of that name"]
    config = Path(tmp_path / "kubeconfig")
    config.write_text(config.read_text().replace(address, "http://127.0.0.1:9"))
    (said,) = act(bad, nodes=KubernetesNodes())
    assert said.startswith("gpu008: not drained: kubernetes: no answer")
    config.unlink()
    with pytest.raises(ConfigError, match="no cluster is configured here"):
        KubernetesNodes()


def test_hosts_come_from_a_label_selector(cluster: Cluster, nodes: KubernetesNodes) -> None:
    """Page by page."""
    cluster.set("gpu004", {"metadata": {"labels": {"pool": "cpu"}}})
    cluster.page = 2
    assert nodes.selected("pool=h100") == ("gpu001", "gpu002", "gpu003")
    with pytest.raises(ConfigError, match="no node has the labels 'pool=b200'"):
        nodes.selected("pool=b200")
    words = ("plan", "scenarios/self-check.yaml", "--inventory", "inventory/pod-64.yaml", "--selector", "pool=h100")
    assert "gpu[001-003]" in called(words, ROOT).stdout
    assert called((*words, "--hosts", "gpu001"), ROOT).returncode == 2


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_is_the_somebody_else(cluster: Cluster, address: str, nodes: KubernetesNodes, tmp_path: Path) -> None:
    """The real one cordons and uncordons here: also a look at this server by a client that we did not write."""

    def kubectl(*words: str) -> str:
        argv = ("kubectl", "--server", address, "--cache-dir", str(tmp_path / "cache"), *words)
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout

    bad = bad_run(tmp_path)
    assert kubectl("cordon", "gpu003") == "node/gpu003 cordoned\n"
    assert "is drained already (somebody else" in next(iter(act(bad, nodes=nodes)))
    assert kubectl("uncordon", "gpu003") == "node/gpu003 uncordoned\n"
    assert "drained (fabric" in next(iter(act(bad, nodes=nodes)))
    seen = json.loads(kubectl("get", "node", "gpu003", "-o", "json"))
    assert (seen["spec"]["unschedulable"], seen["metadata"]["annotations"][OWNER]) == (True, REASON)
    kubectl("uncordon", "gpu003")
    assert "somebody ended it" in next(iter(act(bad, nodes=nodes)))
    assert list(act(good_run(tmp_path), nodes=nodes)) == ["gpu003: is not drained"]
