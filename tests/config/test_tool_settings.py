"""How tools are called on a platform's hosts: read from the file, kept in run.json, every mistake explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fabric import config
from fabric.model.topology import Platform

Explained = Callable[[Callable[[], object], list[str]], None]

AFTER = "    numa_nodes: 2\n"
SETTINGS = """\
    gid_index: 3
    tools: {ib_write_bw: /opt/perftest/bin/ib_write_bw, mpirun: /usr/lib64/openmpi-4.1+cuda/bin/mpirun}
    env: {NCCL_SOCKET_IFNAME: eth0, NCCL_IB_TC: 106, NCCL_DEBUG_SUBSYS: "INIT,NET", NCCL_IGNORE_CPU_AFFINITY: on}
    mpirun_options: [--allow-run-as-root, --mca, btl_tcp_if_include, eth0, -mca, btl_tcp_eager_limit, 65536]
    srun_options: [--gres=gpu:8, --partition, burn-in, --mpi=pmi2]
    nccl_tests_options: [-R, 1]
    wrapper: [apptainer, exec, --nv, /opt/nccl.sif]
    use_cuda: dmabuf
"""


def with_settings(folder: Path, text: str, settings: str) -> Path:
    """The inventory with these lines in its platform, from line 8 on."""
    assert text.count(AFTER) == 1
    path = folder / "inventory.yaml"
    path.write_text(text.replace(AFTER, AFTER + settings))
    return path


def platform(path: Path) -> Platform:
    """The one platform of an inventory."""
    return config.load_inventory(path).topology.hosts["gpu1"].platform


def test_settings_become_the_model(folder: Path, inventory_text: str) -> None:
    """Numbers and words are handed on as written, in the order written."""
    found = platform(with_settings(folder, inventory_text, SETTINGS))
    assert found.gid_index == 3
    assert found.program("ib_write_bw") == "/opt/perftest/bin/ib_write_bw"
    assert found.program("mpirun") == "/usr/lib64/openmpi-4.1+cuda/bin/mpirun"
    assert found.program("numactl") == "numactl"
    assert found.env == (
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("NCCL_IB_TC", "106"),
        ("NCCL_DEBUG_SUBSYS", "INIT,NET"),
        ("NCCL_IGNORE_CPU_AFFINITY", "on"),
    )
    assert found.mpirun_options == (
        *("--allow-run-as-root", "--mca", "btl_tcp_if_include", "eth0"),
        *("-mca", "btl_tcp_eager_limit", "65536"),
    )
    assert found.srun_options == ("--gres=gpu:8", "--partition", "burn-in", "--mpi=pmi2")
    assert (found.nccl_tests_options, found.use_cuda) == (("-R", "1"), "dmabuf")
    assert found.wrapper == ("apptainer", "exec", "--nv", "/opt/nccl.sif")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("    traffic_class: 41\n", 41),
        ("    env: {NCCL_IB_TC: 106}\n", 106),
        ("    env: {NCCL_IB_TC: 106}\n    traffic_class: 41\n", 41),
        ("    env: {NCCL_IB_TC: 300}\n", None),
        ("", None),
    ],
)
def test_bandwidth_is_measured_in_the_class_of_collectives(
    folder: Path, inventory_text: str, settings: str, expected: int | None
) -> None:
    """Unless the platform says another one."""
    text = inventory_text.replace("link_layer: infiniband", "link_layer: ethernet")
    assert platform(with_settings(folder, text, settings)).traffic_class == expected


BAD = [
    ("tools: {ib_wrte_bw: /bin/x}", "8: unknown key 'ib_wrte_bw'; did you mean 'ib_write_bw'?"),
    ('tools: {mpirun: "/bin/sh;reboot"}', "8: expected an absolute path"),
    ("env: {nccl_debug: INFO}", "8: expected a variable's name of 1 to 64 capital letters, digits and '_'"),
    ('env: {NCCL_DEBUG: "a\\tb"}', "8: expected a value (printable, 1 to 4096 characters, one line), got 'a\\tb'"),
    ("env: {NCCL_ALGO: TREE}", "8: 'NCCL_ALGO' cannot be set here: the scenario says it (tor_all_reduce: algorithm)"),
    ("env: {CUDA_VISIBLE_DEVICES: 0}", "8: 'CUDA_VISIBLE_DEVICES' cannot be set here: each probe has its own GPUs"),
    ('mpirun_options: ["--mca btl self"]', "8: expected one printable word without blanks"),
    ("mpirun_options: [reboot]", "8: expected an option first, got 'reboot', which mpirun would run"),
    ("mpirun_options: [--mca, btl]", "8: expected a name and a value after '--mca'"),
    ("mpirun_options: [-x, NCCL_ALGO=TREE]", "8: '-x' is not taken here: write variables under 'env'"),
    ("perftest_options: [node02]", "8: expected an option first, got 'node02', which perftest would not take"),
    ("perftest_options: [-R, --qp=4]", "8: '--qp=4' cannot be set here: the probe says it"),
    ("traffic_class: 106", "8: 'traffic_class' is for link_layer ethernet: InfiniBand has service levels (NCCL_IB_SL)"),
    ("srun_options: [--gres=gpu:8, --nodes=2]", "8: '--nodes=2' cannot be set here: the probe says it"),
    ("nccl_tests_options: [-R, 1, -b, 8]", "8: '-b' cannot be set here: the probe says it"),
    ("wrapper: [--nv]", "8: expected a program first, got '--nv'"),
    ("mpirun_options: [--oversubscribe, -np, 4]", "8: '-np' cannot be set here: the probe sets hosts and ranks"),
]


@pytest.mark.parametrize(("line", "expected"), BAD, ids=[line for line, _ in BAD])
def test_a_bad_setting_is_explained(
    folder: Path, inventory_text: str, explained: Explained, line: str, expected: str
) -> None:
    """Each mistake is one problem, on its line."""
    path = with_settings(folder, inventory_text, f"    {line}\n")
    explained(lambda: config.load_inventory(path), [expected])
