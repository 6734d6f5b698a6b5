"""Pair results as comma-separated values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.tools.pairs.csv import parse


def test_rows_with_the_unit_in_the_heading():
    table = parse("a,b,value_gbps,kind,size,rail\n# a comment\ngpu1,gpu2,391.5,ib_write_bw,8M,3\n")
    assert table.problems == ()
    (row,) = table.rows
    assert (row.a, row.b, row.gbps, row.line) == ("gpu1", "gpu2", 391.5, 3)
    assert (row.kind, row.size_bytes, row.rail) == ("ib_write_bw", 8 << 20, "3")


@pytest.mark.parametrize(
    ("heading", "cell", "gbps"),
    [
        ("a,b,value (GB/s)", "48.5", 388.0),
        ("a,b,Value[Gb/s]", "388", 388.0),
        ("a,b,value (MiB/s)", "1000", 8.388608),
        ("a,b,value_gbps", "3.88e2", 388.0),
    ],
)
def test_bits_and_bytes_are_told_apart(heading, cell, gbps):
    assert parse(f"{heading}\nx,y,{cell}\n").rows[0].gbps == pytest.approx(gbps)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a,b,value\nx,y,391\n", 1, "expected a unit"),
        ("a,b,value (furlongs)\nx,y,391\n", 1, "expected a unit (Gb/s"),
        ("a,b,value_gbps\nx,x,391\n", 2, "two different hosts"),
        ("a,b,value_gbps\n\nx,y,nan\n", 3, "expected a bandwidth"),
        ("a,b,value_gbps\nx,y,-1\n", 2, "expected a bandwidth"),
        ("a,b,value_gbps\nx,y\n", 2, "expected 3 cells"),
        ("a,b,valeu\nx,y,1\n", 1, "did you mean 'value'"),
        ("a,b,value_gbps,size\nx,y,1,big\n", 2, "expected a size"),
        ("a,value_gbps\nx,1\n", 1, "no column b"),
        ("a,b,value_gbps\n", 1, "no rows"),
        ("", 1, "no rows"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text, line, said):
    table = parse(text)
    assert table.problems[0][0] == line
    assert said in table.problems[0][1]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_commas_semicolons_and_tabs_separate_alike(separator, mark):
    text = f"{mark}# from a spreadsheet\na,b,value_gbps,rail\nx,y,391.5,2\n".replace(",", separator)
    (row,) = parse(text).rows
    assert (row.a, row.b, row.gbps, row.rail, row.line) == ("x", "y", 391.5, "2", 3)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a;b;value_gbps\nx;y;391,5\n", 2, "got '391,5'; write the decimal sign as a point: did you mean '391.5'?"),
        ("a\tb\tvalue_gbps\nx\ty\t391,523\n", 2, "did you mean '391.523'?"),
        ("a,b,value_gbps\n\nx,y,391,5\n", 3, "got 4; is one a number with a decimal comma"),
        ("a,b,value_gbps,rail\nx,y,391,5,rail2\n", 2, "write it with a point"),
        ("a,b;value_gbps\nx,y;1\n", 1, "no column b, value: expected column names a,b,value_gbps"),
        ("a b value_gbps\nx y 1\n", 1, "no column a, b, value: expected column names a,b,value_gbps"),
        ("a;value_gbps\nx;1\n", 1, "no column b: expected column names a,b,value_gbps"),
        ("one,two,rate\nx,y,1\n", 1, "got 'one, two, rate'"),
        ("a;b;valu_gbps\nx;y;1\n", 1, "got 'valu_gbps'; did you mean 'value_gbps'?"),
    ],
)
def test_a_table_of_a_spreadsheet_that_cannot_be_read_is_told_what_to_write(text, line, said):
    table = parse(text)
    assert table.rows == ()
    assert [number for number, problem in table.problems if said in problem] == [line]


@given(st.text(max_size=300))
def test_any_text_is_rows_or_problems(text):
    table = parse(text)
    assert table.rows or table.problems


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_what_was_written_is_read(values):
    text = "a,b,value_gbps\n" + "".join(f"h{n},k{n},{value!r}\n" for n, value in enumerate(values))
    assert [row.gbps for row in parse(text).rows] == values


def test_one_wrong_line_of_many_is_told_with_its_number():
    """Lines are read many at a time; what is wrong is said of its own line, and comments and empty lines count."""
    lines = ["a,b,value_gbps", "# c,d,1", "", *(f"h{n},g{n},391.5" for n in range(9_000))]
    assert len(parse("\n".join(lines)).rows) == 9_000
    lines[7_000] = "h1,h1,391.5"
    found = parse("\n".join(lines))
    assert found.problems == ((7_001, "expected two different hosts, got 'h1' twice"),)
    assert found.rows[-1].line == 9_003
