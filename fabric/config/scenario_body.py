"""Reads the phases of a scenario in every combination of its matrix and every round, and what it expects of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.config.changes import Fabric
from fabric.config.document import Tree
from fabric.config.entries import report, valid
from fabric.config.expect import Expected
from fabric.config.matrix import Matrix, check_all_used, read_matrix, rounds
from fabric.config.phases import PHASES_MOST, Decoder, check_names, expanded, written_names
from fabric.config.problems import Problems
from fabric.config.scenario_file import ScenarioFile
from fabric.model.fields.wording import quoted
from fabric.model.scenario import Expectation, Phase, Where

READ_MOST = 500_000  # values of the file times combinations: some ten seconds


@dataclass(frozen=True, slots=True)
class Body:
    """The file's own keys (None: something is wrong with them), its phases as they run, and what is expected."""

    file: ScenarioFile | None
    phases: tuple[Phase, ...] = ()
    expect: tuple[Expectation, ...] = ()


def read_body(tree: Mapping[str, Tree], fabric: Fabric | None, problems: Problems) -> Body:
    """All of a scenario file that is not about the inventory itself; what is wrong is noted, each thing once."""
    matrix = read_matrix(tree, problems)
    decoder = Decoder(fabric, problems)
    raw = tree.get("phases")
    found: dict[Where, tuple[Phase, ...]] = {}
    file: ScenarioFile | None = None
    for where in _bounded(matrix.combinations, problems):
        filled = None if raw is None else matrix.filled(raw, where, ("phases",), problems)
        whole = tree if filled is None else {**tree, "phases": filled}
        report(ScenarioFile, whole, problems)
        if not found:
            file = valid(ScenarioFile, whole)
            check_names(filled, problems)
        found[where] = decoder.phases(filled, where)
    if raw is not None:
        check_all_used(matrix, problems)
    phases = [phase for each in found.values() for phase in each]
    expect = Expected(written_names(raw), phases, matrix, problems).all(tree.get("expect"))
    if file is None:
        return Body(None)
    _check_rounds(file, matrix, problems)
    return Body(file, _in_order(file, found, problems), expect)


def _bounded(combinations: tuple[Where, ...], problems: Problems) -> tuple[Where, ...]:
    """The combinations, or the first alone of a file that would take minutes to read so often."""
    count = len(problems.lines)
    if count * len(combinations) <= READ_MOST:
        return combinations
    problems.add(("matrix",), f"{len(combinations)} combinations of a file of {count} values are too many to read")
    return combinations[:1]


def _check_rounds(file: ScenarioFile, matrix: Matrix, problems: Problems) -> None:
    """What each key alone cannot say."""
    if file.order == "abba" and (file.rounds == 1 or len(matrix.combinations) == 1):
        text = "order abba turns every second round around: it needs a matrix and 'rounds' of two or more"
        problems.add(("order",), text)
    for position, rail in enumerate(file.allow):
        if rail in file.allow[:position]:
            problems.add(("allow", position), f"{quoted(rail)} is there twice")


def _in_order(file: ScenarioFile, found: Mapping[Where, tuple[Phase, ...]], problems: Problems) -> tuple[Phase, ...]:
    """The phases as they run; without matrix and rounds just as they are written."""
    if len(file.phases) * len(found) * file.rounds > PHASES_MOST:
        count = f"{len(file.phases)} x {len(found)} x {file.rounds}"
        text = f"expected at most {PHASES_MOST} phases in all, got {count} (phases x combinations x rounds)"
        problems.add(("rounds",) if file.rounds > 1 else ("matrix",), text)
        return ()
    if file.rounds == 1 and tuple(found) == ((),):
        return found[()]
    runs = rounds(tuple(found), file.rounds, file.order)
    return expanded(((number, found[where]) for number, where in runs), problems)
