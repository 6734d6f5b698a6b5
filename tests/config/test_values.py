"""Single values: what each type accepts, and how sets of names and templates unfold."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from fabric.config.topology import TemplateText
from fabric.model.fields.folded import FoldedNames
from fabric.model.fields.scalars import (
    ADDRESS,
    DEVICE,
    SAFE_NAME,
    USER,
    Decimal,
    Duration,
    Flag,
    Indexes,
    Scalar,
    Size,
    Span,
    Whole,
)
from fabric.model.fields.wording import SEEN_MOST, nearest, quoted
from fabric.model.text import size_text
from tests.builders import accepted

FIELDS = TemplateText(("name", "unit", "rack", "rail"))
GOOD = [
    (Whole(0, 100), "0", 0),
    (Whole(0, 100), "100", 100),
    (Decimal(0, 1), "1e-6", 1e-6),
    (Decimal(0, 1000), "2.5E+2", 250.0),
    (Decimal(0, 1000), "400", 400.0),
    (Flag(), "true", True),
    (Flag(), "false", False),
    (Size(1, 1 << 40), "8M", 8 << 20),
    (Size(1, 1 << 40), "64K", 64 << 10),
    (Size(1, 1 << 40), "1G", 1 << 30),
    (Size(1, 1 << 40), "1000", 1000),
    (Duration(1, 9999), "5s", 5),
    (Duration(1, 9999), "2m", 120),
    (Duration(1, 9999), "1h", 3600),
    (Indexes(), "7", (7,)),
    (Indexes(), "0-3", (0, 1, 2, 3)),
    (DEVICE, "mlx5_bond_0", "mlx5_bond_0"),
    (DEVICE, "rocep59s0", "rocep59s0"),
    (ADDRESS, "fd00::1", "fd00::1"),
    (USER, "_ops", "_ops"),
    (SAFE_NAME, "a" * 64, "a" * 64),
]
TEMPLATES = [
    "",
    *["{", "}", "{}", "{{name}}", "{name!r}", "{name.x}", "{unit:2}", "{unit:010}", "{name:02}", "é", "{0}"],
    "a b",
    "x" * 129,
]
SETS = [
    "",
    "a b",
    *[
        *(",", "a,", "@all", "a!b", "a[1", "a]1", "a[]", "a[b]", "a[[1]]", "a[3-1]", "a[001-16]", "a[1-010]"),
        *("a[1-9/0]", "a*", "é", "a[1][1][1][1][1]"),
    ],
]
BAD = [
    *(
        (Whole(0, 100), text)
        for text in (
            *["-1", "+1", "01", "1.0", "1e2", "0x1", "0b1", "1_0", "\u0661", "101"],
            "",
            " 1",
            "1\n",
            "9" * 5000,
        )
    ),
    *(
        (Decimal(0, 1), text)
        for text in ("", ".5", "1.", "inf", "nan", "-0.5", "0x1p3", "1e999", "0,5", "\u0660", "00.5")
    ),
    *((Flag(), text) for text in ("", "yes", "no", "on", "off", "True", "FALSE", "1", "0")),
    *((Size(1, 1 << 40), text) for text in ("", "8m", "8MB", "8 M", "1.5G", "-1", "0", "08M", "2T", "9" * 30)),
    *((Duration(1, 60), text) for text in ("", "5", "0s", "5S", "1.5s", "5 s", "05s", "2m", "5ms")),
    *((Indexes(), text) for text in ("", "3-0", "0-100", "1,2", "-1", "a", "0-")),
    *((DEVICE, text) for text in ("mlx5_", "mlx4_0", "mlx5_" + "0" * 16, "mlx5_0;ls", "mlx5_0\n", "-mlx5_0")),
    *((ADDRESS, text) for text in ("", "-oProxyCommand=x", "a b", "a/b", "a@b", "a" * 254)),
    *((FIELDS, text) for text in TEMPLATES),
    *((FoldedNames(), text) for text in SETS),
]


def test_good_values_are_read() -> None:
    """Each way of writing that the documentation names is read."""
    assert [(scalar, text, scalar.parse(text)) for scalar, text, _ in GOOD] == GOOD


def test_bad_values_are_refused() -> None:
    """Nothing is guessed: anything else is refused with what was expected and what was seen."""
    assert accepted(BAD, lambda case: case[0].parse(case[1]), PydanticCustomError, r"expected|known are") == []


@given(st.integers(1, (1 << 40) - 1))
def test_sizes_read_back_as_they_are_printed(size_bytes: int) -> None:
    """``size_text`` and ``Size`` are each other's inverse."""
    assert Size(1, 1 << 40).parse(size_text(size_bytes)) == size_bytes


@given(st.lists(st.integers(0, 300), min_size=1, max_size=4), st.integers(1, 3))
def test_a_set_unfolds_to_as_many_names_as_counted(lasts: list[int], step: int) -> None:
    """The count that guards the expansion is exact."""
    text = ",".join(f"h{number}x[0-{last}/{step}]" for number, last in enumerate(lasts))
    folded = FoldedNames().parse(text)
    names = folded.names()
    assert len(names) == folded.count == len(set(names))
    assert names[0] == "h0x0"


@given(st.text(alphabet="ab01[],-/.", max_size=30))
def test_any_set_unfolds_or_is_refused(text: str) -> None:
    """What passes the shape either unfolds to the number counted or says why not; nothing else is raised."""
    try:
        folded = FoldedNames().parse(text)
    except PydanticCustomError:
        return
    with suppress(ValueError):
        assert len(folded.names()) == folded.count


@pytest.mark.parametrize(
    "text", ["a" * 60_000 + "!", "[1]" * 20_000, "," * 60_000, "a[" * 30_000, "a[0-99999],b[0-99999]"]
)
def test_hostile_sets_are_refused_by_arithmetic(text: str) -> None:
    """Neither the shape nor the count takes long (each would run for hours if it backtracked or expanded)."""
    with pytest.raises(PydanticCustomError):
        FoldedNames().parse(text)


def test_templates_pad_with_zeros() -> None:
    """``{unit:02}`` is two digits; text around fields stays."""
    values: dict[str, str | int] = {"name": "gpu7", "unit": 3, "rack": 12, "rail": 0}
    template = FIELDS.parse("su{unit:02}-r{rack:03}-{rail}.{name}")
    assert template.text(values) == "su03-r012-0.gpu7"
    assert template.fields == {"unit", "rack", "rail", "name"}


@pytest.mark.slow
@given(st.text())
def test_what_was_seen_is_bounded_and_printable(text: str) -> None:
    """Whatever a file holds, a message quotes it in a few printable characters."""
    shown = quoted(text)
    assert shown.isprintable()
    assert len(shown) <= SEEN_MOST + 3


def test_the_nearest_word_is_suggested_only_when_near() -> None:
    """A slip of the pen gets a suggestion, another word does not."""
    assert nearest("timout", ("timeout", "port")) == "; did you mean 'timeout'?"
    assert nearest("zebra", ("timeout", "port")) == ""
    assert nearest("x" * 10_000, ("timeout",)) == ""


@pytest.mark.parametrize(
    ("scalar", "allowed"),
    [
        (Decimal(0.001, 1_000_000), "a number from 0.001 to 1000000"),
        (Decimal(1e-6, 0.5), "a number from 1e-06 to 0.5"),
        (Whole(1, 1024), "a whole number from 1 to 1024"),
        (Span(0.1, 10_000_000), "a duration from 0.1s to 10000000s"),
        (Duration(1, 2_592_000), "a duration from 1s to 720h (30 days) such"),
        (Size(1, 1 << 40), "a size from 1 to 1T"),
    ],
)
def test_an_absurd_number_is_refused_with_what_is_allowed(scalar: Scalar, allowed: str) -> None:
    """The bounds are said in digits, as a person would write them."""
    absurd = ["nan", "inf", "1e308", "1e999", "9" * 400, "1e308s"]
    assert accepted(absurd, scalar.parse, PydanticCustomError, f"^expected {re.escape(allowed)}") == []
