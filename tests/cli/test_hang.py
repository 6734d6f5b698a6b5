"""The command, from what a job left to the exit code."""

import json
import os

import pytest
from click.testing import CliRunner

from fabric.cli.diagnose import hang_command as command
from fabric.errors import ConfigError
from tests.places import CAPTURES, INVENTORY

HANG = CAPTURES / "hang"
POD = str(INVENTORY / "pod-64.yaml")


def run(*args):
    result = CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


def document(*args):
    code, output = run(*args, "--json")
    found = json.loads(output)
    assert code == found["exit_code"]
    return found


@pytest.fixture
def ranks(tmp_path):
    file = tmp_path / "ranks.txt"
    file.write_text("# rank host\n0 gpu001\n1 gpu002\n2-2 gpu003\n3 gpu009\n")
    return file


@pytest.mark.parametrize(
    ("case", "code", "named"),
    [
        ("absent", 1, [2]),
        ("op", 1, [2]),
        ("size", 1, [2]),
        ("dead", 3, [2]),
        ("stopped", 3, [2]),
        ("healthy", 3, [0, 2, 3]),  # dumped at once after its last call, which is over on rank 1 alone
    ],
)
def test_the_dumps_of_real_jobs_name_the_rank_that_misbehaved(case, code, named):
    found = document(HANG / case)
    assert (found["exit_code"], [one["rank"] for one in found["suspects"]]) == (code, named)


def test_files_may_be_named_one_by_one_pickle_and_json_together():
    found = document(
        *(HANG / f"absent/nccl_trace_rank_{rank}" for rank in (0, 1, 3)),
        HANG / "absent-json/dump_fr_trace_json_rank_2.json",
    )
    assert [one["rank"] for one in found["suspects"]] == [2]


def test_the_text_says_the_verdict_first_and_what_to_test(ranks):
    code, output = run(HANG / "absent", "--ranks", ranks, "--inventory", POD)
    assert code == 1
    assert output.startswith("FAIL: the job waits for rank 2 on gpu003\n")
    assert "it did not call all_reduce #7 of group 0 (default_pg)" in output
    assert "gpu003 with gpu009" in output
    assert "fabric run scenarios/localise.yaml --inventory FILE --hosts 'gpu[002-003,009]'" in output


def test_a_host_of_the_inventory_in_a_dumps_path_places_its_rank(tmp_path):
    for rank in range(4):
        (tmp_path / f"gpu00{rank + 1}").mkdir()
        source = (HANG / f"absent/nccl_trace_rank_{rank}").read_bytes()
        (tmp_path / f"gpu00{rank + 1}" / f"nccl_trace_rank_{rank}").write_bytes(source)
    assert document(tmp_path, "--inventory", POD)["suspects"][0]["host"] == "gpu003"


def test_a_rank_has_the_rnics_next_to_its_gpu(tmp_path):
    text = (HANG / "status-json-docs-2.29.json").read_text().replace("172.16.64.245", "gpu003.pod.example")
    (tmp_path / "ras.json").write_text(text.replace('"considered_dead": false', '"considered_dead": true'))
    found = document(tmp_path / "ras.json", "--inventory", POD)
    (suspect,) = found["suspects"]
    assert (suspect["kind"], suspect["outcome"], suspect["parts"]) == ("dead", "fail", ["gpu003/mlx5_1"])


def test_a_hostfile_gives_ranks_in_its_order(tmp_path):
    (tmp_path / "hostfile").write_text("gpu001 slots=2\ngpu002 slots=2\n")
    assert document(HANG / "absent", "--ranks", tmp_path / "hostfile")["suspects"][0]["host"] == "gpu002"


def test_other_files_of_a_folder_are_left_out_and_counted(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "nccl_trace_rank_0").write_bytes((HANG / "absent/nccl_trace_rank_0").read_bytes())
    os.mkfifo(tmp_path / "fifo_rank_1")
    (tmp_path / "link_rank_2").symlink_to("/dev/zero")
    assert any("1 files of the folders are something else" in note for note in document(tmp_path)["notes"])


def bad(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", b"hello", "expected a dump"),
        ("empty_rank_1", b"", "expected a dump"),
        ("trace_rank_1", (HANG / "absent/nccl_trace_rank_0").read_bytes()[:1000], "cut or damaged"),
        ("trace_rank_1", b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "no plain data: GLOBAL"),
        ("trace_rank_1", b'{"entries": [', "JSON that is cut or damaged"),
        ("trace_rank_1", b'{"communicators": [{"size": 1e9, "timestamp": 1}]}', "a damaged status of NCCL RAS"),
        ("latin", "Grüße".encode("latin-1"), "expected a dump"),
        ("huge_rank_1", None, "larger than 64 MiB"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_why(tmp_path, name, content, said):
    file = tmp_path / name
    if content is None:
        with file.open("wb") as stream:
            stream.truncate(4 << 30)  # a file of 4 GiB that takes no space
    else:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        run(file)
    assert name in str(caught.value)
    assert said in str(caught.value)


def test_a_dump_of_a_folder_that_was_cut_is_as_if_it_was_not_given(tmp_path):
    """Its process died while it wrote: the others tell all the same, and nothing is certain."""
    for number in (0, 1, 2, 3):
        content = (HANG / f"absent/nccl_trace_rank_{number}").read_bytes()
        bad(tmp_path, f"nccl_trace_rank_{number}", content[:1000] if number == 1 else content)
    found = document(tmp_path)
    assert (found["exit_code"], sorted(one["rank"] for one in found["suspects"])) == (3, [1, 2])
    assert any("nccl_trace_rank_1: a pickle that is cut" in note for note in found["notes"])
    for number in (0, 2, 3):
        (tmp_path / f"nccl_trace_rank_{number}").unlink()
    with pytest.raises(ConfigError, match="cut or damaged"):
        run(tmp_path)


def test_every_problem_is_said_at_once(tmp_path, ranks):
    with pytest.raises(ConfigError) as caught:
        run(bad(tmp_path, "a.txt", b"x"), tmp_path / "none", bad(tmp_path, "b.txt", b"y"))
    assert len(caught.value.problems) == 3
    ranks.write_text("0 gpuO01\n1 gpu001 gpu002 gpu003\n")
    with pytest.raises(ConfigError) as caught:
        run(HANG / "absent", "--ranks", ranks, "--inventory", POD)
    said = [str(problem) for problem in caught.value.problems]
    assert "ranks.txt:1: host 'gpuO01' is not in the inventory" in said[0]
    assert "ranks.txt:2: expected '0-7 gpu001' or 'gpu001 slots=8'" in said[1]


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="0 files, none of them"):
        run(tmp_path)
