"""The command, from files to the exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.cli.diagnose import diagnose_command as command
from fabric.cli.diagnose import parse_command
from fabric.errors import ConfigError
from tests.judge.locate.pairs.made import all_pairs, hosts
from tests.places import CAPTURES, INVENTORY

POD = INVENTORY / "pod-64.yaml"


def write(path, rows):
    lines = [f"{row.a},{row.b},{row.gbps:.3f}" + (f",{row.rail}" if row.rail else "") for row in rows]
    path.write_text("\n".join(["a,b,value_gbps" + (",rail" if rows[0].rail else ""), *lines]) + "\n")
    return str(path)


def run(*args):
    result = CliRunner().invoke(command, args, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


@pytest.mark.parametrize(("many", "loss", "code"), [(8, {"gpu003": 0.2}, 1), (8, {}, 0), (2, {}, 3)])
def test_the_exit_code_says_the_verdict(tmp_path, many, loss, code):
    assert run(write(tmp_path / "p.csv", all_pairs(hosts(many), loss)))[0] == code


@pytest.mark.parametrize("option", ["--limit", "--floor"])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-5"])
def test_a_number_that_is_none_is_refused_with_the_option(tmp_path, option, number):
    file = write(tmp_path / "p.csv", all_pairs(hosts(8)))
    result = CliRunner().invoke(command, [file, f"{option}={number}"])
    assert result.exit_code == 2
    assert option in result.output
    assert number in result.output


def test_a_host_that_could_not_be_measured_is_in_the_document(tmp_path):
    table = "BW average[Gb/sec]\n 65536 1000 390.2 {gbps} 0.75\n"
    for a in hosts(5):
        for b in hosts(5):
            if a < b and "gpu003" not in (a, b):
                text = "RDMA_Write BW Test\n #bytes #iterations BW peak[Gb/sec] " + table.format(gbps="390.1")
                (tmp_path / f"{a}--{b}.txt").write_text(text)
            elif a == "gpu003" != b:
                (tmp_path / f"{a}--{b}.txt").write_text(" Port number 1 state is Down\n Couldn't set the link layer\n")
    files = [str(file) for file in sorted(tmp_path.glob("*.txt"))]
    code, output = run("--json", *files)
    document = json.loads(output)
    assert code == 1
    assert document["host_names"] == [*(h for h in hosts(5) if h != "gpu003"), "gpu003"]
    assert [(one["component"], one["outcome"]) for one in document["suspects"]] == [("gpu003", "fail")]


def test_json_names_suspects_classes_and_next_tests(tmp_path):
    _, output = run(write(tmp_path / "p.csv", all_pairs(hosts(8), {"gpu003": 0.2})), "--json")
    document = json.loads(output)
    assert document["outcome"] == "fail"
    (suspect,) = document["suspects"]
    assert suspect["component"] == "gpu003"
    assert {"component", "kind", "confidence", "evidence", "ambiguous_with"} <= set(suspect)
    assert suspect["margin_nats"] > 6.0
    (odds,) = (line for line in suspect["evidence"] if "likelier than the next explanation" in line)
    assert f"(margin {suspect['margin_nats']} nats)" in odds
    assert {"outcome", "suspects", "classes", "next_tests"} <= set(document)
    assert document["classes"][0]["samples"] == 28
    assert document["next_tests"] == []


def test_the_text_shows_suspects_before_the_matrix(tmp_path):
    _, output = run(write(tmp_path / "p.csv", all_pairs(hosts(8), {"gpu003": 0.2})))
    assert output.startswith("FAIL: 8 hosts")
    assert output.index("suspect ") < output.index("percent of what good pairs reach")
    row = next(line for line in output.splitlines() if line.startswith("  gpu003  "))
    assert "0." in row


@pytest.mark.slow
def test_an_inventory_gives_the_leaf_its_name(tmp_path):
    names = [*hosts(8), *(f"gpu{number:03d}" for number in range(17, 25))]
    loss = {f"gpu{number:03d}": 0.2 for number in range(17, 25)}
    loss_rows = all_pairs(names, loss, rail="2")
    healthy = all_pairs([*names[:8], *(f"gpu{n:03d}" for n in range(33, 41))], rail="2", seed=5)
    _, output = run(write(tmp_path / "p.csv", loss_rows + healthy), "--inventory", str(POD), "--json")
    assert [one["component"] for one in json.loads(output)["suspects"]] == ["su1-leaf2"]


def test_every_problem_is_said_with_its_line(tmp_path):
    (tmp_path / "p.csv").write_text("a,b,value_gbps\ngpu001,gpu002,1\ngpuO03,gpu004,1\n")
    (tmp_path / "q.csv").write_text("a,b,value\nx,y,1\n")
    with pytest.raises(ConfigError) as caught:
        run(str(tmp_path / "p.csv"), str(tmp_path / "q.csv"), str(tmp_path / "none.csv"), "--inventory", str(POD))
    assert "cannot read" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        run(str(tmp_path / "p.csv"), str(tmp_path / "q.csv"), "--inventory", str(POD))
    said = [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]
    assert said[0].startswith("p.csv:3: host 'gpuO03' is not in the inventory; did you mean")
    assert said[1].startswith("q.csv:1: expected a unit")


def test_a_pair_below_the_limit_has_no_margin(tmp_path):
    rows = [x._replace(gbps=200.0) if (x.a, x.b) == ("gpu003", "gpu007") else x for x in all_pairs(hosts(16))]
    _, output = run(write(tmp_path / "p.csv", rows), "--json", "--limit", "350")
    assert [one["margin_nats"] for one in json.loads(output)["suspects"]] == [None]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_table_that_a_spreadsheet_saved_is_read(tmp_path, encoding):
    text = Path(write(tmp_path / "p.csv", all_pairs(hosts(8)))).read_text().replace(",", "\t")
    (tmp_path / "p.txt").write_bytes(text.encode(encoding))
    assert run(str(tmp_path / "p.txt"))[0] == 0


def test_a_decimal_comma_is_refused_with_file_and_line(tmp_path):
    (tmp_path / "p.csv").write_text("a;b;value_gbps\nx;y;391,5\n")
    with pytest.raises(ConfigError) as caught:
        run(str(tmp_path / "p.csv"))
    (problem,) = caught.value.problems
    assert str(problem).endswith("p.csv:2: expected a bandwidth of at least 0, got '391,5'; write the decimal sign as "
                                 "a point: did you mean '391.5'?")  # fmt: skip


def test_names_from_files_cannot_move_the_cursor(tmp_path):
    rows = all_pairs(hosts(8), {"gpu003": 0.2})
    text = Path(write(tmp_path / "p.csv", rows)).read_text().replace("gpu003", "\x1b[2Jgpu003")
    (tmp_path / "p.csv").write_text(text)
    assert "\x1b" not in run(str(tmp_path / "p.csv"))[1]


def test_one_host_with_two_names_is_refused_in_whichever_file_the_second_is(tmp_path):
    rows = all_pairs(hosts(8))
    first = write(tmp_path / "a.csv", rows)
    second = write(tmp_path / "b.csv", [rows[0]._replace(a="GPU003"), rows[1]._replace(b="gpu004.example.com")])
    with pytest.raises(ConfigError) as caught:
        run(first, second)
    assert [(one.file, one.line, one.text.partition(":")[0]) for one in caught.value.problems] == [
        (second, 2, f"host 'GPU003' is called 'gpu003' at {first}"),
        (second, 3, f"host 'gpu004.example.com' is called 'gpu004' at {first}"),
    ]
    with pytest.raises(ConfigError) as caught:
        run(first, second, "--inventory", str(POD))
    said = [one.text for one in caught.value.problems]
    assert [text.partition("did you mean ")[2] for text in said] == ["'gpu003'?", "'gpu004'?"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_parse_reads_what_diagnose_reads(tmp_path, encoding):
    """A byte order mark before a line that decides, and UTF-16, as editors and shells of Windows write them."""
    file = tmp_path / "log.txt"
    file.write_text((CAPTURES / "nccl-tests/09-aws-p4de-2node-srun-l-prefix-no-footer.txt").read_text(), encoding)
    result = CliRunner().invoke(parse_command, ["nccl-tests", str(file)], standalone_mode=False)
    assert result.return_value == 0, result.output
