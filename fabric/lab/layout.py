"""The layout of a box: hosts, leaves and spines, their ports, cables and addresses; and all texts that follow from it.

The texts are the configuration of each node (``templates/``), and the inventory. Nothing is touched here.
"""

from dataclasses import dataclass
from functools import cache, cached_property

from jinja2 import Environment, PackageLoader, StrictUndefined

ORCHESTRATOR = "orch"
"""The node where ``fabric run`` works: it has the management network and nothing else."""

MANAGEMENT = "mgmt"
"""The bridge that carries SSH: no port of it is shaped, and no fault touches it."""

DEVICE = "mlx5_0"
"""The inventory's name for the one port of a host; its packets leave by ``HOST_PORT``."""

HOST_PORT = "eth1"
MANAGEMENT_PORT = "eth0"

PAIR_SHARE, RING_SHARE, GROUP_SHARE = 0.85, 0.75, 0.35
"""
Shares of a port's rate that a pair, an all-reduce of two hosts and one of many have to reach.

Measured: 0.957 with a spread of 0.3 %, 0.91, and 0.6 over six hosts, less where flows meet on an uplink.
"""


@dataclass(frozen=True, slots=True)
class BoxPort:
    """One end of a cable; the traffic that leaves by it is shaped."""

    node: str
    name: str


@dataclass(frozen=True, slots=True)
class BoxCable:
    """A cable; *low* is the end nearer to the hosts."""

    low: BoxPort
    high: BoxPort


@dataclass(frozen=True)
class Box:
    """The parameters of a box, from which everything else follows; *folder* is the absolute path of its state."""

    name: str
    folder: str
    hosts: int = 6
    leaves: int = 2
    spines: int = 2
    rate_mbit: int = 100

    @cached_property
    def leaf_of(self) -> dict[str, str]:
        """Return each host and its leaf; leaves are filled one after the other."""
        per_leaf = -(-self.hosts // self.leaves)
        return {f"h{number + 1}": f"l{number // per_leaf + 1}" for number in range(self.hosts)}

    @property
    def leaf_names(self) -> list[str]:
        """Return ``l1``, ``l2``, ..."""
        return [f"l{number + 1}" for number in range(self.leaves)]

    @property
    def spine_names(self) -> list[str]:
        """Return ``s1``, ``s2``, ..."""
        return [f"s{number + 1}" for number in range(self.spines)]

    @property
    def switches(self) -> list[str]:
        """Return leaves, then spines."""
        return [*self.leaf_names, *self.spine_names]

    @property
    def nodes(self) -> list[str]:
        """Return everything that has a namespace."""
        return [MANAGEMENT, ORCHESTRATOR, *self.leaf_of, *self.switches]

    def namespace(self, node: str) -> str:
        """Return the name of a node's namespace."""
        return f"fabric-{self.name}-{node}"

    @cached_property
    def cables(self) -> list[BoxCable]:
        """
        Return the cables, those of hosts first; ``sw3`` is a leaf's port to h3, ``up1`` to s1, ``dn2`` a spine's to l2.
        """
        down = [
            BoxCable(BoxPort(host, HOST_PORT), BoxPort(leaf, f"sw{host[1:]}")) for host, leaf in self.leaf_of.items()
        ]
        up = [
            BoxCable(BoxPort(leaf, f"up{spine[1:]}"), BoxPort(spine, f"dn{leaf[1:]}"))
            for leaf in self.leaf_names
            for spine in self.spine_names
        ]
        return down + up

    def ports(self, node: str) -> list[BoxPort]:
        """Return the ports of a node that carry data."""
        return [end for cable in self.cables for end in (cable.low, cable.high) if end.node == node]

    def management_address(self, node: str) -> str:
        """Return the management address of a host or the orchestrator."""
        return f"10.99.0.{1 if node == ORCHESTRATOR else 10 + int(node[1:])}"

    def data_address(self, host: str) -> str:
        """Return the address of a host's data port, in its leaf's subnet."""
        return f"10.{self.leaf_of[host][1:]}.0.{10 + int(host[1:])}"

    def gateway(self, leaf: str) -> str:
        """Return the leaf's own address for its hosts."""
        return f"10.{leaf[1:]}.0.1"

    def routed_ports(self, node: str) -> list[tuple[str, str, str, str]]:
        """
        Return a switch's ports to other switches: name, own address, the node at the other end, its address; a /31.
        """
        ways = [
            (leaf, spine, f"10.{200 + int(spine[1:])}.{leaf[1:]}")
            for leaf in self.leaf_names
            for spine in self.spine_names
        ]
        up = [(f"up{spine[1:]}", f"{net}.0", spine, f"{net}.1") for leaf, spine, net in ways if leaf == node]
        return up + [(f"dn{leaf[1:]}", f"{net}.1", leaf, f"{net}.0") for leaf, spine, net in ways if spine == node]

    def subnet(self, leaf: str) -> str:
        """Return the subnet of a leaf's hosts."""
        return f"10.{leaf[1:]}.0.0/24"


DAEMONS = ("zebra", "bgpd", "bfdd")
"""The daemons of FRR on a switch."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


QUEUE_S, BURST_S, BURST_LEAST = 0.02, 0.02, 65_536
"""
Seconds of a port's rate that its queue holds besides a burst, seconds of a burst, and its least bytes.

A burst is what a port catches up with when the machine stood still for that long: a guest whose host is busy loses a
fifth of its time in pieces of some ms. It is no smaller than the largest packet before it is segmented.
"""


def queue_line(port: BoxPort) -> str:
    """Return the line of a ``tc -batch`` that gives a port its queue; packets with the priority 1:0 bypass it."""
    return f"qdisc add dev {port.name} root handle 1: htb default 2\n"


def shaped(port: BoxPort, rate_mbit: float) -> str:
    """Return the lines of a ``tc -batch`` that shape what leaves by a port; run again to change the rate."""
    kbit = round(rate_mbit * 1000)
    burst = max(round(kbit * 125 * BURST_S), BURST_LEAST)
    most = round(kbit * 125 * QUEUE_S) + burst
    rate = f"htb rate {kbit}kbit burst {burst}b cburst {burst}b quantum {BURST_LEAST}"
    queue = f"qdisc replace dev {port.name} parent 1:2 handle 2: bfifo limit {most}b"
    return f"class replace dev {port.name} parent 1: classid 1:2 {rate}\n{queue}\n"


def sysctls(box: Box, node: str) -> list[str]:
    """
    Return settings of the node's network namespace: routing by layer 4 on switches; Reno, which TBF suits, on hosts.

    A connection that gets nowhere keeps its way, as a queue pair does: unless ``txrehash`` is 0, Linux gives it another
    hash, which the switches of the same kernel see.
    """
    if node in box.leaf_of:
        return ["net.ipv4.tcp_congestion_control=reno", "net.core.txrehash=0"]
    if node in box.switches:
        return ["net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1", "net.ipv4.conf.all.rp_filter=0"]
    return []


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("fabric.lab"), undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )
    made.globals |= {"device": DEVICE, "host_port": HOST_PORT, "management_port": MANAGEMENT_PORT}
    made.globals |= {"management": MANAGEMENT, "orchestrator": ORCHESTRATOR}
    return made


def _text(template: str, **words: object) -> str:
    return _templates().get_template(template).render(**words)


def cables(box: Box, node: str) -> str:
    """Return the ``ip -batch`` of a node that makes cables, else nothing: their other ends land in other namespaces."""
    return _text("cables.ip.j2", box=box, node=node)


def addresses(box: Box, node: str) -> str:
    """Return the ``ip -batch`` that gives a node its addresses and sets its ports up."""
    return _text("addresses.ip.j2", box=box, node=node)


def control_rules() -> str:
    """
    Return rules that send BFD and BGP past the queue of data, as in every switch: in it they starve when a port is
    full.

    Twelve flows over eight uplinks with two busy loops beside them for 20 s: with one queue 27 routes were lost or
    found again, at usual priority of the daemons 211, with neither none.
    """
    return _text("control.nft.j2")


def inventory_text(box: Box, *, with_mpi: bool) -> str:
    """Return the inventory file of a box; its baseline is ``baselines/NAME.yaml`` beside it."""
    return _text(
        "inventory.yaml.j2",
        box=box,
        with_mpi=with_mpi,
        rate_gbps=f"{box.rate_mbit / 1000:g}",
        leaves=f"l[1-{box.leaves}]" if box.leaves > 1 else "l1",
        spines=f"s[1-{box.spines}]" if box.spines > 1 else "s1",
    )


def baseline_text(box: Box) -> str:
    """Return the baseline of a box: its ports are shaped, so what is normal is known."""
    pair, ring, group = (f"{share * box.rate_mbit / 1000:g}" for share in (PAIR_SHARE, RING_SHARE, GROUP_SHARE))
    return _text("baseline.yaml.j2", box=box, pair=pair, ring=ring, group=group)


def frr_config(box: Box, node: str, daemon: str) -> str:
    """
    Return the configuration of one FRR daemon of a switch.

    With kernel next hop groups FRR 8.4 keeps one next hop in the kernel after a flap, while it shows two: they are off.
    """
    number = {name: at for at, name in enumerate(box.switches, 1)}
    return _text(f"{daemon}.conf.j2", box=box, node=node, number=number)


def sshd_config(address: str, *, key: str, pid: str, authorized: str, environment: str = f"PATH={PATH}") -> str:
    """Return the configuration of a server on one address; *key*, *pid* and *authorized* (who may log in) are files."""
    return _text("sshd_config.j2", address=address, key=key, pid=pid, authorized=authorized, environment=environment)


def ssh_config(box: Box) -> str:
    """Return the ssh configuration of hosts (for mpirun): the box's key, and names that only the box knows."""
    return _text("ssh_config.j2", folder=box.folder)


def hosts_file(box: Box) -> str:
    """
    Return the names of hosts, on the management network, so that a bad data port does not keep a test from starting.
    """
    return _text("hosts.j2", box=box)
