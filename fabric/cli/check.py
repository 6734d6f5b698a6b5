"""``fabric check`` and ``fabric inventory``: look before you measure."""

from pathlib import Path
from typing import Any

import click

from fabric.cli.options import PATH, answer, json_option, overrides, print_json
from fabric.wiring import make_executor

links_option = click.option(
    "--links",
    type=PATH,
    help="Cables of InfiniBand from this file (iblinkinfo -l, ibnetdiscover -p, UFM's links) instead of a host.",
)


@click.command("check")
@click.argument("scenario", required=False, type=PATH)
@overrides
@click.option("--wiring", is_flag=True, help="Also compare every cable with the inventory: swapped, missing, too slow.")
@links_option
@click.option("--blueprint", type=PATH, help="Compare cables with this plan, port by port: CSV, NetBox, .topo.")
@json_option
def check_command(
    scenario: Path | None,
    inventory: Path | None,
    lasts_s: float | None,
    *,
    as_json: bool,
    **asked: Any,
) -> int:
    """
    Look before you measure: does every host have what SCENARIO needs? Without one: what --inventory describes.

    What a host needs is the same however long the run lasts: --for is taken as plan and run take it.
    """
    del lasts_s
    from fabric.app.check import check
    from fabric.report.check import check_document, check_text
    from fabric.report.verdict_text import print_coloured

    found = check(scenario, inventory_path=inventory, make_executor=make_executor, **asked)
    if as_json:
        print_json(check_document(found))
    else:
        print_coloured(check_text(found))
    return found.exit_code


@click.group("inventory")
def inventory_command() -> None:
    """Show an inventory, make one of what is there, or print the schema of its file."""


@inventory_command.command("schema")
def schema() -> int:
    """Print the JSON Schema of inventory files, for an editor."""
    from fabric.config.schema import inventory_schema

    print_json(inventory_schema())
    return 0


@inventory_command.command("show", short_help="Check an inventory file, and say what it describes.")
@click.argument("file", type=PATH)
@json_option
def show(file: Path, *, as_json: bool) -> int:
    """Check FILE and the baselines that it names, and say what it describes and what does not fit."""
    from fabric.config.baselines import baseline_notes, load_baselines
    from fabric.config.inventory import load_inventory
    from fabric.report.inventory import inventory_document, inventory_text

    inventory = load_inventory(file)
    baselines = load_baselines({host.platform.baseline for host in inventory.topology.hosts.values()}, file)
    notes = baseline_notes(None, inventory, baselines)
    document, lines = inventory_document(inventory, notes=notes), [inventory_text(inventory, notes=notes)]
    return answer(document, lines, as_json=as_json)


@inventory_command.command("discover", short_help="Make an inventory of what hosts and switches say is there.")
@click.argument("hosts", required=False)
@click.option("--inventory", type=PATH, help="Reach the hosts as this file says, instead of by name over SSH.")
@click.option("--backend", metavar="NAME", help="mock, ssh, slurm or process; default: the inventory's, else ssh.")
@click.option("--address", default="{name}", show_default=True, help="Where each host is reached: {name}.mgmt.")
@click.option("--user", metavar="NAME", help="The account on the hosts; else your own.")
@click.option("--key-file", metavar="FILE", help="A private key; else the SSH agent.")
@click.option("--name", default="found", show_default=True, help="What the fabric shall be called.")
@links_option
@click.option("--output", type=PATH, help="Write it to this new file instead of printing it.")
@click.option("--fault", "faults", multiple=True, metavar="COMPONENT:KIND", help="Mock: break something first.")
def discover_command(hosts: str | None, inventory: Path | None, output: Path | None, **asked: Any) -> int:
    """
    Ask HOSTS (gpu[001-064]) for their RNICs, GPUs and cables, and write the inventory of that.

    Nothing is altered. InfiniBand: cables as iblinkinfo lists them; Ethernet: what LLDP hears. Read the result before
    you believe it: guesses are marked. Later fabric check --inventory FILE --wiring says what has become other.
    """
    from fabric.app.check import discovered
    from fabric.model.text import fold
    from fabric.report.output import say, warn

    if output is not None and output.exists():
        raise click.UsageError(f"{output} is there already: give --output a new file")
    if output is not None and not output.parent.is_dir():
        raise click.UsageError(f"--output: there is no folder {output.parent}")
    made = discovered(hosts, inventory_path=inventory, make_executor=make_executor, **asked)
    if output is None:
        say(made.text.rstrip())
    else:
        output.write_text(made.text)
        warn(
            f"{output}: {len(made.found.hosts) - len(made.silent)} hosts, {len(made.found.cables)} cables; "
            f"next: fabric inventory show {output}"
        )
        for reason in made.found.unread:
            warn(f"not read: {reason}")
        for baseline in made.baselines:
            if not (output.parent / "baselines" / f"{baseline}.yaml").exists():
                warn(f"before that: copy baselines/{baseline}.yaml, which it names, to {output.parent / 'baselines'}")
    if made.silent:
        warn(f"told nothing, left out: {fold(made.silent)}")
    return 3 if made.silent else 0
