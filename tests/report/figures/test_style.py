"""Every figure follows the page's light or dark, says nothing harmful, and is a file where one is asked for."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

import fabric
from fabric.report.figures import hosts, inline, pairs, save, training
from fabric.report.figures.style import COLOURS, SIZE_PT
from tests.report.figures.seen import texts
from tests.report.framed import framed, pair, sample
from tests.report.shown import HOSTILE


def test_every_colour_is_a_variable_of_the_page() -> None:
    """Of the light and of the dark one; in the light it is the same, so that a file on white looks alike."""
    style = files("fabric.report").joinpath("templates", "report.css").read_text("utf-8")
    light, dark = style.partition("@media")[::2]
    assert len(set(COLOURS.values())) == len(COLOURS)
    for name, colour in COLOURS.items():
        assert f"--{name}:{colour}" in light
        assert f"--{name}:" in dark
    assert not re.findall("#[0-9a-f]{6}", inline(training(64, 3600.0)))


@pytest.mark.parametrize("word", HOSTILE)
def test_what_a_host_is_called_stays_text(word: str) -> None:
    """Neither markup nor mathematics; what hides or reverses letters is written out."""
    rows = [sample(f"p/{word}", host=word, hosts=word, kind=word, rnic=word)]
    rows += [pair(f"q{end}", word, end, kind=word) for end in (f"${word}$", "gpu001")]
    for drawn in (hosts(framed(samples=rows)), pairs(framed(samples=rows), word)):
        assert drawn is not None
        text = inline(drawn)
        tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(text).iter()}
        assert tags <= {"svg", "g", "path", "use", "defs", "text", "tspan", "a"}
        assert not re.search("[\x00-\x08\x1b\u202e]", text)
        assert "url(" not in text


def test_letters_are_large_enough() -> None:
    sizes = re.findall(r"font-size: (\d+(?:\.\d+)?)px", inline(training(64, 3600.0)))
    assert sizes
    assert min(map(float, sizes)) >= SIZE_PT


def test_nothing_of_the_style_stays_set() -> None:
    """A notebook's own figures look as its user wants."""
    before = dict(mpl.rcParams)
    training(64, 3600.0)
    assert dict(mpl.rcParams) == before


def test_a_figure_is_a_png_and_an_svg(tmp_path: Path) -> None:
    paths = save(training(64, 3600.0), tmp_path, "../a b")
    assert [path.name for path in paths] == ["-a-b.png", "-a-b.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")


def test_the_same_figure_is_the_same_text() -> None:
    """A page that is made again differs in nothing."""
    assert inline(training(64, 3600.0)) == inline(training(64, 3600.0))


def test_a_notebook_reaches_them_as_fabric_figures() -> None:
    assert fabric.figures.training is training
    assert "MTTF, hours" in texts(fabric.figures.training(64, 3600.0))
    with pytest.raises(AttributeError, match="figure'"):
        _ = fabric.figure  # type: ignore[attr-defined]
