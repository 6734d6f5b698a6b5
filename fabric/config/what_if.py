"""Reads what ``fabric simulate`` is asked: every problem with the file and the command line at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic_core import PydanticCustomError

from fabric.config.inventory import load_inventory
from fabric.config.link_faults import link_faults
from fabric.config.problems import Problems
from fabric.config.selection import HostsText, selected
from fabric.errors import ConfigError, Problem
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.inventory import Inventory
from fabric.sim.net.named_clos import NamedClos, net_from_topology
from fabric.sim.net.route import ENGINES
from fabric.sim.net.traffic import DEFAULT_ORDER, ORDERS, PATTERNS, flows_of
from fabric.sim.what_if import ENGINES_BY_DEFAULT, Question

FLOWS_MOST = 1_000_000
"""Of one seed: takes a second and 300 MB for each engine (measured)."""
SAMPLES_MOST = 20_000_000
"""Of all seeds of one engine."""


def load_what_if(
    pattern: str,
    inventory_path: Path,
    *,
    routing: str | None = None,
    order: str | None = None,
    hosts: str | None = None,
    faults: Iterable[str] = (),
    qps: int = 1,
    seeds: int = 10,
    seed: int = 0,
) -> Question:
    """The question that the command line asks of the network of an inventory."""
    line = {name: Problems(name) for name in ("TRAFFIC", "--routing", "--order", "--hosts", "--fault")}
    _one_of(pattern, PATTERNS, line["TRAFFIC"])
    engines = _engines(routing, line["--routing"])
    order = order or DEFAULT_ORDER.get(pattern, ORDERS[0])
    _one_of(order, ORDERS, line["--order"])
    others: list[Problem] = []
    question = None
    try:
        inventory = load_inventory(inventory_path)
        net = _net(inventory)
    except ConfigError as exc:
        others.extend(exc.problems)
    else:
        found = link_faults(faults, net, line["--fault"], seed=seed)
        ids = _hosts(hosts, inventory, net, line["--hosts"])
        question = Question(
            inventory=inventory.name,
            net=net,
            link_layer=next(iter(inventory.topology.hosts.values())).platform.link_layer,
            pattern=pattern,
            order=order,
            hosts=ids,
            engines=engines,
            faults=found,
            qps=qps,
            seeds=seeds,
            seed=seed,
        )
    others.extend(problem for problems in line.values() for problem in problems.all())
    if others or question is None:
        raise ConfigError(others)
    _bounded(question)
    return question


def _one_of(word: str, words: tuple[str, ...], problems: Problems) -> None:
    if word not in words:
        problems.at_line(0, f"expected {one_of(words)}, got {quoted(word)}{nearest(word, words)}")


def _engines(routing: str | None, problems: Problems) -> tuple[str, ...]:
    """``ftree,ar``; each at most once, in the order written."""
    if routing is None:
        return ENGINES_BY_DEFAULT
    engines = tuple(word.strip() for word in routing.split(","))
    for engine in engines:
        _one_of(engine, ENGINES, problems)
    for engine in sorted({engine for engine in engines if engines.count(engine) > 1}):
        problems.at_line(0, f"{quoted(engine)} is given twice")
    return engines


def _net(inventory: Inventory) -> NamedClos:
    """The network; ConfigError when the inventory has none that is regular."""
    layers = sorted({host.platform.link_layer for host in inventory.topology.hosts.values()})
    try:
        if len(layers) > 1:
            raise ValueError(f"hosts have different link layers: {', '.join(layers)}")
        return net_from_topology(inventory.topology)
    except ValueError as exc:
        text = f"cannot be simulated as a Clos network: {exc} (docs/simulate.md says what can)"
        raise ConfigError([Problem(inventory.source, 0, text)]) from exc


def _hosts(text: str | None, inventory: Inventory, net: NamedClos, problems: Problems) -> tuple[int, ...]:
    """Ids of the hosts that take part, in inventory order; at least two."""
    try:
        selection = HostsText().parse("all" if text is None else text)
    except PydanticCustomError as exc:
        problems.at_line(0, exc.message())
        return ()
    names = selected(selection, inventory.topology, lambda said: problems.at_line(0, said), source=inventory.source)
    if len(names) < 2 and not problems:
        problems.at_line(0, f"expected at least 2 hosts, got {len(names)}")
    return tuple(net.host_ids[name] for name in names)


def _bounded(question: Question) -> None:
    """ConfigError when the answer would take more memory than a laptop has."""
    flows = flows_of(question.pattern, hosts=len(question.hosts), rails=question.net.clos.spec.rails)
    parts = question.qps if "ecmp" in question.engines else 1
    if flows * parts > FLOWS_MOST:
        text = f"{flows * parts:,} flows, at most {FLOWS_MOST:,} can be simulated: choose fewer --hosts or --qps"
        raise ConfigError([Problem("--hosts", 0, text)])
    if flows * question.seeds > SAMPLES_MOST:
        text = f"{flows * question.seeds:,} flows over all seeds, at most {SAMPLES_MOST:,}: choose fewer"
        raise ConfigError([Problem("--seeds", 0, text)])
