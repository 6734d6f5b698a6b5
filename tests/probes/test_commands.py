"""What a platform and a phase say of tools is in every command; what is sampled on a host, and how it is called."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import dgx_platform, rack_topology
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Command, CommandResult, NamedPart, ParamValue, Probe
from fabric.model.sampling import SampleSettings
from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.topology import Platform, Topology
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.kinds import KINDS, expand_phase, in_host_memory, left_out
from fabric.probes.latency import LatencySpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.sources import PFC, ROOT, Meaning, meaning, sources_of
from fabric.probes.tor_all_reduce import TorAllReduceSpec

PATHS = {
    "ib_write_bw": "/opt/perftest/bin/ib_write_bw",
    "numactl": "/opt/numactl/bin/numactl",
    "alltoall_perf": "/opt/nccl-tests/build/alltoall_perf",
    "all_reduce_perf": "/opt/nccl-tests/build/all_reduce_perf",
    "mpirun": "/opt/openmpi/bin/mpirun",
    "srun": "/opt/slurm/bin/srun",
}
SITE = replace(
    dgx_platform("site"),
    gid_index=3,
    tools=tuple(PATHS.items()),
    env=(("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_IB_TC", "106")),
    mpirun_options=("--allow-run-as-root", "--mca", "btl_tcp_if_include", "eth0"),
    srun_options=("--gres=gpu:8", "--mpi=pmi2"),
    nccl_tests_options=("-R", "1"),
)


def rack(platform: Platform, hosts: int = 3) -> Topology:
    """Hosts of a platform under one set of rail leaves."""
    plain = rack_topology(hosts)
    return replace(plain, hosts={name: replace(host, platform=platform) for name, host in plain.hosts.items()})


def commands(spec: ProbeSpec, topology: Topology) -> list[Command]:
    """Every command of every probe of a spec."""
    probes: list[Probe] = expand_phase(Phase("p", (spec,)), topology, tuple(topology.hosts))
    made = [KINDS[probe.kind].commands(probe, topology) for probe in probes]
    return [command for each in made for command in (*each.servers, each.client)]


SPECS = [LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec(), TorAllReduceSpec(), TorAllReduceSpec(launcher="srun")]


@pytest.mark.parametrize("spec", SPECS, ids=["loopback", "rnic_to_rnic", "all_to_all", "mpirun", "srun"])
def test_every_program_is_called_by_its_path(spec: ProbeSpec) -> None:
    """No command has the bare name of a program whose path is given."""
    found = commands(spec, rack(SITE))
    words = {word for command in found for word in command.argv}
    assert words & set(PATHS) == set()
    assert all(command.argv[0].startswith("/opt/") for command in found)


@pytest.mark.parametrize(
    ("options", "words"), [((), ["--tclass=106"]), (("-R", "--retry_count=5"), ["--tos=106", "-R", "--retry_count=5"])]
)
@pytest.mark.parametrize("spec", [*SPECS[:2], LatencySpec()], ids=["loopback", "rnic_to_rnic", "latency"])
def test_perftest_is_in_the_class_of_collectives(spec: ProbeSpec, options: tuple[str, ...], words: list[str]) -> None:
    """On both sides, by the address of each queue pair or, where rdma_cm makes them, by the type of service."""
    platform = replace(SITE, traffic_class=106, perftest_options=options)
    for command in commands(spec, rack(platform)):
        assert [one for one in command.argv if one.startswith(("--t", "-R", "--retry"))] == words
    exported = commands(TorAllReduceSpec(), rack(replace(platform, env=())))[0].argv
    assert "NCCL_IB_TC=106" in exported


def test_mpirun_gets_options_first_and_variables_by_x() -> None:
    """The site's words stand right after mpirun; each variable is exported."""
    argv = commands(TorAllReduceSpec(), rack(SITE))[0].argv
    assert argv[:6] == (PATHS["mpirun"], *SITE.mpirun_options, "-np")
    exported = [argv[position + 1] for position, word in enumerate(argv) if word == "-x"]
    assert exported[0] == "NCCL_DEBUG=WARN"
    assert exported[1:5] == ["NCCL_SOCKET_IFNAME=eth0", "NCCL_IB_TC=106", "NCCL_IB_GID_INDEX=3", "NCCL_ALGO=RING"]
    assert argv[argv.index("-b") - 1] == PATHS["all_reduce_perf"]


def test_srun_gets_variables_by_env() -> None:
    """mpirun's options are not srun's."""
    argv = commands(TorAllReduceSpec(launcher="srun"), rack(SITE))[0].argv
    assert argv[0] == PATHS["srun"]
    assert {"NCCL_SOCKET_IFNAME=eth0", "NCCL_IB_GID_INDEX=3"} <= set(argv[argv.index("env") :])
    assert "--allow-run-as-root" not in argv
    assert argv.index("--gres=gpu:8") + 1 == argv.index("--mpi=pmi2") > argv.index("--mpi=pmix")
    assert argv[-2:] == ("-R", "1")


@pytest.mark.parametrize("spec", SPECS, ids=["loopback", "rnic_to_rnic", "all_to_all", "mpirun", "srun"])
def test_what_measures_is_started_by_the_wrapper(spec: ProbeSpec) -> None:
    """And a launcher starts the wrapper, once a rank."""
    wrapper = ("apptainer", "exec", "--nv", "/opt/nccl.sif")
    plain = [command.argv for command in commands(spec, rack(SITE))]
    for wrapped, argv in zip(commands(spec, rack(replace(SITE, wrapper=wrapper))), plain, strict=True):
        place = wrapped.argv.index("apptainer")
        assert wrapped.argv == (*argv[:place], *wrapper, *argv[place:])


@pytest.mark.parametrize(("use", "options"), [("auto", 0), ("peermem", 0), ("dmabuf", 1)])
def test_gpu_memory_is_registered_as_the_platform_says(use: str, options: int) -> None:
    """perftest takes the one option after the other only."""
    on_gpu = [c.argv for c in commands(LoopbackSpec(), rack(replace(SITE, use_cuda=use), 1)) if "use_cuda=" in str(c)]
    assert len(on_gpu) == 2 * 64
    for argv in on_gpu:
        place = next(number for number, word in enumerate(argv) if word.startswith("--use_cuda="))
        assert argv[place + 1 :].count("--use_cuda_dmabuf") == argv.count("--use_cuda_dmabuf") == options


def test_without_cuda_memory_nodes_are_measured_and_it_is_said() -> None:
    """16 of 80 paths of a host are left; nothing asks for a build with CUDA."""
    platform = replace(SITE, use_cuda="no")
    topology, phase = rack(platform, 1), Phase("p", (LoopbackSpec(),))
    found = commands(LoopbackSpec(), topology)
    assert len(found) == 2 * 16
    assert not any("cuda" in word for command in found for word in command.argv)
    assert (uses := LoopbackSpec().uses(platform)) is not None
    assert (uses.cuda, uses.gpudirect) == (False, False)
    (note,) = in_host_memory(phase, topology, tuple(topology.hosts))
    assert note.text.startswith("loopback on gpu001: host memory only")
    assert in_host_memory(phase, rack(SITE), ("gpu001",)) == []


@pytest.mark.parametrize(
    "other",
    [
        replace(SITE, name="other", gid_index=1),
        replace(SITE, name="other", env=()),
        replace(SITE, name="other", tools=()),
        replace(SITE, name="other", rnics=tuple(replace(rnic, device=f"x{rnic.device}") for rnic in SITE.rnics)),
    ],
    ids=["gid_index", "env", "all_reduce_perf", "rnics"],
)
def test_hosts_that_no_one_command_line_fits_are_no_neighbours(other: Platform) -> None:
    """One launcher starts both hosts with one environment: where that cannot be, the odd host is said to be alone."""
    topology = rack(SITE)
    mixed = replace(topology, hosts={**topology.hosts, "gpu003": replace(topology.hosts["gpu003"], platform=other)})
    phase = Phase("p", (TorAllReduceSpec(),))
    probes = expand_phase(phase, mixed, tuple(mixed.hosts))
    assert [probe.hosts for probe in probes] == [("gpu001", "gpu002")]
    assert left_out(phase, tuple(mixed.hosts), probes, mixed)[0].text.startswith(
        "no tor_all_reduce on gpu003: it needs"
    )


@pytest.mark.parametrize("bad", ["mpi run", "-mpirun", "", "bin/mpirun", "/opt/mpi;ls", "/opt/mpi\n", "A=b"])
def test_no_path_can_be_misread(bad: str) -> None:
    """A path that is an option, a script or relative never reaches a command line."""
    with pytest.raises(ValueError, match="command line could misread"):
        commands(TorAllReduceSpec(), rack(replace(SITE, tools=(("mpirun", bad),))))


ENV = (("NCCL_IB_TIMEOUT", "22"), ("NCCL_IB_SL", "1"), ("NCCL_TUNER", "a=b c"))
COLLECTIVES: list[ProbeSpec] = [
    AllToAllSpec(),
    TorAllReduceSpec(),
    TorAllReduceSpec(launcher="srun"),
    GroupAllReduceSpec(),
    ConcurrentRingsSpec(),
]


def probes(spec: ProbeSpec, env: tuple[tuple[str, str], ...] = (), topology: Topology | None = None) -> list[Probe]:
    """All probes of a phase with these variables."""
    topology = topology or rack_topology(4)
    return expand_phase(Phase("p", (spec,), env=env), topology, tuple(topology.hosts))


def given(probe: Probe, topology: Topology) -> set[str]:
    """Every NAME=VALUE that a probe's command hands on, in its argv or its environment."""
    client = KINDS[probe.kind].commands(probe, topology).client
    return {*client.argv, *(f"{name}={value}" for name, value in client.env)}


@pytest.mark.parametrize("spec", COLLECTIVES, ids=["all_to_all", "mpirun", "srun", "group", "rings"])
def test_every_collective_is_given_the_variables(spec: ProbeSpec) -> None:
    """Whatever starts it; a value may hold blanks and equal signs."""
    for probe in probes(spec, ENV):
        assert {"NCCL_IB_TIMEOUT=22", "NCCL_IB_SL=1", "NCCL_TUNER=a=b c"} <= given(probe, rack_topology(4))


@pytest.mark.parametrize("spec", [*COLLECTIVES, LoopbackSpec(), RnicToRnicSpec()], ids=lambda spec: type(spec).__name__)
def test_without_variables_nothing_changes(spec: ProbeSpec) -> None:
    """And with them no id, claim or duration does: baselines and resumed runs find their probes."""
    plain, varied = probes(spec), probes(spec, ENV)
    assert all("env" not in probe.params for probe in plain)
    assert [replace(probe, params={}) for probe in plain] == [replace(probe, params={}) for probe in varied]


def test_the_phase_wins_over_the_platform() -> None:
    """And the probe's own choice over both."""
    platform = replace(dgx_platform(), env=(("NCCL_IB_TIMEOUT", "18"), ("NCCL_IB_TC", "106")))
    plain = rack_topology(2)
    hosts = {name: replace(host, platform=platform) for name, host in plain.hosts.items()}
    topology = replace(plain, hosts=hosts)
    (probe,) = probes(TorAllReduceSpec(), (*ENV, ("NCCL_ALGO", "TREE")), topology)
    found = given(probe, topology)
    assert {"NCCL_IB_TIMEOUT=22", "NCCL_IB_TC=106", "NCCL_ALGO=RING"} <= found
    assert not found & {"NCCL_IB_TIMEOUT=18", "NCCL_ALGO=TREE"}


PARAMS: dict[str, ParamValue] = {"sizes_bytes": (1 << 30,), "ranks": 16, "iterations": 20}


@pytest.mark.parametrize("said", ["\x00\x1b[2J", "", "# nThread 1 nGpus 1\n# 1 2 3 4\n" * 9])
@pytest.mark.parametrize("hosts", [("gpu001", "gpu002"), ("gpu001",)])
def test_nonsense_with_exit_0_is_the_host_that_started_the_job(hosts: tuple[str, ...], said: str) -> None:
    probe = Probe("p", "tor_all_reduce", "tor", hosts, (), 1.0, PARAMS)
    client = CommandResult(Command("gpu001", ("mpirun",), 1.0), 0, said, "", 0.0, 1.0)
    reading = TorAllReduceSpec.read(probe, rack_topology(2), Answered((), client))
    assert reading.outcome is Outcome.ERROR
    assert reading.named == (NamedPart("gpu001", "garbled") if len(hosts) > 1 else None)


HYDRA = "[mpiexec@gpu001] match_arg (lib/utils/args.c:166): unrecognized argument host\n[mpiexec@gpu001] main: error\n"


@pytest.mark.parametrize(
    ("status", "said", "condition"),
    [
        (255, HYDRA, "other_mpi"),
        (127, "mpirun: No such file or directory\n", "lacking"),
        (127, "env: 'mpirun': No such file or directory\n", "lacking"),
        (127, "/opt/all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open\n-----\n", None),
    ],
)
def test_a_launcher_that_cannot_begin_is_its_hosts_and_no_leafs(status: int, said: str, condition: str | None) -> None:
    """A program that lacks a library may be that of any host."""
    probe = Probe("p", "tor_all_reduce", "tor", ("gpu001", "gpu002"), (), 1.0, PARAMS)
    client = CommandResult(Command("gpu001", ("mpirun",), 1.0), status, "", said, 0.0, 1.0)
    reading = TorAllReduceSpec.read(probe, rack_topology(2), Answered((), client))
    assert (reading.outcome, reading.named) == (Outcome.ERROR, condition and NamedPart("gpu001", condition))


def test_a_job_that_ended_with_an_error_is_nobodys_yet() -> None:
    probe = Probe("p", "tor_all_reduce", "tor", ("gpu001", "gpu002"), (), 1.0, PARAMS)
    client = CommandResult(Command("gpu001", ("mpirun",), 1.0), 1, "", "ssh: no route", 0.0, 1.0)
    reading = TorAllReduceSpec.read(probe, rack_topology(2), Answered((), client))
    assert (reading.outcome, reading.named) == (Outcome.ERROR, None)


SYS = "/sys/class/infiniband/mlx5_3"


@pytest.mark.parametrize(
    ("sampled", "means"),
    [
        (f"{SYS}/ports/1/counters/link_downed", Meaning("mlx5_3", "link_downed")),
        (f"{SYS}/ports/1/hw_counters/out_of_sequence", Meaning("mlx5_3", "out_of_sequence")),
        (f"{SYS}/device/hwmon/hwmon7/temp2_input", Meaning("mlx5_3", "module_c", 1e-3)),
        (f"{SYS}/device/net/ens1/carrier_down_count", Meaning("mlx5_3", "link_downed")),
        ("5:temperature.gpu", Meaning("gpu5", "gpu_c")),
        ("5:clocks.current.sm [MHz]", Meaning("gpu5", "sm_mhz")),
        ("mlx5_3:tx_pfc_us", Meaning("mlx5_3", "tx_pfc_us")),
        ("mlx5_3:rx_buf_discard", Meaning("mlx5_3", "rx_buf_discard")),
        ("something else", None),
    ],
)
def test_each_name_has_a_meaning(sampled: str, means: Meaning | None) -> None:
    """Or none."""
    assert meaning(sampled) == means


def test_every_source_of_a_host_has_a_meaning() -> None:
    """Files are named by their paths."""
    for layer in ("infiniband", "ethernet"):
        often, slowly = sources_of(replace(dgx_platform(), link_layer=layer), SampleSettings())
        files = [source.path for source in (*often, *slowly) if source.path]
        assert all(meaning(path.replace("*", "x")) is not None for path in files)
        assert len(set(files)) == len(files)


def test_ethernet_asks_for_crc_errors_and_infiniband_for_symbol_errors() -> None:
    """Each link layer counts in its own files."""
    asked = {
        layer: " ".join(
            source.path for source in sources_of(replace(dgx_platform(), link_layer=layer), SampleSettings())[0]
        )
        for layer in ("infiniband", "ethernet")
    }
    assert "symbol_error" in asked["infiniband"]
    assert "rx_crc_errors" not in asked["infiniband"]
    assert "rx_crc_errors" in asked["ethernet"]
    assert "symbol_error" not in asked["ethernet"]


STATISTICS = """NIC statistics:
     rx_prio0_pause: 2
     rx_prio0_pause_duration: 10
     rx_prio3_pause: 5000000000
     rx_prio3_pause_duration: 4999999990
     rx_prio3_pause_transition: 7
     tx_prio3_pause: 1
     tx_prio3_pause_duration: 3
     rx_pause_ctrl_phy: 99
     rx_discards_phy: 4
     tx_discards_phy: 0
     rx_out_of_buffer: 6000000000
     rx_buffer_passed_thres_phy: 8
     rx_prio0_buf_discard: 1
     rx_prio3_buf_discard: 2
     rx_prio3_cong_discard: 9
     rx_prio3_discards: 77
"""


def test_pauses_are_asked_for_where_they_are_judged_and_ethernet_has_them() -> None:
    """By a tool, so not every time."""
    for layer, number in (("infiniband", 0), ("ethernet", len(dgx_platform().rnics))):
        _, slowly = sources_of(replace(dgx_platform(), link_layer=layer), SampleSettings(pfc=True))
        assert sum(PFC in source.argv for source in slowly) == number
    _, slowly = sources_of(replace(dgx_platform(), link_layer="ethernet"), SampleSettings())
    assert not any(PFC in source.argv for source in slowly)


@pytest.mark.skipif(shutil.which("awk") is None, reason="no awk here")
@pytest.mark.parametrize(
    ("statistics", "sums"),
    [
        (
            STATISTICS,
            [
                "mlx5_3:rx_buf_discard: 3",
                "mlx5_3:rx_buffer_passed_thres_phy: 8",
                "mlx5_3:rx_cong_discard: 9",
                "mlx5_3:rx_discards_phy: 4",
                "mlx5_3:rx_out_of_buffer: 6000000000",
                "mlx5_3:rx_pfc_frames: 5000000002",
                "mlx5_3:rx_pfc_us: 5000000000",
                "mlx5_3:tx_discards_phy: 0",
                "mlx5_3:tx_pfc_frames: 1",
                "mlx5_3:tx_pfc_us: 3",
            ],
        ),
        ("NIC statistics:\n     rx_packets: 5\n", []),
    ],
)
def test_the_script_of_pauses_adds_up_all_priorities(tmp_path: Path, statistics: str, sums: list[str]) -> None:
    """A shell and awk, with numbers that 32 bits do not hold; transitions and other counters are not among them."""
    tool, net = tmp_path / "ethtool", tmp_path / "mlx5_3" / "device" / "net" / "eth4"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "-S eth4" ] && cat <<\'END\'\n{statistics}END\n')
    tool.chmod(0o755)
    net.mkdir(parents=True)
    argv = ["sh", "-c", PFC.replace(ROOT, str(tmp_path)), "sh", "mlx5_3"]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=20).stdout
    assert sorted(said.splitlines()) == sums


def test_a_module_at_255_degrees_was_not_read() -> None:
    """Its memory said 0xff; other readings have other ranges."""
    module = Meaning("mlx5_3", "module_c", 1e-3)
    assert (module.level(54_000), module.level(255_000)) == (54.0, None)
    assert Meaning("gpu5", "sm_mhz").level(1980) == 1980
