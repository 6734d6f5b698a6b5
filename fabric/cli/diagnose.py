"""``fabric diagnose``, ``hang`` and ``parse``: what other tools wrote down."""

from pathlib import Path
from typing import Any

import click

from fabric.cli.options import PATH, Number, answer, json_option

_TOOLS = ("nccl-tests", "perftest")


@click.command("diagnose")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--inventory", type=PATH, help="Says which hosts share a leaf: an inventory file.")
@click.option("--format", "format_name", type=click.Choice(("auto", "csv", *_TOOLS)), default="auto", show_default=True)
@click.option(
    "--limit",
    "limit_gbps",
    metavar="GBPS",
    type=Number(0.001, 1e6),
    help="The least that is acceptable, Gb/s: what is slow as a whole has no outlier.",
)
@click.option(
    "--floor",
    "floor_percent",
    metavar="PERCENT",
    type=Number(0.5, 50),
    default=3.0,
    show_default=True,
    help="The smallest loss worth naming.",
)
@json_option
def diagnose_command(files: tuple[Path, ...], floor_percent: float, *, as_json: bool, **asked: Any) -> int:
    """Say which part is bad, from pair results of any tool: FILES hold who was measured with whom, and how fast."""
    from fabric.app.diagnose import diagnose_files
    from fabric.report.diagnosis import diagnosis_document, diagnosis_text
    from fabric.report.verdict_json import EXIT_CODES

    diagnosis, notes = diagnose_files(files, floor=floor_percent / 100, **asked)
    document, text = diagnosis_document(diagnosis, notes), diagnosis_text(diagnosis, notes)
    return answer(document, [text], as_json=as_json, code=EXIT_CODES[diagnosis.outcome])


@click.command("parse")
@click.argument("tool", type=click.Choice(_TOOLS))
@click.argument("files", nargs=-1, required=True, type=PATH)
@json_option
def parse_command(tool: str, files: tuple[Path, ...], *, as_json: bool) -> int:
    """Read TOOL's output from FILES and say what is in it; with --json one document (a list for several files)."""
    from fabric.app.diagnose import MOST_BYTES, decoded, read_input
    from fabric.report.diagnosis import parsed_document, parsed_text

    texts = [decoded(read_input(file, MOST_BYTES)) for file in files]
    documents = [parsed_document(tool, text) for text in texts]
    code = 0 if all(_sound(document) for document in documents) else 3
    text = parsed_text(list(zip(map(str, files), documents, strict=True)))
    return answer(documents[0] if len(documents) == 1 else documents, [text], as_json=as_json, code=code)


def _sound(document: dict[str, Any]) -> bool:
    """Something was measured, nothing failed, and everything adds up."""
    tests = document["tests"]
    return bool(tests) and not document["failures"] and not any(test["problems"] for test in tests)


@click.command("hang")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--inventory", type=PATH, help="Says which RNICs a host has, and who its neighbours are.")
@click.option("--ranks", type=PATH, metavar="FILE", help="Where ranks run: '0-7 gpu001' a line, or a hostfile.")
@json_option
def hang_command(files: tuple[Path, ...], inventory: Path | None, ranks: Path | None, *, as_json: bool) -> int:
    """
    Say who a hung or failed job waits for, and what to test now.

    FILES, or folders of them: dumps of PyTorch's flight recorder, answers of NCCL RAS (ncclras), logs of NCCL and
    PyTorch. Nothing in them is executed.
    """
    from fabric.app.diagnose import hang_files
    from fabric.report.hang import hang_document, hang_text
    from fabric.report.verdict_json import EXIT_CODES

    hang = hang_files(files, inventory=inventory, ranks=ranks)
    return answer(hang_document(hang), [hang_text(hang)], as_json=as_json, code=EXIT_CODES[hang.outcome])
