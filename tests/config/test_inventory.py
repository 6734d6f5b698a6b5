"""A good inventory file becomes the model; mistakes are said on their lines; links are drawn alike everywhere."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import dgx_platform
from fabric.changes.cable_fault import DrawnLinks
from fabric.changes.kind import Context
from fabric.config.inventory import load_inventory
from fabric.config.links import Links
from fabric.config.problems import Problems
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError
from fabric.model.change import ChangeSettings
from fabric.model.fields.entry import from_file
from fabric.model.inventory import Fault
from fabric.model.topology import Host, Login, Platform, Switch, Topology, Uplinks
from tests.places import INVENTORY


def problems(path: Path, *faults: str) -> list[str]:
    """The problems of an inventory file as "line: text"."""
    with pytest.raises(ConfigError) as caught:
        load_inventory(path, extra_faults=tuple(faults))
    return [f"{problem.line}: {problem.text}" for problem in caught.value.problems]


def test_a_good_inventory_becomes_the_model(folder: Path) -> None:
    """Hosts, racks, leaves, cables and faults are as written; what is left out is filled in."""
    inventory = load_inventory(folder / "inventory.yaml")
    topology = inventory.topology
    assert list(topology.hosts) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert [host.rack for host in topology.hosts.values()] == ["r0", "r0", "r1", "r1"]
    assert topology.hosts["gpu2"].address == "gpu2.mgmt"
    assert topology.hosts["gpu2"].leaves == ("leaf0", "leaf1")
    assert topology.tor_groups == (("gpu1", "gpu2", "gpu3", "gpu4"),)
    assert sum(1 for _ in topology.links()) == 4 * 2 + 2 * 2 * 2
    platform = topology.hosts["gpu1"].platform
    assert platform is topology.hosts["gpu4"].platform
    assert [(rnic.numa, rnic.nearest_gpus) for rnic in platform.rnics] == [(0, (0,)), (1, (1,))]
    assert [(gpu.numa, gpu.pcie_switch) for gpu in platform.gpus] == [(0, "pcie0"), (1, None)]
    assert inventory.mock.faults == (Fault("gpu3", "hanging"),)
    assert inventory.ssh.connect_timeout_s == 15.0
    assert inventory.ssh.known_hosts == ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
    assert inventory.process.prefix == ("ip", "netns", "exec", "{host}")


def test_all_problems_come_at_once(folder: Path, inventory_text: str) -> None:
    """A mistake in one part hides none in another: types, references and faults are all checked."""
    text = inventory_text.replace("port: 22", "port: 22:22").replace("mlx5_1", "mlx5_0")
    text = text.replace("platform: duo", "platform: dou").replace("tier: spine", "tier: spin")
    (folder / "inventory.yaml").write_text(text)
    found = problems(folder / "inventory.yaml", "gpu1:slow")
    assert [line.split(":")[0] for line in found] == ["0", "16", "19", "26", "29"]


def test_one_leaf_is_that_of_all_rails(folder: Path, inventory_text: str) -> None:
    """Two ToRs with two hosts each, both rails on the host's own ToR, as docs/inventory.md shows."""
    path = folder / "inventory.yaml"
    path.write_text(inventory_text.replace('"leaf{rail}"', '"leaf{unit}"\n    hosts_per_unit: 2'))
    topology = load_inventory(path).topology
    assert [host.leaves for host in topology.hosts.values()] == [("leaf0", "leaf0")] * 2 + [("leaf1", "leaf1")] * 2
    assert topology.tor_groups == (("gpu1", "gpu2"), ("gpu3", "gpu4"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu1", "expected COMPONENT:KIND or COMPONENT:slow=FACTOR"),
        ("gpu1:slow", "'factor' is required with kind slow"),
        ("gpu1:slow=2", "expected a number from 0.001 to 0.999, got '2'"),
        ("gpu1:hanging=0.5", "'factor' goes with kind slow"),
        ("gpu1:slwo=0.5", "did you mean 'slow'?"),
        ("gpu7:broken", "no host or switch 'gpu7'; did you mean 'gpu"),
        ("gpu1/nvlink:broken", "'nvlink' is not a part of gpu1"),
        ("\x1b[31m:broken", "got '\\x1b[31m'"),
        ("-rf:broken", "does not start with '-'"),
    ],
)
def test_a_bad_fault_option_is_explained(folder: Path, text: str, said: str) -> None:
    """Problems of ``--fault`` name the option, not the file."""
    with pytest.raises(ConfigError) as caught:
        load_inventory(folder / "inventory.yaml", extra_faults=(text,))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("--fault", 0)
    assert said in problem.text


HOSTS = """\
hosts:
  - {{names: gpu1, platform: duo, leaves: "leaf{{rail}}", address: "{first}"}}
  - {{names: gpu2, platform: duo, leaves: "leaf{{rail}}", address: "{second}"}}
  - {{names: "gpu[3-4]", platform: duo, leaves: "leaf{{rail}}"}}
switches:
"""


def with_hosts(folder: Path, text: str, hosts: str) -> Path:
    """The inventory with other hosts, the first of them on line 18."""
    begin, end = text.index("hosts:\n"), text.index("\nswitches:\n") + 1
    path = folder / "inventory.yaml"
    path.write_text(text[:begin] + hosts + text[end + len("switches:\n") :])
    return path


def machine_problems(path: Path) -> list[tuple[int, str]]:
    """What is wrong with it, line by line."""
    try:
        load_inventory(path)
    except ConfigError as exc:
        return [(one.line, one.text) for one in exc.problems]
    return []


@pytest.mark.parametrize(
    ("first", "second"),
    [("10.0.0.1", "10.0.0.1"), ("GPU.example.net", "gpu.Example.net."), ("fd00::1", "FD00:0:0:0::0001")],
)
def test_one_address_in_two_spellings_is_one_machine(
    folder: Path, inventory_text: str, first: str, second: str
) -> None:
    """Both lines are named, each with both hosts."""
    found = machine_problems(with_hosts(folder, inventory_text, HOSTS.format(first=first, second=second)))
    assert [line for line, _ in found] == [18, 19]
    assert all(text.startswith("'gpu[1-2]' are reached at one address, ") for _, text in found)


@pytest.mark.parametrize("address", ["10.0.0.256", "10.0.0.01", "1000.0.0.1"])
def test_four_numbers_that_are_no_address_are_no_name_of_a_host_either(
    folder: Path, inventory_text: str, address: str
) -> None:
    found = machine_problems(with_hosts(folder, inventory_text, HOSTS.format(first="10.0.0.1", second=address)))
    said = "is not usable as address: each number of an IPv4 address is 0 to 255, without leading zeros"
    assert found == [(19, f"'{address}' {said}")]


@pytest.mark.parametrize("name", ["GPU1", "gpu1.example.net"])
def test_a_host_in_other_case_or_with_its_domain_is_no_second_one(folder: Path, inventory_text: str, name: str) -> None:
    """Also where it has an address of its own: what tools answer knows no case, and often no domain."""
    text = HOSTS.format(first="10.0.0.1", second="10.0.0.2").replace("gpu2", name)
    found = machine_problems(with_hosts(folder, inventory_text, text))
    said = f"'{name}' may be the machine that is called 'gpu1': write one machine with one name"
    assert found == [(19, said)]


@pytest.mark.parametrize(("first", "second"), [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2"), ("a.net", "b.net")])
def test_other_addresses_are_other_machines(folder: Path, inventory_text: str, first: str, second: str) -> None:
    assert not machine_problems(with_hosts(folder, inventory_text, HOSTS.format(first=first, second=second)))


def test_many_hosts_of_one_entry_are_one_problem(folder: Path, inventory_text: str) -> None:
    """With what was meant: a template."""
    text = inventory_text.replace('address: "{name}.mgmt"', "address: 10.0.0.1")
    path = folder / "inventory.yaml"
    path.write_text(text)
    (found,) = machine_problems(path)
    assert found[1].startswith("'gpu[1-4]' are reached at one address, '10.0.0.1'; with {name} each has its own")


def test_ports_and_accounts_tell_machines_behind_one_address_apart(folder: Path, inventory_text: str) -> None:
    """A gateway that forwards ports, or sends each account on to another machine."""
    spines = '  - {names: "spine[0-1]", tier: spine}'
    apart = "\n".join(
        f"  - {{names: spine{number}, tier: spine, address: 10.0.0.1, port: 220{number}}}" for number in (0, 1)
    )
    path = folder / "inventory.yaml"
    path.write_text(inventory_text.replace(spines, apart))
    assert not machine_problems(path)
    path.write_text(inventory_text.replace(spines, apart.replace("2201", "2200")))
    assert len(machine_problems(path)) == 2


HERE = "\nswitches:\n"
MANAGING = '  - {names: "sm[1-2]", role: management, address: "{name}.mgmt"}\n'
MANAGERS = "changes: {subnet_managers: [{host: sm1}, {host: sm2}]}\n"


def managed(folder: Path, text: str, hosts: str = MANAGING, more: str = MANAGERS) -> Path:
    """The inventory with these further hosts, on its line 24, and settings."""
    path = folder / "inventory.yaml"
    path.write_text(text.replace(HERE, f"\n{hosts}{HERE[1:]}") + more)
    return path


def managed_problem(folder: Path, text: str, hosts: str = MANAGING, more: str = MANAGERS) -> str:
    """What is wrong with it, on which line."""
    with pytest.raises(ConfigError) as caught:
        load_inventory(managed(folder, text, hosts, more))
    return "; ".join(f"{one.line}: {one.text}" for one in caught.value.problems)


def test_they_are_reached_and_are_no_hosts_under_test(folder: Path, inventory_text: str) -> None:
    inventory = load_inventory(managed(folder, inventory_text))
    topology = inventory.topology
    assert topology.management == {"sm1": Login("sm1.mgmt"), "sm2": Login("sm2.mgmt")}
    assert topology.logins == topology.management
    assert list(topology.hosts) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert [manager.host for manager in inventory.changes.subnet_managers] == ["sm1", "sm2"]


def test_nothing_can_be_measured_on_them(folder: Path, inventory_text: str) -> None:
    managed(folder, inventory_text)
    with pytest.raises(ConfigError, match=r"'sm1': role management, nothing is measured there$"):
        load_scenario(folder / "scenario.yaml", hosts="gpu1,sm1")


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("  - {names: sm1, role: manager}\n", "24: expected test or management, got 'manager'"),
        ("  - {names: sm1}\n", "24: 'platform' is required here"),
        ("  - {names: sm1, role: management, platform: duo}\n", "24: 'platform' goes with role test"),
        ("  - {names: sm1, role: management, leaves: leaf0}\n", "24: 'leaves' goes with role test"),
        ('  - {names: sm1, role: management, address: "{name}.{unit}"}\n', "24: only {name} is known of hosts for"),
        ('  - {names: sm1, role: management, address: "-{name}"}\n', "24: '-sm1' is not usable as address"),
        ("  - {names: gpu1, role: management}\n", "24: hosts named twice: 'gpu1'"),
    ],
)
def test_a_mistake_about_management_is_said_on_its_line(
    folder: Path, inventory_text: str, hosts: str, said: str
) -> None:
    assert said in managed_problem(folder, inventory_text, hosts, "")


def test_a_rack_of_nothing_else_has_nothing_to_measure(folder: Path, inventory_text: str) -> None:
    begin, end = inventory_text.index('  - names: "gpu[1-4]"'), inventory_text.index(HERE)
    said = managed_problem(folder, inventory_text[:begin] + inventory_text[end:], MANAGING, "")
    assert "expected a host with role test: there is nothing to measure" in said


def test_in_band_tools_need_a_host_under_test(folder: Path, inventory_text: str) -> None:
    said = managed_problem(folder, inventory_text, more="changes: {via: sm1}\n")
    assert "39: expected a host under test, whose RNICs lead to the switches, got 'sm1' (role management)" in said


SPINES = '  - {names: "spine[0-1]", tier: spine}'


def loaded(folder: Path, text: str, spines: str):
    """The inventory with another line for its spines."""
    path = folder / "inventory.yaml"
    path.write_text(text.replace(SPINES, spines))
    return load_inventory(path)


def login_problem(folder: Path, text: str, spines: str) -> str:
    """What is wrong with it, on which line."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, spines)
    return "; ".join(f"{one.line}: {one.text}" for one in caught.value.problems)


def test_each_switch_gets_its_address_and_none_is_a_host(folder: Path, inventory_text: str) -> None:
    line = '  - {names: "spine[0-1]", tier: spine, address: "{name}.mgmt", management: nvue, user: cumulus, port: 2222}'
    topology = loaded(folder, inventory_text, line).topology
    assert topology.logins == {
        "spine0": Login("spine0.mgmt", "nvue", "cumulus", 2222),
        "spine1": Login("spine1.mgmt", "nvue", "cumulus", 2222),
    }
    assert topology.switches["leaf0"].login is None
    assert "spine0" not in topology.hosts


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("management: nvue", "26: 'management' needs 'address'"),
        ("port: 22", "26: 'port' needs 'address'"),
        ('address: "{name}", management: sonic', "26: expected nvue, got 'sonic'"),
        ('address: "{nam}"', "26: field '{nam}' is not known here; known are {name}; did you mean 'name'?"),
        (
            "address: 10.0.0.1",
            "26: 'spine[0-1]' are reached at one address, '10.0.0.1'; with {name} each has its own: "
            "a machine has one name",
        ),
        ('address: "-{name}"', "26: '-spine0' is not usable as address"),
    ],
)
def test_a_mistake_about_a_login_is_said_on_its_line(folder: Path, inventory_text: str, more: str, said: str) -> None:
    assert said in login_problem(folder, inventory_text, f'  - {{names: "spine[0-1]", tier: spine, {more}}}')


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
    return load_inventory(path).topology.hosts["gpu1"].platform


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
    ("mpirun_options: [-x, NCCL_ALGO=TREE]", "8: '-x' cannot be set here: write variables under 'env'"),
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
    explained(lambda: load_inventory(path), [expected])


POD = load_inventory(INVENTORY / "pod-64.yaml").topology


def links(topology: Topology, *hosts: str) -> Links:
    """Those of a run on these hosts."""
    return Links(Context(topology, ChangeSettings(), hosts=hosts))


def drawn(topology: Topology, hosts: tuple[str, ...] | None = None, **wanted: object) -> tuple[str, ...]:
    """What is drawn; there must be no problem."""
    problems = Problems("scenario.yaml")
    entry = from_file(DrawnLinks, wanted)
    names = links(topology, *(topology.hosts if hosts is None else hosts)).drawn(entry, ("links",), problems)
    assert problems.all() == ()
    return names


def ends(names: tuple[str, ...]) -> tuple[Counter[str], Counter[str]]:
    """How often each lower and each upper end is there."""
    pairs = [name.split("#")[0].split("--") for name in names]
    return Counter(lower for lower, _ in pairs), Counter(upper for _, upper in pairs)


def test_a_draw_is_written_down_here() -> None:
    """A changed draw would change what earlier runs are compared with."""
    assert drawn(POD, tier="spine", count="4", seed="7") == (
        "su2-leaf6--spine04",
        "su3-leaf7--spine11",
        "su2-leaf7--spine07",
        "su0-leaf5--spine06",
    )
    assert drawn(POD, tier="access", count="2") == ("gpu048/mlx5_0", "gpu044/mlx5_1")


@given(count=st.integers(1, 256), seed=st.integers(0, 1000))
def test_links_are_as_far_apart_as_there_is_room(count: int, seed: int) -> None:
    """No link twice; leaves are used evenly, and spines nearly so."""
    names = drawn(POD, tier="spine", count=str(count), seed=str(seed))
    lower, upper = ends(names)
    assert len(set(names)) == count
    assert max(lower.values()) == -(-count // 32)
    assert max(upper.values()) <= -(-count // 16) + 2


def test_only_links_of_the_hosts_of_the_run_are_drawn() -> None:
    """Their RNICs, and the uplinks of their leaves."""
    hosts = ("gpu001", "gpu002")
    assert {name.split("/")[0] for name in drawn(POD, hosts, tier="access", count="16")} == set(hosts)
    lower, _ = ends(drawn(POD, hosts, tier="spine", count="128"))
    assert set(lower) == {f"su0-leaf{rail}" for rail in range(8)}


@pytest.mark.parametrize(
    ("tier", "of", "part"),
    [("spine", "spine03", "--spine03"), ("spine", "su1-leaf[0-7]", "su1-leaf"), ("access", "su0-leaf2", "/mlx5_2")],
)
def test_of_keeps_links_of_some_ends(tier: str, of: str, part: str) -> None:
    """A switch at either end, or a host."""
    names = drawn(POD, tier=tier, of=[of], count="10")
    assert all(part in name for name in names)


def three_levels() -> Topology:
    """Two pods of one leaf and one spine, two cores."""
    platform = dgx_platform()
    hosts = {name: Host(name, platform, name, None, (f"leaf{pod}",) * 8) for pod, name in enumerate(("a", "b"))}
    tiers = {"leaf0": "leaf", "leaf1": "leaf", "spine0": "spine", "spine1": "spine", "core0": "core", "core1": "core"}
    uplinks = (
        Uplinks(("leaf0",), ("spine0",), 2, 400.0),
        Uplinks(("leaf1",), ("spine1",), 2, 400.0),
        Uplinks(("spine0", "spine1"), ("core0", "core1"), 1, 400.0),
    )
    return Topology(hosts, {name: Switch(name, tier) for name, tier in tiers.items()}, uplinks)


def test_cables_lead_up_however_they_are_written(folder: Path, inventory_text: str) -> None:
    """From below or from above, and in any order: the lower switch stands first, and lower tiers do."""
    before, _, after = inventory_text.partition("\nswitches:")
    rest = after[after.index("ssh:") :]
    above = """
switches:
  - {names: "core[0-1]", tier: core, uplinks: {to: "spine[0-1]", line_rate_gbps: 400}}
  - {names: "spine[0-1]", tier: spine}
  - {names: "leaf[0-1]", tier: leaf, uplinks: {to: "spine[0-1]", count: 2, line_rate_gbps: 400}}
"""
    (folder / "inventory.yaml").write_text(f"{before}{above}{rest}")
    assert load_inventory(folder / "inventory.yaml").topology.uplinks == (
        Uplinks(("leaf0", "leaf1"), ("spine0", "spine1"), 2, 400.0),
        Uplinks(("spine0", "spine1"), ("core0", "core1"), 1, 400.0),
    )


def test_tiers_go_by_the_upper_end() -> None:
    """Of a cable between switches; that of an RNIC is one of access."""
    topology = three_levels()
    assert set(drawn(topology, tier="core", count="4")) == {f"spine{s}--core{c}" for s in (0, 1) for c in (0, 1)}
    assert set(drawn(topology, tier="spine", count="4")) == {
        *("leaf0--spine0", "leaf0--spine0#1", "leaf1--spine1", "leaf1--spine1#1")
    }
    assert set(drawn(topology, ("a",), tier="core", count="2")) == {"spine0--core0", "spine0--core1"}


def test_a_name_is_one_however_it_is_written() -> None:
    """Both orders, and the first of parallel cables with and without its number."""
    known, problems = links(three_levels(), "a", "b"), Problems("scenario.yaml")
    texts = ["leaf0--spine0", "spine0--leaf0", "leaf0--spine0#0", "core1--spine0", "leaf0--spine0#1", "a/mlx5_3"]
    names = ["leaf0--spine0", "leaf0--spine0", "leaf0--spine0", "spine0--core1", "leaf0--spine0#1", "a/mlx5_3"]
    assert [known.named(text, (), problems) for text in texts] == names
    assert problems.all() == ()


def test_switches_may_have_dashes_in_their_names() -> None:
    """Every place where a name could end is tried."""
    switches = {"a--b": Switch("a--b", "leaf"), "c": Switch("c", "spine")}
    topology = Topology({}, switches, (Uplinks(("a--b",), ("c",), 1, 400.0),))
    assert links(topology).named("c--a--b", (), Problems("x")) == "a--b--c"
