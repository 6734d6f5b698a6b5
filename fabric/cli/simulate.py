"""``fabric simulate``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import PATH, WholeNumber, json_option, print_json
from fabric.report.output import say


@click.command("simulate")
@click.argument("traffic", metavar="permutation|pairs|ring|all_to_all")
@click.option("--inventory", required=True, type=PATH, help="The network: an inventory file.")
@click.option(
    "--routing", metavar="R[,R...]", help="ftree, updn, minhop, lft_random, ecmp, ar. Default: ftree,updn,ecmp,ar."
)
@click.option("--qps", type=WholeNumber(1, 64), default=1, show_default=True, help="Queue pairs a flow, for ecmp.")
@click.option("--hosts", metavar="SET", help="Only these hosts: gpu[001-032], all.")
@click.option("--order", metavar="sorted|random", help="Order of the hosts. Default: random; ring: sorted.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="LINK:KIND[=VALUE]",
    help="E.g. trunk*16:slow=0.25, su0-leaf3--spine02:down, gpu003/mlx5_2:ber=1e-3. May be repeated.",
)
@click.option("--seeds", type=WholeNumber(1, 1000), default=10, show_default=True, help="How many draws.")
@click.option("--seed", type=WholeNumber(0, 2**31), default=0, show_default=True, help="The first draw.")
@json_option
def simulate_command(
    traffic: str,
    inventory: Path,
    routing: str | None,
    qps: int,
    hosts: str | None,
    order: str | None,
    faults: tuple[str, ...],
    seeds: int,
    seed: int,
    *,
    as_json: bool,
) -> int:
    """Ask the simulated network what share of line rate a traffic pattern would get; touches no host."""
    from fabric.config.what_if import load_what_if
    from fabric.report.what_if_text import what_if_document, what_if_text
    from fabric.sim.what_if import what_if

    question = load_what_if(
        traffic,
        inventory,
        routing=routing,
        order=order,
        hosts=hosts,
        faults=faults,
        qps=qps,
        seeds=seeds,
        seed=seed,
    )
    answer = what_if(question)
    if as_json:
        print_json(what_if_document(answer))
    else:
        say(what_if_text(answer))
    return 0
