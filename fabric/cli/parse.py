"""``fabric parse``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from fabric.cli.options import json_option, print_json

_TOOLS = ("nccl-tests", "perftest")

MOST_BYTES = 64 << 20
"""Of one file (a choice: two days of one host are some MB)."""


@click.command("parse")
@click.argument("tool", type=click.Choice(_TOOLS))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(tool: str, files: tuple[Path, ...], *, as_json: bool) -> int:
    """Read TOOL's output from FILES and say what is in it; with --json one document (a list for several files)."""
    from fabric.report.output import say, visible
    from fabric.report.parsed import parsed_document, parsed_lines

    documents = [parsed_document(tool, text) for text in [_text(file) for file in files]]
    if not as_json:
        for file, document in zip(files, documents, strict=True):
            say("\n".join(visible(line) for line in parsed_lines(document, str(file))))
    if as_json:
        print_json(documents[0] if len(documents) == 1 else documents)
    return 0 if all(_sound(document) for document in documents) else 3


def _text(file: Path) -> str:
    from fabric.errors import ConfigError, Problem

    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
    except OSError as exc:
        raise ConfigError([Problem(str(file), 0, f"cannot read: {exc.strerror}")]) from exc
    if len(data) > MOST_BYTES:
        raise ConfigError([Problem(str(file), 0, f"larger than {MOST_BYTES >> 20} MiB")])
    return data.decode("utf-8", "replace")


def _sound(document: dict[str, Any]) -> bool:
    """Something was measured, nothing failed, and everything adds up."""
    tests = document["tests"]
    return bool(tests) and not document["failures"] and not any(test["problems"] for test in tests)
