"""``fabric verify``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import json_option, print_json


@click.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="It must be signed with this key (its .pub file).")
@json_option
def command(file: Path, key: Path | None, *, as_json: bool) -> int:
    """
    Is the certificate FILE true? Makes all of it again from the run's files beside it.

    Exit 0: it is; 1: it says something else, a file was changed or added, or the signature is not what it should be; 3:
    it cannot be told (the files are not here, another version made it).
    """
    from dataclasses import asdict

    from fabric.app.verify import verify
    from fabric.report.output import say
    from fabric.report.visible import visible

    found = verify(file, key=key)
    if as_json:
        print_json({**asdict(found), "exit_code": found.exit_code})
        return found.exit_code
    word = "NOT TRUE" if found.problems else "NOT TOLD" if found.open else "OK"
    lines = [f"{word}: {found.certificate} says {found.result} of {found.run}"]
    lines += [f"  {text}" for text in (*found.problems, *found.open, *found.notes)]
    say("\n".join(visible(line) for line in lines))
    return found.exit_code
