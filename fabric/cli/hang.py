"""``fabric hang``: who a job that hangs waits for."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import PATH, answer, json_option


@click.command("hang")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--inventory", type=PATH, help="Says which RNICs a host has, and who its neighbours are.")
@click.option("--ranks", type=PATH, metavar="FILE", help="Where ranks run: '0-7 gpu001' a line, or a hostfile.")
@click.option("--scenario", type=PATH, metavar="FILE", help="Write what to test now to this new file.")
@json_option
def hang_command(
    files: tuple[Path, ...], inventory: Path | None, ranks: Path | None, scenario: Path | None, *, as_json: bool
) -> int:
    """
    Say who a hung or failed job waits for, and what to test now.

    FILES, or folders of them: dumps of PyTorch's flight recorder, answers of NCCL RAS (ncclras), logs of NCCL and
    PyTorch. Nothing in them is executed.
    """
    from fabric.app.diagnose import hang_files, scenario_text
    from fabric.report.hang import hang_document, hang_text
    from fabric.report.verdict_json import EXIT_CODES

    if scenario is not None and inventory is None:
        raise click.UsageError("--scenario needs --inventory: a scenario runs on one")
    if scenario is not None and scenario.exists():
        raise click.UsageError(f"{scenario} is there already: give --scenario a new file")
    if scenario is not None and not scenario.parent.is_dir():
        raise click.UsageError(f"--scenario: there is no folder {scenario.parent}")
    found = hang_files(files, inventory=inventory, ranks=ranks)
    text, notes = "", tuple[str, ...]()
    if scenario is not None and inventory is not None:
        text, notes = scenario_text(found, inventory, scenario)
        if text:
            scenario.write_text(text)
    written = str(scenario) if text else None
    document, lines = hang_document(found.hang, written, notes), hang_text(found.hang, written, notes)
    return answer(document, lines, as_json=as_json, code=EXIT_CODES[found.hang.outcome])
