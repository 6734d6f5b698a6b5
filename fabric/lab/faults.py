"""The faults of a box, in the words of the mock's faults: ``h5/mlx5_0:tx:slow=0.3``, ``s1:grey``; no input or output.

A fault is commands in the namespaces of nodes, and commands that take them back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabric.errors import ConfigError
from fabric.lab.layout import DEVICE, Box, BoxCable, BoxPort, shaped

_VALUED = ("slow", "loss")
_OF_NODES = {"grey": "switch", "dead": "switch", "hung": "host", "one_path": "leaf"}
KINDS = (*_VALUED, "down", "flapping", *_OF_NODES)
"""
The kinds of faults.

slow: a share of its rate is left. loss: a share of its packets is lost. down: a cable is pulled, and both ends lose
their carrier. flapping: it is pulled for half a second, every two seconds. grey: a switch keeps up BGP and BFD and
forwards nothing. dead: a switch sends nothing any more, its ports stay up. hung: a host does not answer, all its
processes are stopped. one_path: a leaf's kernel keeps one next hop to each other leaf, while its routing daemon shows
all.
"""
COMPONENTS = f"h5 (a host), h5/{DEVICE} (its cable), h5/{DEVICE}:tx, h5/{DEVICE}:rx, l1 or s1, l1--s1, l1->s1, s1->l1"
_FLAPPING = """
exec >/dev/null 2>&1 && echo $$ >"$2" || exit
while ip link set "$1" down; do sleep 0.5; ip link set "$1" up; sleep 1.5; done
"""
"""Pulls the port *$1* until the process is killed, whose id is in the file *$2*."""


@dataclass(frozen=True, slots=True)
class Act:
    """One command in the namespace of a node; *stdin* is what it reads."""

    node: str
    argv: tuple[str, ...]
    stdin: str = ""


@dataclass(frozen=True, slots=True)
class BoxFault:
    """The commands of one fault. *stopped*: the host whose processes are stopped, which is no command."""

    apply: tuple[Act, ...]
    undo: tuple[Act, ...]
    stopped: str | None = None


def fault(box: Box, text: str, number: int) -> BoxFault:
    """Return the fault ``COMPONENT:KIND[=SHARE]``; raises ConfigError. *number* tells it from other faults in force."""
    component, _, kind = text.rpartition(":")
    kind, equals, share_text = kind.partition("=")
    if kind not in KINDS or not component:
        raise _wrong(text, f"expected COMPONENT:KIND, KIND one of {', '.join(KINDS)}")
    if bool(equals) != (kind in _VALUED):
        raise _wrong(text, f"{kind} {'needs =SHARE, such as =0.3' if kind in _VALUED else 'takes no value'}")
    share = _share(text, share_text) if equals else 0.0
    if kind == "slow":
        return _slow(box, _ends(box, text, component), share)
    if kind == "loss":
        return _lossy(_ends(box, text, component), f"numgen random mod 1000 < {round(1000 * share)} ", number)
    if kind in ("down", "flapping"):
        return _pulled(box, text, _cables(box, text, component), number if kind == "flapping" else None)
    what = _OF_NODES[kind]
    if component not in {"host": [*box.leaf_of], "leaf": box.leaf_names, "switch": box.switches}[what]:
        raise _wrong(text, f"no {what} {component!r}")
    if kind == "hung":
        return BoxFault((), (), stopped=component)
    if kind == "dead":
        return _lossy(box.ports(component), "", number)
    if kind == "one_path":
        return _one_path(box, component)
    return _dropped("inet", {component: "chain transit { type filter hook forward priority 0; drop\n}\n"}, number)


def _wrong(text: str, why: str) -> ConfigError:
    return ConfigError.at("fault", f"{text!r}: {why}")


def _share(text: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0.001 <= share <= 0.999:
        raise _wrong(text, "a share is a number from 0.001 to 0.999")
    return share


def _cables(box: Box, text: str, component: str) -> list[BoxCable]:
    """Return the cables that a component is or has; raises ConfigError where nothing has that name."""
    name = component.removesuffix(f"/{DEVICE}")
    found = [
        cable
        for cable in box.cables
        if name in (cable.low.node, cable.high.node)
        or name in (f"{cable.low.node}--{cable.high.node}", f"{cable.high.node}--{cable.low.node}")
    ]
    if not found or (name != component and name not in box.leaf_of):
        raise _wrong(text, f"no such part; there are {COMPONENTS}")
    return found


def _ends(box: Box, text: str, component: str) -> list[BoxPort]:
    """
    Return the ports by which a component's traffic leaves: one for a direction, two for a cable, all for a switch.
    """
    for cable in box.cables:
        host, low, high = cable.low.node, cable.low, cable.high
        directions = {f"{low.node}->{high.node}": low, f"{high.node}->{low.node}": high}
        if host in box.leaf_of:
            directions |= {f"{host}/{DEVICE}:tx": low, f"{host}/{DEVICE}:rx": high}
        if component in directions:
            return [directions[component]]
    return [end for cable in _cables(box, text, component) for end in (cable.low, cable.high)]


def _slow(box: Box, ports: list[BoxPort], share: float) -> BoxFault:
    def acts(rate_mbit: float) -> tuple[Act, ...]:
        return tuple(Act(port.node, ("tc", "-batch", "-"), shaped(port, rate_mbit)) for port in ports)

    return BoxFault(acts(share * box.rate_mbit), acts(box.rate_mbit))


def _lossy(ports: list[BoxPort], chance: str, number: int) -> BoxFault:
    """Return a fault that drops what leaves by some ports, all of it or by chance."""
    chains: dict[str, str] = {}
    for port in ports:
        chain = f"chain {port.name} {{ type filter hook egress device {port.name} priority 0; {chance}drop\n}}\n"
        chains[port.node] = chains.get(port.node, "") + chain
    return _dropped("netdev", chains, number)


def _dropped(family: str, chains: Mapping[str, str], number: int) -> BoxFault:
    """Return a fault that adds these chains, which drop packets, in a table of its own on each node."""
    table = f"table {family} fabric_fault_{number}"
    nft = ("nft", "-f", "-")
    return BoxFault(
        tuple(Act(node, nft, f"{table} {{ {text} }}\n") for node, text in chains.items()),
        tuple(Act(node, nft, f"delete {table}\n") for node in chains),
    )


def _pulled(box: Box, text: str, cables: list[BoxCable], flap: int | None) -> BoxFault:
    """
    Return a fault that pulls a cable, or with *flap* pulls it again and again.

    It acts at the upper end, so that the lower one loses its carrier and keeps its address and routes.
    """
    if len(cables) != 1:
        raise _wrong(text, "only a cable can be down or flap: h5/mlx5_0 or l1--s1")
    high = cables[0].high
    acts = {state: Act(high.node, ("ip", "link", "set", high.name, state)) for state in ("down", "up")}
    if flap is None:
        return BoxFault((acts["down"],), (acts["up"],))
    pid = f"{box.folder}/flapping_{flap}.pid"
    begin = Act(high.node, ("setsid", "--fork", "sh", "-c", _FLAPPING, "sh", high.name, pid))
    return BoxFault((begin,), (Act(high.node, ("sh", "-c", 'kill "$(cat "$1")" && rm "$1"', "sh", pid)), acts["up"]))


def _one_path(box: Box, leaf: str) -> BoxFault:
    def acts(paths: int) -> Iterator[Act]:
        ways = box.routed_ports(leaf)[:paths]
        hops = [word for port, _, _, address in ways for word in ("nexthop", "via", address, "dev", port)]
        for other in box.leaf_names:
            if other != leaf:
                yield Act(leaf, ("ip", "route", "replace", box.subnet(other), "proto", "bgp", "metric", "20", *hops))

    return BoxFault(tuple(acts(1)), tuple(acts(box.spines)))
