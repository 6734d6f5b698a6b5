"""What the simulated rack says is what our parsers read from the real tools; noise as real clusters show it."""

from collections.abc import Collection
from dataclasses import replace
from statistics import median

import pytest

from benchmarks.measured_rack import dgx_platform
from fabric.checks.parts import AMD_JOBS, AMD_LIST, GPUDIRECT, GPUS
from fabric.config.inventory import load_inventory
from fabric.model.finding import Severity
from fabric.model.inventory import Fault, MockSettings
from fabric.model.scenario import Phase
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import KINDS, expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.sim.hashing import MISSING, MOST_OVER_LEVEL, CleanNoise, RealNoise, mix64, real_noise
from fabric.sim.phy.quality import line_kind, link_quality
from fabric.sim.tools.nccl_tests.model import PLATFORMS, AllReduce, all_reduce_us
from fabric.sim.world import World
from fabric.tools import nccl, perftest
from fabric.tools.perftest.command import CommandSide, write_bw
from tests.checks.asked import EVERYTHING, answer, found
from tests.places import CAPTURES, INVENTORY

RING = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 1M -e 8G -f 2 -g 1"


def perftest_pair(kit, *faults, gpu=None):
    """Both sides of a loopback, from the argv that the tool driver builds."""
    lines = []
    for at_s, peer in ((0.0, None), (1.0, "127.0.0.1")):
        platform = dgx_platform()
        side = CommandSide(
            platform=platform, rnic=platform.rnics[0], port=18600, peer=peer, size_bytes=8 << 20, numa_node=0, gpu=gpu
        )
        argv = write_bw(side, duration_s=5, queue_pairs=2)
        lines.append((at_s, "gpu001", " ".join(argv)))
    return kit.played(kit.world(*faults, noise_cv=0.01), lines)


@pytest.mark.parametrize("gpu", [None, 0, 5])
def test_a_perftest_table_is_read_without_complaint(kit, gpu):
    """One test, one row, the same number on both sides."""
    values = set()
    for ended in perftest_pair(kit, gpu=gpu):
        log = perftest.parse(ended.stdout + ended.stderr)
        (test,) = log.tests
        (row,) = test.rows
        assert not test.problems
        assert not log.failures
        values.add(row.bw_average_gbps)
    assert len(values) == 1


@pytest.mark.parametrize(
    ("fault", "blamed"),
    [
        (Fault("gpu001/mlx5_0", "broken"), True),
        (Fault("gpu001/mlx5_0->gpu7", "broken"), True),
        (Fault("gpu001/mlx5_0", "absent"), None),
        (Fault("gpu001/gpu7", "broken"), None),
        (Fault("gpu001/gpu5", "absent"), None),  # CUDA numbers the others anew: the last number is gone
    ],
)
def test_perftest_failures_are_recognised(kit, fault, blamed):
    """Every failure text is one that the parser knows; the fabric is blamed for ports and retries."""
    exits = perftest_pair(kit, fault, gpu=7)
    failures = [failure for ended in exits for failure in perftest.parse(f"{ended.stdout}\n{ended.stderr}").failures]
    assert failures
    if blamed:
        assert any(failure.blames_fabric for failure in failures)


@pytest.mark.parametrize("line", [RING, RING.replace("-np", "--tag-output -np"), "alltoall_perf -b 1G -e 8G -f 2 -g 8"])
def test_an_nccl_table_is_read_without_complaint(kit, line):
    """Complete, with all ranks, and its checksum holds."""
    (ended,) = kit.played(kit.world(noise_cv=0.01), [(0.0, "gpu001", line)])
    log = nccl.parse(ended.stdout)
    (test,) = log.tests
    assert not test.problems
    assert (log.failures, test.complete) == ((), True)
    assert test.ranks == (16 if "mpirun" in line else 8)


@pytest.mark.parametrize(
    "fault", [Fault("gpu002/mlx5_5", "broken"), Fault("gpu002/gpu5", "broken"), Fault("gpu002/gpu5:nvlink", "broken")]
)
def test_nccl_failures_are_recognised_and_name_the_host(kit, fault):
    """The parser finds a failure, and the host that the fault is in."""
    (ended,) = kit.played(kit.world(fault), [(0.0, "gpu001", RING)])
    failures = nccl.parse(ended.stdout).failures
    assert failures
    assert {failure.host for failure in failures} == {"gpu002"}


RACK = load_inventory(INVENTORY / "mi300x.yaml").topology
HOST = RACK.hosts["amd01"]


def world() -> World:
    """The shipped rack."""
    return World(RACK, MockSettings(noise_cv=0.0), seed=1)


def commands(spec) -> list:
    """Every command of a spec on one host."""
    probes = expand_phase(Phase("p", (spec,)), RACK, ("amd01",))
    made = [KINDS[probe.kind].commands(probe, RACK) for probe in probes]
    return [command for each in made for command in (*each.servers, each.client)]


def test_perftest_uses_rocm_and_collectives_hips_variable() -> None:
    """``--use_rocm``, ``HIP_VISIBLE_DEVICES``; no word of CUDA."""
    words = {word for command in commands(LoopbackSpec()) for word in command.argv}
    assert "--use_rocm=3" in words
    assert not any("cuda" in word for word in words)
    env = dict(commands(AllToAllSpec())[0].env)
    assert (env.get("HIP_VISIBLE_DEVICES"), "CUDA_VISIBLE_DEVICES" in env) == ("0,1,2,3,4,5,6,7", False)


def test_rccl_tests_are_read(kit) -> None:
    """With RCCL's lines and its three columns."""
    (done,) = kit.played(world(), [(0.0, "amd01", "all_reduce_perf -b 8G -e 8G -g 8")])
    (test,) = nccl.parse(done.stdout).tests
    assert "nchannels" in done.stdout
    assert not test.problems
    assert (test.ranks, test.settings["version"]) == (8, "2.17.8")


def test_gpus_are_listed_by_rocm_smi(kit) -> None:
    """As many as the inventory has, and nobody on them."""
    said = {argv: kit.ask(world(), "amd01", " ".join(argv), 1.0).stdout for argv in (AMD_LIST, AMD_JOBS)}
    answers = {argv: answer(argv, text) for argv, text in said.items()}
    assert found(GPUS, answers, EVERYTHING, HOST) == []
    assert GPUDIRECT.ask(HOST, EVERYTHING) == ()
    (one,) = found(GPUS, answers | {AMD_LIST: answer(AMD_LIST, said[AMD_LIST].partition("card7")[0])}, EVERYTHING, HOST)
    assert (one.severity, one.what) == (Severity.PROBLEM, "7 GPUs, the inventory has 8")
    busy = answer(AMD_JOBS, f"{said[AMD_JOBS]}PID3625,python3,1,0,0,0\n")
    (one,) = found(GPUS, answers | {AMD_JOBS: busy}, EVERYTHING, HOST)
    assert one.what == "1 GPU process: python3"
    (one,) = found(GPUS, {}, EVERYTHING, replace(HOST))
    assert one.severity is Severity.UNKNOWN


HOSTS = [f"gpu{number:03d}" for number in range(1, 25)]
QUIET = RealNoise(spread=0.002, drop=0.05, crowd=0.0, dips=0.0, lower=frozenset(HOSTS[:6]))


def measured(noise: RealNoise, hosts: Collection[str], count: int = 4_000) -> list[float]:
    return [noise.factor(mix64(bits), 0, hosts) for bits in range(count)]


def test_each_seed_is_another_cluster_and_always_the_same() -> None:
    """In the bounds that real clusters showed; some have one level, in others up to half of the hosts are lower."""
    drawn = [real_noise(HOSTS, seed=seed) for seed in range(100)]
    assert drawn == [real_noise(HOSTS, seed=seed) for seed in range(100)]
    assert all(0.001 <= one.spread <= 0.005 and 0.04 <= one.drop <= 0.06 for one in drawn)
    assert all(0.05 <= one.crowd <= 0.2 and 0.05 <= one.dips <= 0.25 for one in drawn)
    assert {len(one.lower) for one in drawn} == {0, *range(8, 12)}


def test_hosts_that_are_placed_otherwise_have_a_level_of_their_own() -> None:
    """Between two of them, and between one and another host; inside a host nothing of it is seen."""
    low, high = HOSTS[0], HOSTS[-1]
    assert median(measured(QUIET, (high, HOSTS[-2]))) == pytest.approx(1.0, abs=1e-3)
    assert median(measured(QUIET, (low, HOSTS[1]))) == pytest.approx(0.95, abs=1e-3)
    assert median(measured(QUIET, (low, high))) == pytest.approx(0.95, abs=1e-3)
    assert median(measured(QUIET, (low, low))) == pytest.approx(1.0, abs=1e-3)


def test_dips_have_no_part_in_common() -> None:
    """So many of all tests, whoever takes part; none of a collective inside one host, and all sizes of one alike."""
    noise = replace(QUIET, dips=0.2)
    for hosts in (HOSTS[-2:], HOSTS[7:9]):
        values = measured(noise, hosts)
        low = [value for value in values if value < 0.7]
        assert len(low) / len(values) == pytest.approx(0.2, abs=0.02)
        assert min(low) > 0.24
        assert max(low) < 0.61
    assert min(measured(noise, HOSTS[:1])) > 0.9
    dipped = next(mix64(bits) for bits in range(100) if noise.factor(mix64(bits), 0, HOSTS[-2:]) < 0.7)
    assert noise.factor(dipped, 7, HOSTS[-2:]) == pytest.approx(noise.factor(dipped, 0, HOSTS[-2:]), rel=0.05)


def test_tails_are_heavy_below_and_end_at_the_line_above() -> None:
    """One of 300 lies more than six spreads away, which a normal distribution has once in 500 million."""
    values = measured(QUIET, HOSTS[:1], 20_000)
    far = sum(value < 1.0 - 6 * QUIET.spread for value in values) / len(values)
    assert 0.001 < far < 0.004
    assert max(values) == MOST_OVER_LEVEL


@pytest.mark.slow
def test_a_few_tests_end_without_a_number(kit) -> None:
    """ib_write_bw says that it could not connect; the next one of the same two works."""
    assert sum(QUIET.is_lost(mix64(bits)) for bits in range(50_000)) / 50_000 == pytest.approx(MISSING, rel=0.2)
    world = World(kit.topology_of(2, kit.platform_like()), MockSettings(noise="real"), seed=1)
    lines = [line for nth in range(1_500) for line in kit.pair(10.0 * nth, "gpu001", "mlx5_0", port=18_600 + nth)]
    clients = kit.played(world, lines)[1::2]
    lost = [client for client in clients if client.exit_status]
    assert 0 < len(lost) < 15
    assert all("Couldn't connect to localhost" in client.stderr for client in lost)


@pytest.mark.parametrize(
    ("raw", "optics", "copper"), [(5e-4, 1.0, 0.998), (1e-3, 0.996, 0.864), (1.39e-3, 0.903, 0.517)]
)
def test_copper_falls_off_its_cliff_earlier(raw: float, optics: float, copper: float) -> None:
    """Checked with scipy's binomial distribution: P[more than 15 of 544], P[more than 7 of 272] symbols bad."""
    for is_copper, kept in ((False, optics), (True, copper)):
        line = line_kind(400.0, ethernet=False, copper=is_copper)
        found = link_quality(raw_ber=raw, fec=line.fec, plr=line.retries, line_rate_gbps=400.0)
        assert found.capacity_factor == pytest.approx(kept, abs=0.004)


def test_small_messages_take_what_low_latency_protocols_take(kit) -> None:
    """64 KiB over 16 GPUs: 50 us on MI350, 107 to 113 us on PCIe boxes were recorded; by Simple alone it is 184 us."""
    world = World(kit.topology_of(2, kit.platform_like()), MockSettings(noise_cv=0.0), seed=1)
    line = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 64K -e 1G -f 2 -g 1"
    (done,) = kit.played(world, [(0.0, "gpu001", line)])
    rows = [text.split() for text in done.stdout.splitlines() if text.strip()[:1].isdigit()]
    times = {int(cells[0]): float(cells[5]) for cells in rows}
    assert 30.0 < times[65536] < 120.0
    assert sorted(times.values()) == list(times.values())
    job = AllReduce(16, 2, 3000.0, PLATFORMS["h100"])
    assert all_reduce_us(1 << 33, job, ("ring",), ("ll", "ll128")) > all_reduce_us(1 << 33, job, ("ring",), ("simple",))


def test_adaptive_routing_dips_rarely_and_deeply() -> None:
    """One cell in 32, and only in a rack with real noise."""
    noise = real_noise(["a", "b"], seed=1)
    left = [noise.reordered(bits, number) for bits in range(100) for number in range(48)]
    dips = [one for one in left if one < 1.0]
    assert 0.02 < len(dips) / len(left) < 0.045
    assert 0.16 <= min(dips) < 0.2
    assert {CleanNoise(0.01).reordered(7, number) for number in range(100)} == {1.0}


@pytest.mark.parametrize(
    ("endpoint", "expected_gbps"),
    [("numa0", None), ("gpu0", None), ("gpu1", None), ("gpu2", 368.0), ("gpu5", 248.0), ("numa1", 372.0)],
)
def test_each_path_class_has_its_own_bandwidth(kit, endpoint, expected_gbps):
    """Same switch and local memory give the RNIC's rate; the CPU and the other socket cost what capacity.py says."""
    assert kit.loopback_gbps("mlx5_0", endpoint) == (expected_gbps or kit.alone_gbps)


@pytest.mark.parametrize(
    ("component", "slow", "healthy"),
    [
        ("gpu001/mlx5_0", [("mlx5_0", "numa0"), ("mlx5_0", "gpu5")], [("mlx5_1", "numa0")]),
        ("gpu001/gpu1", [("mlx5_0", "gpu1"), ("mlx5_5", "gpu1")], [("mlx5_0", "gpu0")]),
        ("gpu001/numa1", [("mlx5_0", "numa1"), ("mlx5_4", "numa1")], [("mlx5_0", "numa0"), ("mlx5_0", "gpu5")]),
        ("gpu001/pcie0", [("mlx5_0", "gpu0"), ("mlx5_1", "numa0"), ("mlx5_7", "gpu1")], [("mlx5_2", "numa0")]),
        ("gpu001/mlx5_0->gpu5", [("mlx5_0", "gpu5")], [("mlx5_0", "gpu4"), ("mlx5_1", "gpu5")]),
        ("gpu001/mlx5_0->numa1", [("mlx5_0", "numa1")], [("mlx5_0", "gpu4"), ("mlx5_0", "numa0")]),
        ("gpu001/mlx5_0->numa1-gpus", [("mlx5_0", "gpu4"), ("mlx5_0", "gpu7")], [("mlx5_0", "numa1")]),
        ("gpu001", [("mlx5_0", "gpu0"), ("mlx5_5", "numa1")], []),
        ("gpu001/gpu0:nvlink", [], [("mlx5_0", "gpu0")]),
        ("leaf0", [], [("mlx5_0", "gpu0")]),
    ],
)
def test_a_slow_part_slows_the_paths_through_it_and_no_other(kit, component, slow, healthy):
    """A part at 0.3 of its bandwidth shows on its own paths only."""
    fault = Fault(component, "slow", 0.3)
    for device, endpoint in slow:
        expected = kit.loopback_gbps(device, endpoint)
        assert kit.loopback_gbps(device, endpoint, fault) < 0.6 * expected, (device, endpoint)
    for device, endpoint in healthy:
        expected = kit.loopback_gbps(device, endpoint)
        assert kit.loopback_gbps(device, endpoint, fault) == expected, (device, endpoint)


def test_two_rnics_share_their_pcie_switch_and_say_so_in_the_average(kit):
    """Both RNICs of a switch to memory get half the uplink each for as long as both run."""
    lines = [*kit.pair(0.0, "gpu001", "mlx5_0", port=1), *kit.pair(0.0, "gpu001", "mlx5_1", port=2)]
    exits = [exit for exit in kit.played(kit.world(), sorted(lines, key=lambda line: line[0])) if exit]
    assert {kit.bandwidth_gbps(exit.stdout) for exit in exits} == {215.0}


def test_rnics_that_nothing_joins_do_not_hear_each_other(kit):
    """Rails by themselves: a packet for another rail has no way; on its own rail all is well."""
    made = kit.topology_of(2, kit.platform_like())
    rails = replace(made, switches={name: one for name, one in made.switches.items() if one.tier == "leaf"})
    for device, peer, said in (("mlx5_1", "localhost", "Completion"), ("mlx5_3", "gpu002", "")):
        lines = kit.pair(0.0, "gpu001", "mlx5_3", port=9, peer=peer)
        client = (1.0, "gpu001", lines[1][2].replace("mlx5_3", device))
        server = (0.0, "gpu002" if peer == "gpu002" else "gpu001", lines[0][2])
        _, client = kit.played(World(rails, MockSettings(noise_cv=0.0), seed=1), [server, client])
        assert (client.exit_status, said in client.stderr) == (1 if said else 0, True)


@pytest.mark.parametrize(
    ("line", "stderr"),
    [
        ("ib_write_bw -d mlx5_9", "IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n"),
        ("ib_write_bw -d mlx5_0 -p 77 gpu002", "Couldn't connect to gpu002:77\nUnable to open file descriptor for"),
        ("ib_write_bw -d mlx5_0 nowhere", "Couldn't connect to nowhere:18515\n"),
        ("ib_write_bw --bogus", "ib_write_bw: unrecognized option '--bogus'\n Invalid Command or flag.\n"),
        ("ib_write_bw -d", "ib_write_bw: option requires an argument -- 'd'\n"),
        ("numactl --membind=7 ib_write_bw -d mlx5_0", "<7> is invalid"),
    ],
)
def test_what_cannot_work_fails_in_the_tools_words(kit, line, stderr):
    """Exit 1 and the text that the real tool prints."""
    (ended,) = kit.played(kit.world(), [(0.0, "gpu001", line)])
    assert ended.exit_status == 1
    assert stderr in ended.stderr


@pytest.mark.parametrize(
    ("fault", "options", "said"),
    [
        (Fault("gpu001/mlx5_0", "broken"), "", " Port number 1 state is Down\n Couldn't set the link layer\n"),
        (Fault("gpu001/mlx5_0", "absent"), "", "IB device mlx5_0 not found\n"),
        (Fault("leaf0", "broken"), "", " Port number 1 state is Down\n"),
        (Fault("gpu001/gpu3", "broken"), "--use_cuda=3", "cuCtxCreate() error=214\n"),
        (Fault("gpu001/gpu3", "absent"), "--use_cuda=7", "No such device ID (7) exists in system\n"),
    ],
)
def test_broken_parts_are_named_by_the_tool(kit, fault, options, said):
    """Port down, device gone, CUDA errors: exit 1 on both sides."""
    lines = kit.pair(0.0, "gpu001", "mlx5_0", port=9, server=options, client=options)
    exits = kit.played(kit.world(fault), lines)
    assert [ended.exit_status for ended in exits] == [1, 1]
    assert any(said in ended.stdout + ended.stderr for ended in exits)


@pytest.mark.parametrize("component", ["gpu001/mlx5_0", "gpu001/gpu3", "gpu001"])
def test_a_hanging_part_keeps_the_tool_until_it_is_killed(kit, component):
    """Nothing ends by itself; a kill ends it with 137 and frees everything."""
    world = kit.world(Fault(component, "hanging"))
    lines = kit.pair(0.0, "gpu001", "mlx5_0", port=9, server="--use_cuda=3", client="--use_cuda=3")
    assert kit.played(world, lines) == [None, None]
    world.kill(1, 100.0)
    world.kill(2, 101.0)
    assert [(event.pid, event.exit_status) for event in world.advance(200.0)] == [(1, 137), (2, 137)]


@pytest.mark.parametrize(("victim", "said"), [(0, "Failed status 12"), (1, "Couldn't read remote address")])
def test_the_survivor_of_a_pair_notices(kit, victim, said):
    """Kill one side in mid-transfer and the other fails soon after, with the tool's words."""
    world = kit.world()
    pids = [
        world.start(host, tuple(text.split()), {}, at_s) for at_s, host, text in kit.pair(0, "gpu001", "mlx5_0", port=9)
    ]
    world.advance(3.0)
    world.kill(pids[victim], 3.0)
    killed, other = world.advance(10.0)
    assert (killed.pid, killed.exit_status) == (pids[victim], 137)
    assert (other.pid, other.exit_status) == (pids[1 - victim], 1)
    assert said in other.stderr
    assert world.next_s() is None or world.advance(1e6) == []


def test_the_frame_is_that_of_the_real_tool(kit):
    """
    Every line of a recorded table without numbers of its own is also in ours, in the same order.

    Since then some have a second column.
    """
    recorded = (CAPTURES / "perftest" / "24-issue132-all-sizes-gbits-small-values-partial.txt").read_text()
    _, client = kit.played(kit.world(), kit.pair(0.0, "gpu001", "mlx5_0", port=9))
    added = ("\t\tLock-free      : OFF", "\t\tUsing Enhanced Reorder      : OFF")
    ours = [line.removesuffix(added[0]).removesuffix(added[1]) for line in client.stdout.splitlines()]
    frame = [
        line for line in recorded.splitlines()[1:]
        if "address" not in line and "Moderation" not in line and not line[:8].strip().isdigit()
    ]  # fmt: skip
    assert [line for line in ours if line in set(frame)][: len(frame)] == frame


def test_programs_are_called_by_their_names(kit) -> None:
    """The one that uses the GPUs, and the one that has no such option."""
    lines = [(0.0, "amd01", "alltoall_perf -b 8G -e 8G -g 8 -n 1000"), (30.0, "amd01", " ".join(AMD_JOBS))]
    assert ",alltoall_perf,1," in kit.played(world(), lines)[1].stdout
    (refused,) = kit.played(world(), [(0.0, "amd01", "ib_write_lat --bogus")])
    assert "ib_write_lat <host>     connect to server" in refused.stderr
