"""The matrix of a scenario: its values, its combinations, and a phase with ``$name`` replaced by one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Annotated

from pydantic import Field

from fabric.config.document import Tree
from fabric.config.problems import KeyPath, Problems, valid
from fabric.model.fields.scalars import SAFE_NAME, AsWritten
from fabric.model.fields.wording import nearest, quoted
from fabric.model.scenario import Name, Where

MatrixValue = Annotated[str, AsWritten("a value", most=256)]
MatrixValues = Annotated[tuple[MatrixValue, ...], Field(min_length=1, max_length=20)]


COMBINATIONS_MOST = 64
_OneName = dict[Name, MatrixValues]

REFERENCE = re.compile(rf"\$({SAFE_NAME.pattern})")
"""A whole value that stands for one of the matrix."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
FIXED_KEYS = ("name", "needs")
"""Keys of a phase that are the same in every combination."""


@dataclass(slots=True)
class Matrix:
    """*values* by name; *wrong* are names whose values could not be read; *used* those that phases speak of."""

    values: Mapping[str, tuple[str, ...]]
    wrong: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)

    @property
    def combinations(self) -> tuple[Where, ...]:
        """Every combination in order, the last name changing fastest; one empty combination without a matrix."""
        return tuple(tuple(zip(self.values, each, strict=True)) for each in product(*self.values.values()))

    def filled(self, tree: Tree, where: Where, path: KeyPath, problems: Problems) -> Tree:
        """The phases with every ``$name`` replaced; one that is not known is noted."""
        values = dict(where)

        def fill(each: Tree, here: KeyPath) -> Tree:
            if isinstance(each, list):
                return [fill(item, (*here, position)) for position, item in enumerate(each)]
            if isinstance(each, dict):
                return {key: fill(item, (*here, key)) for key, item in each.items()}
            match = REFERENCE.fullmatch(each)
            if match is None:
                return each
            return self._value(match[1], values, here, problems) or each

        return fill(tree, path)

    def _value(self, name: str, values: Mapping[str, str], path: KeyPath, problems: Problems) -> str | None:
        self.used.add(name)
        if len(path) > 2 and path[2] in FIXED_KEYS:
            problems.spoil(path, f"expected a phase's name, which is the same in every combination, got '${name}'")
        elif name in values:
            problems.stands_for(path, f"${name}")
            return values[name]
        elif name in self.wrong:
            problems.silence(path)
        else:
            known = (*self.values, *self.wrong)
            problems.spoil(path, f"no {quoted(name)} under matrix:{nearest(name, known)}")
        return None


def read_matrix(tree: Mapping[str, Tree], problems: Problems) -> Matrix:
    """The matrix of a file, without what is wrong in it; what only all of it shows to be wrong is noted."""
    raw = tree.get("matrix", {})
    if not isinstance(raw, dict):
        return Matrix({})
    whole = {name: valid(_OneName, {name: values}) for name, values in raw.items()}
    values = {name: entry[name] for name, entry in whole.items() if entry is not None}
    for name, texts in values.items():
        _values_differ(texts, ("matrix", name), problems)
    matrix = Matrix(values, frozenset(name for name, entry in whole.items() if entry is None))
    count = prod(len(texts) for texts in values.values())
    if count > COMBINATIONS_MOST:
        problems.add(("matrix",), f"expected at most {COMBINATIONS_MOST} combinations, got {count}")
        return Matrix({}, frozenset(raw))
    return matrix


def check_all_used(matrix: Matrix, problems: Problems) -> None:
    """Note the names that no phase speaks of."""
    for name in matrix.values:
        if name not in matrix.used:
            problems.add(("matrix", name), f"no phase uses '${name}'")


def suffix(where: Where, round_number: int) -> str:
    """What a combination and a round add to a phase's name: ``.adaptive_routing-on.r2``; nothing for round 1."""
    parts = [f".{name}-{_UNSAFE.sub('-', value)}" for name, value in where]
    return "".join(parts) + (f".r{round_number}" if round_number > 1 else "")


def rounds(combinations: tuple[Where, ...], count: int, order: str) -> Iterator[tuple[int, Where]]:
    """Every round and combination as they run; with ``abba`` every second round runs backwards."""
    for number in range(1, count + 1):
        backwards = order == "abba" and number % 2 == 0
        for where in reversed(combinations) if backwards else combinations:
            yield number, where


def _values_differ(texts: tuple[str, ...], path: KeyPath, problems: Problems) -> None:
    for position, text in enumerate(texts):
        if text in texts[:position]:
            problems.add((*path, position), f"{quoted(text)} is there twice")
