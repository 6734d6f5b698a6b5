"""Launchers keep every value apart from their options; what Slurm and others wrote down of jobs, hosts and cabling."""

import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import dgx_platform
from fabric.errors import ToolError, UnreadableOutput
from fabric.ports import SchedulerNode
from fabric.tools import host_parts, infiniband, interfaces, slurm
from fabric.tools.infiniband import ACTIVE, End, PortLine
from fabric.tools.mlxlink import Light, Module
from fabric.tools.nccl.collective import mpirun, srun
from fabric.tools.records import Record, UnreadableLines, read_records
from tests.builders import accepted
from tests.places import CAPTURES
from tests.tools.samples import sample, ufm_end

HOSTS = ("gpu001", "gpu002")
ARGV = ("all_reduce_perf", "-b", "1024")
PLATFORM = dgx_platform()


def test_mpirun_starts_as_many_processes_on_each_host() -> None:
    """The whole command line, as Open MPI 4 and 5 take it."""
    env = {"NCCL_ALGO": "RING", "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}
    argv = mpirun(ARGV, hosts=HOSTS, platform=PLATFORM, env=env)
    assert argv == (
        *("mpirun", "-np", "16", "-H", "gpu001:8,gpu002:8", "--map-by", "ppr:8:node", "--bind-to", "none"),
        *("-x", "NCCL_ALGO=RING", "-x", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"),
        *ARGV,
    )


def test_srun_passes_values_with_commas_whole() -> None:
    """Variables go through env, because --export splits at commas; a drained node is not waited for."""
    argv = srun(ARGV, hosts=HOSTS, platform=PLATFORM, env={"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"})
    assert argv == (
        *("srun", "--nodes=2", "--nodelist=gpu001,gpu002", "--ntasks=16", "--ntasks-per-node=8"),
        *("--mpi=pmix", "--cpu-bind=none", "--immediate=30", "env", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"),
        *ARGV,
    )


@pytest.mark.parametrize("wrap", [mpirun, srun])
def test_no_host_name_can_be_misread(wrap) -> None:
    """A name that is an option, a list or a script is refused."""
    names = ["-x", "", "a,b", "a:8", "a b", "@file", "a;b", "--host", "a\n"]
    start = partial(wrap, ARGV, platform=PLATFORM, env={})
    assert accepted(names, lambda name: start(hosts=(name, "b")), ValueError, "line could misread") == []


@pytest.mark.parametrize("wrap", [mpirun, srun])
def test_what_cannot_be_launched_is_refused(wrap) -> None:
    """No program, no hosts, no processes, a host twice, or a variable that is none."""
    good: dict[str, Any] = {"argv": ARGV, "hosts": HOSTS, "platform": PLATFORM, "env": {}}
    asked: list[dict[str, Any]] = [
        *({"argv": argv} for argv in ((), ("",), ("-x",), ("A=b",))),
        *({"hosts": ()}, {"hosts": ("a", "a")}, {"platform": replace(PLATFORM, gpus=())}),
        *({"env": env} for env in ({"-x": "1"}, {"A B": "1"}, {"A": "1\n2"})),
    ]
    assert accepted(asked, lambda wrong: wrap(**(good | wrong)), ValueError) == []


SACCT = """\
JobID|JobName|State|NodeList|End
7|train|COMPLETED|gpu003|2026-11-20T10:00:00
8|train|NODE_FAIL|gpu[003-004]|2026-11-21T10:00:00
8.0|train|FAILED|gpu[003-004]|2026-11-21T10:00:00
9|eval|NODE_FAIL|gpu003|2026-11-22T10:00:00
10|eval|CANCELLED by 1000|None assigned|2026-11-22T10:00:00
11|eval|RUNNING|gpu003|Unknown
"""
TICKETS = 'component,opened,kind,note\ngpu003,2026-11-20,cable,"again, the same"\nleaf3,2026-11-21T08:00:00+01:00,,\n'
KERNEL = """\
2026-11-20T10:00:00+0100 gpu003 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.
2026-11-20T10:00:01+0100 gpu003 kernel: mlx5_core 0000:5c:00.0 ens1f0np0: Link down
2026-11-20T10:00:02+0100 gpu003 kernel: mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Bus stuck
2026-11-20T10:00:03+0100 gpu003 kernel: mlx5_core 0000:5c:00.0 ens1f0np0: Link up
2026-11-20T10:00:04+0100 gpu003 systemd[1]: NVRM: Xid (PCI:0000:3b:00): 79, said by somebody else
"""


def at(day: int, hour: int = 10, second: int = 0) -> datetime:
    """A time of that month."""
    return datetime(2026, 11, day, hour, 0, second, tzinfo=UTC)


def test_jobs_that_a_node_ended_count_by_how_many_nodes_they_had() -> None:
    """Steps, jobs that never ran and jobs that go on are none."""
    assert read_records(SACCT) == (
        Record(at(20), ("gpu003",), "jobs", line=2),
        Record(at(21), ("gpu003", "gpu004"), "multi_fails", line=3),
        Record(at(22), ("gpu003",), "single_fails", line=5),
    )


def test_tickets_have_a_component_and_a_kind() -> None:
    """Hosts, leaves and links alike; a time without a zone is UTC."""
    assert read_records(TICKETS) == (
        Record(at(20, 0), ("gpu003",), "tickets", "cable", 2),
        Record(at(21, 7), ("leaf3",), "tickets", "", 3),
    )
    batches = "component,opened,leaf,batch\nleaf3--spine02,2026-11-20,leaf3,MMS4X00-2431\n"
    assert read_records(batches)[0].names == ("leaf3--spine02", "leaf3", "batch:MMS4X00-2431")


def test_nodes_that_were_taken_out_or_that_jobs_would_not_have() -> None:
    """Two of the seven signals: ``sacctmgr show event``, and ``--exclude`` in a job's command line."""
    events = """Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
lab||2026-11-20T10:00:00|Unknown||Cluster Registered TRES|
lab|gpu003|2026-11-20T10:00:00|2026-11-20T12:00:00|DOWN*|Not responding|slurm(64030)
lab|gpu004|2026-11-21T10:00:00|Unknown|DRAIN|NHC: check_hw_ib|root(0)
lab|gpu004|2026-11-21T10:00:00|Unknown|PLANNED||
"""
    assert [(one.names, one.signal, one.line) for one in read_records(events)] == [
        (("gpu003",), "out", 3),
        (("gpu004",), "out", 4),
    ]
    lines = ["sbatch -x gpu[003-004] job.sh", "srun --exclude=gpu003 -N2 x", "sbatch job-x y.sh"]
    rows = [f"{n}|COMPLETED|gpu001|2026-11-20T10:00:00|{line}" for n, line in enumerate(lines, 1)]
    found = read_records("\n".join(["JobID|State|NodeList|End|SubmitLine", *rows]))
    assert [one.names for one in found if one.signal == "excluded"] == [("gpu003", "gpu004"), ("gpu003",)]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    """Each with its line, twenty at most."""
    text = SACCT + "12|x|FAILED|gpu003\n13|x|FAILED|gpu003|yesterday\n14|x|FAILED|gpu003|2026-11-20T10:00:00\n"
    with pytest.raises(UnreadableLines) as raised:
        read_records(text)
    assert raised.value.lines == (
        (8, "expected 5 cells, got 4"),
        (9, "expected a time such as 2026-11-23T12:00:00, got 'yesterday'"),
    )
    with pytest.raises(UnreadableLines) as raised:
        read_records(TICKETS + "x,never,,\n" * 50)
    assert len(raised.value.lines) == 20


def test_the_kernel_tells_kinds_of_trouble() -> None:
    """Xids by their number, links and modules; nobody else may say so in its name."""
    found = read_records(KERNEL)
    assert [(one.names, one.signal, one.kind) for one in found] == [
        (("gpu003",), "", kind) for kind in ("xid 79", "link down", "module error")
    ]
    assert found[0].at == at(20, 9)
    told = "gpu003: 2026-11-20T10:00:00,123456+01:00 NVRM: Xid (PCI:0000:3b:00): 79, pid=1, x\n"
    (only,) = read_records("gpu001: 2026-11-20T09:00:00,000001+01:00 Linux version 6.1\n" + told)
    assert (only.names, only.kind, only.line, only.at.hour) == (("gpu003",), "xid 79", 2, 9)


def test_a_text_of_a_spreadsheet_is_read_as_it_is() -> None:
    """With its byte order mark, its line ends, and separators of lines inside a cell."""
    text = "\ufeff" + TICKETS.replace("again, the same", "again\u2028the\nsame").replace("cable", "a\u2028b")
    with pytest.raises(UnreadableOutput, match="printable"):
        read_records(text)
    assert len(read_records(text.replace("a\u2028b", "cable").replace("\n", "\r\n"))) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected columns"),
        ("hello\n", "got 'hello'"),
        (SACCT + "12|x|FAILED|gpu003\n", "line 8: "),
        (SACCT + "12|x|FAILED|gpu[003|2026-11-20T10:00:00\n", "line 8: "),
        (SACCT + "12|x|FAILED|gpu003|yesterday\n", "line 8: expected a time"),
        (TICKETS + "-rf,2026-11-20,,\n", "line 4: expected a host or a part"),
        (TICKETS + f"gpu003,2026-11-20,{'x' * 99},\n", "line 4: expected a kind"),
        (TICKETS + '"gpu003,2026-11-20\n', "line 4: "),
        (TICKETS.replace("note", "kind"), "a column is there twice"),
        (SACCT + "12|x|FAILED|gpu003|0001-01-01T00:00:00+14:00\n", "line 8: expected a time"),
        (SACCT + "12|x|FAILED|a[1-3000000]|2026-11-20T10:00:00\n", "line 8: expected at most 16384 names"),
        (SACCT + "12|x|FAILED|@all|2026-11-20T10:00:00\n", "line 8: "),
        (
            KERNEL + "2026-13-45T10:00:00+00:00 gpu003 kernel: NVRM: Xid (PCI:1): 79, x\n",
            "expected a time",
        ),
    ],
)
def test_another_text_is_refused_with_its_line(text: str, words: str) -> None:
    """Nothing is guessed, nothing left out in silence."""
    with pytest.raises(UnreadableOutput, match=words):
        read_records(text)


_PRINTED = (CAPTURES / "slurm/drain-resume-undrain-22.05.txt").read_text()
_LINE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=1 State={state} ThreadsPerCore=1 Owner=N/A Partitions=p "
    "ExtSensorsTemp=n/s{rest}\n"
)


def test_a_captured_node_is_read() -> None:
    """State with its flags, the reason without its author, the author."""
    line = next(line for line in _PRINTED.splitlines() if line.startswith("NodeName=n1 ") and "Reason" in line)
    found = slurm.node("n1", line, "", 0)
    assert found == SchedulerNode(True, "fabric: down", "root")


def test_a_node_without_reason_is_not_drained() -> None:
    """``IDLE`` and ``IDLE*`` alike."""
    for state in ("IDLE", "IDLE*"):
        found = slurm.node("n1", _LINE.format(name="n1", state=state, rest=""), "", 0)
        assert found == SchedulerNode(False)


def test_a_comment_is_no_state_and_no_reason() -> None:
    """Anybody who may write comments could else say that a node is drained by us."""
    rest = (
        " Reason=bad cable [ops@2026-11-23T18:31:25] Comment=a State=IDLE Reason=fabric: x [root@2026-11-23T18:31:25]"
    )
    found = slurm.node("n1", _LINE.format(name="n1", state="IDLE+DRAIN", rest=rest), "", 0)
    assert found is not None
    assert (found.is_drained, found.reason, found.by) == (True, "bad cable", "ops")


def test_no_such_node_is_none_and_no_answer_is_an_error() -> None:
    """Nothing is guessed of a controller that is away, or of another node's line."""
    assert slurm.node("n9", "Node n9 not found\n", "", 1) is None
    away = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
    with pytest.raises(ToolError, match="Unable to contact"):
        slurm.node("n1", "", away, 1)
    with pytest.raises(ToolError, match="no state of n1"):
        slurm.node("n1", _LINE.format(name="n2", state="IDLE", rest=""), "", 0)


@pytest.mark.parametrize("name", ["n[1-3]", "n1,n2", "-n1", "n1 state=down", "ALL x", ""])
def test_one_node_at_a_time(name: str) -> None:
    """A folded name would drain many."""
    for argv in (slurm.show_node, slurm.undrain, lambda host: slurm.drain(host, "fabric: x")):
        with pytest.raises(ValueError, match="misread"):
            argv(name)


@pytest.mark.parametrize("reason", ["a\nb", "a=b", "", "x" * 201])
def test_a_reason_is_one_line(reason: str) -> None:
    """Tools that read reasons split them at ``=`` and at line ends."""
    with pytest.raises(ValueError, match="one printable line"):
        slurm.drain("n1", reason)


def test_the_nodes_of_a_reservation() -> None:
    """As Slurm folds them."""
    text = "ReservationName=r1 StartTime=2026-11-23T18:32:23 Nodes={} NodeCnt=1 Features=(null) PartitionName=(null)\n"
    assert slurm.reserved("r1", text.format("gpu[001-004]"), "", 0) == "gpu[001-004]"
    assert slurm.reserved("r1", "Reservation r1 not found\n", "", 1) is None
    for name, nodes in (("r1", "(null)"), ("r2", "gpu[001-004]")):
        with pytest.raises(ToolError, match="no nodes"):
            slurm.reserved(name, text.format(nodes), "", 0)
    with pytest.raises(ToolError, match="Unable to contact"):
        slurm.reserved("r1", "", "Unable to contact slurm controller (connect failure)", 1)
    assert slurm.unfolded("gpu[001-002],n7") == ("gpu001", "gpu002", "n7")
    for listed in ("gpu[1-2] state=down", "gpu[1-2", "gpu[2-1]"):
        with pytest.raises(ToolError, match="no list of nodes"):
            slurm.unfolded(listed)
    with pytest.raises(ValueError, match="a job is a number"):
        slurm.job_nodes("7;8")


@pytest.mark.parametrize(("nodes", "user", "minutes"), [("n1 flags=maint", "u", 1), ("n1", "u,v", 1), ("n1", "u", 0)])
def test_a_reservation_is_of_these_nodes_for_a_time(nodes: str, user: str, minutes: int) -> None:
    """No further words, and never 0 minutes, which Slurm takes for ever."""
    with pytest.raises(ValueError, match=r"list of nodes|misread|minutes is 0"):
        slurm.reserve("r1", nodes, user, minutes)


LLDP = {name: (CAPTURES / "lldp" / f"{name}.txt").read_text() for name in ("two-neighbours", "no-name", "none")}
TOPO = {path.stem: path.read_text() for path in (CAPTURES / "nvidia-smi-topo").glob("*.txt")}
LINKS = (CAPTURES / "infiniband-diags" / "29-real-ibnetdiscover-p-test.txt").read_text()


def test_lldp_of_a_recorded_rack() -> None:
    """Two neighbours are a list, one is none; a switch without a name is told by its chassis."""
    first, second = interfaces.read_neighbours(LLDP["two-neighbours"])
    assert first == interfaces.Neighbour("eth2", "tor-1", "swp1")
    assert (second.interface, second.switch) == ("eth3", "tor-2")
    document = json.loads(LLDP["two-neighbours"])
    document["lldp"]["interface"] = document["lldp"]["interface"][1]
    assert interfaces.read_neighbours(json.dumps(document)) == (second,)
    assert interfaces.read_neighbours(LLDP["no-name"])[0].switch is None
    assert interfaces.read_neighbours(LLDP["none"]) == ()
    with pytest.raises(ToolError, match="unable to connect to socket"):
        interfaces.read_neighbours("", "[WARN/control] unable to connect to socket /run/lldpd.socket\n", 1)


def test_recorded_distances() -> None:
    """Tabs or blanks, a wrapped heading, devices by a legend or by name, with and without memory nodes."""
    found = {name: host_parts.read_topology(text) for name, text in TOPO.items()}
    dgx = found["01-h100-dgx-mlx5-columns-tabs"]
    assert (dgx.distance["GPU0", "mlx5_0"], dgx.distance["mlx5_1", "GPU1"], dgx.numa["GPU7"]) == ("PIX", "PIX", 1)
    assert (len(dgx.gpus), len({one for pair in dgx.distance for one in pair})) == (8, 18)
    oci = found["07-wrapped-header-8gpu-oci"]
    assert (oci.distance["GPU0", "mlx5_0"], oci.distance["GPU1", "mlx5_1"], oci.numa["GPU4"]) == ("PXB", "PXB", 1)
    power = found["06-power9-v100-mlx5-no-numa-col"]
    assert (power.distance["mlx5_0", "mlx5_1"], power.numa) == ("PIX", {})
    assert all(len(one.distance) % 2 == 0 for one in found.values())


@pytest.mark.parametrize("name", TOPO)
def test_a_matrix_cut_anywhere_names_no_other_device_or_memory_node(name: str) -> None:
    """mlx5_10 that was cut would be mlx5_1."""
    text = TOPO[name]
    whole, words = host_parts.read_topology(text), set(text.split())
    for length in range(len(text)):
        with suppress(UnreadableOutput):
            found = host_parts.read_topology(text[:length])
            assert {one for pair in found.distance for one in pair} <= words
            assert found.numa.items() <= whole.numa.items()


def test_recorded_links() -> None:
    """Real switches: names without quotes, blanks in names, ports without a speed."""
    lines = infiniband.read_links(LINKS)
    kinds = Counter((line.state.active, line.peer is not None) for line in lines)
    assert kinds.keys() == {(True, True), (False, False)}
    first = lines[0]
    assert (first.end.description, first.end.lid, first.speed) == ("o0001 HCA-1", 134, "4x EDR")
    assert first.peer is not None
    assert (first.peer.description, first.peer.port) == ("ib-i1l1s01", 10)
    assert {line.speed for line in lines if line.peer is None} == {"4x ???", "4x SDR"}
    assert first.lanes == (4, 25.78125)
    assert {line.lanes for line in lines if line.speed == "4x ???"} == {(None, None)}


@pytest.mark.parametrize("printed", ["\x1b]0;gpu001\x07", "\0", "ibwarn: x", " "])
def test_a_link_that_something_was_printed_into_is_no_port_that_is_down(printed: str) -> None:
    """A line of a port that is up has another port behind its dash, and ends with the names of both."""
    first = LINKS.splitlines(keepends=True)[0]
    for at in range(len(first) - 1):
        with suppress(UnreadableOutput):
            (line,) = infiniband.read_links(f"{first[:at]}{printed}{first[at:]}")
            assert line.state == ACTIVE


def test_links_as_ufm_tells_them() -> None:
    """NVIDIA's example; what is a port's label is not of its switch's name, and a page of links is no list of them."""
    text = sample("ufm/links-docs-6.20.json")
    here, there = infiniband.read_ufm(text)
    assert here == PortLine(End(0x900A840300AC8C40, "sw-ufm-ndr03", 0, 5), "", ACTIVE, there.end)
    assert (there.end, there.peer) == (End(0x9C0591030085ABC0, "sw-ufm-ndr04", 0, 5), here.end)
    for wrong in ("[]", f'{{"data": {text}}}', text.replace("_5", "_6"), text.replace("source_port_name", "name")):
        with pytest.raises(UnreadableOutput, match=r"UFM: no (list of links|end of a link in source_port_name)"):
            infiniband.read_ufm(wrong)


ENDS = st.builds(
    lambda guid, port, name, label: (End(guid, name, 0, port), label),
    st.integers(0, (1 << 64) - 1),
    st.integers(1, 254),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9 ._-]{0,20}[A-Za-z0-9])?", fullmatch=True),
    st.from_regex(r"[0-9]{1,2}(/[0-9]{1,2}){0,2}|HCA-[1-9]/[12]", fullmatch=True),
)


@given(st.lists(st.tuples(ENDS, ENDS, st.booleans()), min_size=1, max_size=5))
def test_any_links_of_ufm_come_back(links: list[Any]) -> None:
    """With their GUIDs, numbers and names, whether or not a label follows the name; nobody else is there."""
    told = []
    for (one, label), (other, far_label), labelled in links:
        name = f"{one.description}:{label}" if labelled else one.description
        far_name = f"{other.description}:{far_label}"
        ends = ((one, name, label, "source"), (other, far_name, far_label, "destination"))
        near, far = (ufm_end(f"{end.guid:016x}_{end.port}", *rest) for end, *rest in ends)
        told.append({**near, **far, "width": "4x"})
    found = [(line.end, line.peer) for line in infiniband.read_ufm(json.dumps(told))]
    assert found[::2] == [(one, other) for (one, _), (other, _), _ in links]
    assert found[1::2] == [(other, one) for one, other in found[::2]]


def test_the_commands() -> None:
    """Nothing else than these words."""
    assert host_parts.TOPOLOGY == ("nvidia-smi", "topo", "-m")


def test_limits_of_a_recorded_module() -> None:
    """In dBm; a key that is there twice (temperature, its limits) and lanes without light are no matter."""
    said = (CAPTURES / "ethtool" / "02-json-m-mfs1s00.txt").read_text()
    found = interfaces.read_module(said)
    assert found.module == Module("Mellanox", "MFS1S00-V003E", "MT1915FT03913", None)
    assert (found.rx, found.tx) == (Light((), -13.31, 5.4, -10.3), Light((), -11.4, 5.4, -8.4))
    copper = json.dumps([{"vendor_name": "Mellanox        ", "vendor_pn": "MCP1660", "laser_rx_power": {}}])
    assert (interfaces.read_module(copper).rx, interfaces.read_module(copper).module) == (
        None,
        Module("Mellanox", "MCP1660", None, None),
    )


def test_an_ethtool_that_knows_no_json_of_modules_says_so() -> None:
    """The words are those of 6.1 (Debian 12)."""
    old = "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n"
    with pytest.raises(ToolError, match="run ethtool -h"):
        interfaces.read_module("", old, 1)
    for text in ("", "[]", "{}", "[1]", '[{"vendor_sn": "\\u0007"}]'):
        with pytest.raises(UnreadableOutput):
            interfaces.read_module(text)
