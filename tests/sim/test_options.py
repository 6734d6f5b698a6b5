"""Command lines of the simulated tools: one table a tool, read as getopt_long does."""

from __future__ import annotations

import pytest

from fabric.sim.tools.call import BadOption, number, options, taken_apart

TABLE = options("""
    device=  -d --device
    cuda=    --use_cuda
    quiet    -q --quiet --queue
""")


@pytest.mark.parametrize(
    ("words", "fields", "rest"),
    [
        ("-d mlx5_0 peer", {"device": "mlx5_0"}, ["peer"]),
        ("-qdmlx5_0", {"quiet": "", "device": "mlx5_0"}, []),
        ("--dev=mlx5_0", {"device": "mlx5_0"}, []),
        ("--use_cuda=3 --qui", {"cuda": "3", "quiet": ""}, []),
        ("peer -q other", {"quiet": ""}, ["peer", "other"]),
    ],
)
def test_every_form_of_an_option_is_read(words: str, fields: dict[str, str], rest: list[str]) -> None:
    assert taken_apart(words.split(), TABLE) == (fields, rest)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-x", "invalid option -- 'x'"),
        ("--nothing", "unrecognized option '--nothing'"),
        ("--quiet=1", "option '--quiet' doesn't allow an argument"),
        ("-d", "option requires an argument -- 'd'"),
        ("--device", "option '--device' requires an argument"),
    ],
)
def test_a_bad_option_is_refused_in_getopts_words(words: str, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        taken_apart(words.split(), TABLE)
    assert str(caught.value) == said


def test_numbers_have_bounds() -> None:
    assert number("0", least=0, most=3) == 0
    for text in ("", "k", "-1", "4", "1.5", "²", "2g"):
        with pytest.raises(BadOption, match="invalid value"):
            number(text, most=3)
