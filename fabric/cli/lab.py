"""``fabric lab``: a real fabric in a box, of network namespaces of this machine."""

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from fabric import lab as machine
from fabric.cli.options import PATH, WholeNumber, answer, json_option
from fabric.errors import ConfigError
from fabric.lab.layout import ORCHESTRATOR, Box

_NAME = click.option("--name", default="box", show_default=True, help="Of several boxes, this one.")


@click.group("lab")
def lab_command() -> None:
    """
    A leaf-spine of network namespaces: FRR with BGP, ECMP and BFD, shaped ports, sshd in every host, real bytes.

    Needs Linux and root. Nothing of the machine's own network is touched.
    """


@lab_command.command("up")
@_NAME
@click.option("--hosts", type=WholeNumber(2, 64), default=6, show_default=True)
@click.option("--leaves", type=WholeNumber(1, 16), default=2, show_default=True)
@click.option("--spines", type=WholeNumber(1, 16), default=2, show_default=True)
@click.option("--rate", type=WholeNumber(10, 10_000), default=100, show_default=True, help="Mbit/s of every port.")
@click.option("--inventory", type=PATH, help="The file to write.  [default: inventory/NAME.yaml]")
def up_command(name: str, hosts: int, leaves: int, spines: int, rate: int, inventory: Path | None) -> int:
    """Make the box and its inventory."""
    machine.refuse_where_impossible()
    machine.refuse_name(name)
    if leaves > hosts:
        raise ConfigError.at("--leaves", f"{leaves} leaves for {hosts} hosts: some would have none")
    box = Box(name, str(machine.STATE / name), hosts, leaves, spines, rate)
    made = machine.up(box, inventory or Path("inventory") / f"{name}.yaml")
    return answer({}, _lines(made), as_json=False)


@lab_command.command("down")
@_NAME
def down_command(name: str) -> int:
    """Take the box away, also one that was left half-made."""
    machine.refuse_where_impossible()
    kept = machine.down(name)
    lines = [f"box {name} is gone", *(f"kept, since it was changed: {path}" for path in kept)]
    return answer({}, lines, as_json=False)


@lab_command.command("break")
@click.argument("faults", nargs=-1, required=True, metavar="COMPONENT:KIND[=SHARE]...")
@_NAME
def break_command(faults: tuple[str, ...], name: str) -> int:
    """
    Make parts bad: h5/mlx5_0:tx:slow=0.3 (h5 sends at 0.3 of its rate), h2/mlx5_0:loss=0.02, l1--s1:down, s1:grey.

    Kinds: slow, loss, down and flapping (a cable), grey and dead (a switch), hung (a host), one_path (a leaf). Taken
    back: mend.
    """
    machine.refuse_where_impossible()
    for fault in faults:
        machine.break_part(name, fault)
    return answer({}, _lines(machine.status(name)), as_json=False)


@lab_command.command("mend")
@_NAME
def mend_command(name: str) -> int:
    """Take back everything that break made bad."""
    machine.refuse_where_impossible()
    mended = machine.mend(name)
    return answer({}, [f"mended: {text}" for text in mended] or ["nothing was broken"], as_json=False)


@lab_command.command("status")
@_NAME
@json_option
def status_command(name: str, *, as_json: bool) -> int:
    """What the box is, and what is broken in it."""
    machine.refuse_where_impossible()
    found = machine.status(name)
    return answer(asdict(found), _lines(found), as_json=as_json)


@lab_command.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_NAME
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCENARIO [OPTIONS]")
def run_command(name: str, words: tuple[str, ...]) -> None:
    """The same as "fabric run", from inside the box and on its inventory: fabric lab run scenarios/box.yaml."""
    machine.refuse_where_impossible()
    inventory = machine.status(name).inventory
    program = (sys.executable, sys.argv[0], "run", *words, f"--inventory={inventory}")
    argv = machine.enter(name, program)
    os.execvp(argv[0], argv)


def _lines(found: machine.BoxStatus) -> Iterator[str]:
    box = found.box
    made = f"{box.hosts} hosts, {box.leaves} leaves, {box.spines} spines, every port {box.rate_mbit} Mbit/s"
    yield f"box {box.name}: {made}; {found.namespaces} of {len(box.nodes)} namespaces, {found.processes} processes"
    yield f"inventory  {found.inventory}"
    for fault in found.faults:
        yield f"BROKEN     {fault}"
    if not found.mpi:
        yield "no MPI     all-reduces cannot run: apt-get install openmpi-bin libopenmpi-dev gcc, then down and up"
    yield f"measure    fabric lab run scenarios/box.yaml   (or in the namespace {box.namespace(ORCHESTRATOR)})"
