"""Read the question that ``fabric simulate`` is asked, and which links fail; report every problem at once."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from fabric.config.inventory import load_inventory
from fabric.config.links import cable_problem, regular_net, rnic_problem
from fabric.config.problems import Problems
from fabric.config.selection import hosts_named
from fabric.errors import ConfigError, Problem
from fabric.model import gathered
from fabric.model.fields.scalars import Decimal, Whole
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.inventory import Inventory
from fabric.model.part import Part
from fabric.sim.faults import LINK_KINDS, CableEnds, LinkFault, cable_ends
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.route import ENGINES
from fabric.sim.what_if import DEFAULT_ORDER, ENGINES_BY_DEFAULT, ORDERS, PATTERNS, Question, flows_of

FLOWS_MOST = 1_000_000
"""The most flows of one seed: they take a second and 300 MB for each engine (measured)."""
SAMPLES_MOST = 20_000_000
"""The most flows of one engine over all seeds."""


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
    """Return the question that the command line asks of the network of an inventory."""
    line = {name: Problems(name) for name in ("TRAFFIC", "--routing", "--order", "--hosts", "--fault")}
    _one_of(pattern, PATTERNS, line["TRAFFIC"])
    engines = _engines(routing, line["--routing"])
    order = order or DEFAULT_ORDER.get(pattern, ORDERS[0])
    _one_of(order, ORDERS, line["--order"])
    try:
        inventory = load_inventory(inventory_path)
        net = _net(inventory)
    except ConfigError as exc:
        raise ConfigError((*exc.problems, *_all(line))) from exc
    found = link_faults(faults, net, line["--fault"], seed=seed)
    ids = _hosts(hosts, inventory, net, line["--hosts"])
    if problems := _all(line):
        raise ConfigError(problems)
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
    _bounded(question)
    return question


def _all(line: Mapping[str, Problems]) -> list[Problem]:
    """Return the problems of all words of the command line."""
    return [problem for problems in line.values() for problem in problems.all()]


def _one_of(word: str, words: tuple[str, ...], problems: Problems) -> None:
    if word not in words:
        problems.at_line(0, f"expected {one_of(words)}, got {quoted(word)}{nearest(word, words)}")


def _engines(routing: str | None, problems: Problems) -> tuple[str, ...]:
    """Parse ``ftree,ar``; each engine at most once, in the order written."""
    if routing is None:
        return ENGINES_BY_DEFAULT
    engines = tuple(word.strip() for word in routing.split(","))
    for engine in engines:
        _one_of(engine, ENGINES, problems)
    for engine in sorted({engine for engine in engines if engines.count(engine) > 1}):
        problems.at_line(0, f"{quoted(engine)} is given twice")
    return engines


def _net(inventory: Inventory) -> NamedClos:
    """Return the network; raise ConfigError if the inventory has no regular one."""
    try:
        return regular_net(inventory.topology)
    except ValueError as exc:
        text = f"cannot be simulated as a Clos network: {exc} (docs/simulate.md says what can)"
        raise ConfigError.at(inventory.source, text) from exc


def _hosts(text: str | None, inventory: Inventory, net: NamedClos, problems: Problems) -> tuple[int, ...]:
    """Return the ids of the hosts that take part, in inventory order; at least two."""
    names = hosts_named("all" if text is None else text, inventory, partial(problems.at_line, 0))
    if len(names) < 2 and not problems:
        problems.at_line(0, f"expected at least 2 hosts, got {len(names)}")
    return tuple(net.host_ids[name] for name in names)


def _bounded(question: Question) -> None:
    """Raise ConfigError if the answer would take more memory than a laptop has."""
    flows = flows_of(question.pattern, hosts=len(question.hosts), rails=question.net.clos.spec.rails)
    parts = question.qps if "ecmp" in question.engines else 1
    if flows * parts > FLOWS_MOST:
        text = f"{flows * parts:,} flows, at most {FLOWS_MOST:,} can be simulated: choose fewer --hosts or --qps"
        raise ConfigError.at("--hosts", text)
    if flows * question.seeds > SAMPLES_MOST:
        text = f"{flows * question.seeds:,} flows over all seeds, at most {SAMPLES_MOST:,}: choose fewer"
        raise ConfigError.at("--seeds", text)


_TEXT_MOST = 256
_FAULT = re.compile(r"(?P<link>[^:]+):(?P<kind>[^:=]*)(?:=(?P<value>[^:]*))?")
_DRAW = re.compile(r"trunk(?:\*(?P<count>[0-9]{1,9}))?")
_NUMBER = Whole(0, 1_000_000)
_VALUES = {kind: Decimal(*bounds) for kind, bounds in LINK_KINDS.items() if bounds is not None}
_FORMS = "su0-leaf3--spine2:slow=0.25, su0-leaf3->spine2:ber=1e-3, gpu003/mlx5_2:down or trunk*16:slow=0.25"


def link_faults(texts: Iterable[str], net: NamedClos, problems: Problems, *, seed: int) -> tuple[LinkFault, ...]:
    """Return the faults; *seed* draws the links of those that name none. If any is wrong, note it and return none."""
    found = []
    for number, text in enumerate(texts):
        matched = _FAULT.fullmatch(text) if len(text) <= _TEXT_MOST and text.isprintable() else None
        if matched is None:
            problems.at_line(0, f"expected LINK:KIND, such as {_FORMS}, got {quoted(text)}")
            continue
        kind = matched["kind"]
        if kind not in LINK_KINDS:
            expected = f"expected {one_of(LINK_KINDS)} after the link, got {quoted(kind)}"
            problems.at_line(0, f"{quoted(text)}: {expected}{nearest(kind, LINK_KINDS)}")
            continue
        value, links = 0.0, tuple[int, ...]()
        with _noted(text, problems):
            value = _value(kind, matched["value"])
        with _noted(text, problems):
            links = _links(matched["link"], kind, net, seed + number)
        found.append(LinkFault(text, kind, value, links))
    return () if problems else tuple(found)


@contextmanager
def _noted(fault: str, problems: Problems) -> Iterator[None]:
    """Note a ValueError as a problem of the fault, so that it does not hide problems of its other half."""
    try:
        yield
    except ValueError as exc:
        problems.at_line(0, f"{quoted(fault)}: {exc}")


def _value(kind: str, text: str | None) -> float:
    """Return the number that a kind needs, or 0 for a kind without one."""
    if kind not in _VALUES:
        if text is not None:
            raise ValueError(f"{kind} has no value")
        return 0.0
    if text is None:
        raise ValueError(f"{kind} needs a value: {kind}=...")
    return _VALUES[kind].parse(text)


def _links(link: str, kind: str, net: NamedClos, seed: int) -> tuple[int, ...]:
    """Return the directed links that are meant; raise ValueError with what was expected."""
    if drawn := _DRAW.fullmatch(link):
        return _random_trunks(int(drawn["count"] or 1), net, seed)
    if "/" in link:
        if problem := rnic_problem(Part.of(link), gathered(net.ends)):
            raise ValueError(problem)
        return net.access(*Part.of(link).place)
    text, sharp, number = link.partition("#")
    ends = cable_ends(text, net.switches)
    if ends is not None:
        return _between(ends, number if sharp else None, net, kind)
    if link in net.host_ids or link in net.switches:
        raise ValueError(f"{quoted(link)} is no link: write {_FORMS}")
    near = nearest(link, ("trunk",)) or nearest(link, (*net.switches, *net.host_ids))
    raise ValueError(f"expected a link, such as {_FORMS}, got {quoted(link)}{near}")


def _random_trunks(count: int, net: NamedClos, seed: int) -> tuple[int, ...]:
    """Return both directions of cables between switches, drawn without replacement."""
    if not 1 <= count <= len(net.trunks):
        raise ValueError(f"expected 1 to {len(net.trunks)} cables between switches, got {count}")
    drawn = np.random.default_rng(seed).choice(len(net.trunks), size=count, replace=False)
    return tuple(int(link) for link in net.trunks[np.sort(drawn)].ravel())


def _between(ends: CableEnds, number: str | None, net: NamedClos, kind: str) -> tuple[int, ...]:
    """Return the links between two switches: of all parallel cables, or of the one with this number."""
    which = None if number is None else _NUMBER.parse(number)
    there = {ends.one, ends.other} <= set(net.switches)
    cables = net.cables(ends.one, ends.other) if there else ()
    if problem := cable_problem(ends, net.switches, len(cables), which or 0):
        raise ValueError(problem)
    if which is not None:
        cables = (cables[which],)
    if ends.both:
        return tuple(link for cable in cables for link in cable)
    if kind == "down":
        raise ValueError(f"a cable is down in both directions: write {ends.one}--{ends.other}:down")
    return tuple(forth for forth, _ in cables)
