"""What each node of a box is configured with: interfaces, queues, routing, SSH. Pure: text only."""

from __future__ import annotations

from fabric.lab.layout import HOST_PORT, MANAGEMENT, MANAGEMENT_PORT, ORCHESTRATOR, Box, BoxPort

DAEMONS = ("zebra", "bgpd", "bfdd")
"""What FRR runs on a switch."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIRST_AS = 65000


def cable_lines(box: Box) -> dict[str, list[str]]:
    """For each node that makes cables the lines of an ``ip -batch``: the other ends land in their namespaces."""
    lines: dict[str, list[str]] = {MANAGEMENT: ["link add br0 type bridge", "link set br0 up"]}
    for node in (ORCHESTRATOR, *box.leaf_of):
        peer = f"peer name {MANAGEMENT_PORT} netns {box.namespace(node)}"
        lines[MANAGEMENT] += [f"link add m-{node} type veth {peer}", f"link set m-{node} master br0 up"]
    for cable in box.cables:
        low, high = cable.low, cable.high
        peer = f"peer name {low.name} netns {box.namespace(low.node)}"
        lines.setdefault(high.node, []).append(f"link add {high.name} type veth {peer}")
    return lines


def address_lines(box: Box, node: str) -> list[str]:
    """The lines of an ``ip -batch`` that give a node its addresses and set its ports up."""
    lines = ["link set lo up"]
    if node == ORCHESTRATOR or node in box.leaf_of:
        lines += [f"address add {box.management_address(node)}/24 dev {MANAGEMENT_PORT}"]
        lines += [f"link set {MANAGEMENT_PORT} up"]
    if node in box.leaf_of:
        lines += [f"address add {box.data_address(node)}/24 dev {HOST_PORT}", f"link set {HOST_PORT} up"]
        lines += [f"route add 10.0.0.0/8 via {box.gateway(box.leaf_of[node])}"]
    if node in box.leaf_names:
        lines += ["link add br0 type bridge", f"address add {box.gateway(node)}/24 dev br0", "link set br0 up"]
        lines += [f"link set sw{host[1:]} master br0 up" for host, leaf in box.leaf_of.items() if leaf == node]
    for port, address in _uplinks(box, node):
        lines += [f"address add {address}/31 dev {port}", f"link set {port} up"]
    return lines


def _uplinks(box: Box, node: str) -> list[tuple[str, str]]:
    """Each routed port of a switch with its address."""
    if node in box.leaf_names:
        return [(f"up{spine[1:]}", box.uplink_addresses(node, spine)[0]) for spine in box.spine_names]
    if node in box.spine_names:
        return [(f"dn{leaf[1:]}", box.uplink_addresses(leaf, node)[1]) for leaf in box.leaf_names]
    return []


def shaped(port: BoxPort, rate_mbit: float, *, verb: str = "replace") -> str:
    """The line of a ``tc -batch`` that shapes what leaves by a port; a queue holds 20 ms of it."""
    return f"qdisc {verb} dev {port.name} root tbf rate {round(rate_mbit * 1000)}kbit burst 64kb latency 20ms"


def sysctls(box: Box, node: str) -> list[str]:
    """Settings of the node's own network namespace: routing by layer 4 on switches; Reno, which TBF suits, on hosts."""
    if node in box.leaf_of:
        return ["net.ipv4.tcp_congestion_control=reno"]
    if node in box.switches:
        return ["net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1", "net.ipv4.conf.all.rp_filter=0"]
    return []


def frr_config(box: Box, node: str, daemon: str) -> str:
    """
    The configuration of one FRR daemon of a switch.

    With kernel next hop groups FRR 8.4 keeps one next hop in the kernel after a flap, while it shows two: they are off.
    """
    head = f"hostname {node}\n"
    if daemon == "zebra":
        return head + "no zebra nexthop kernel enable\n"
    if daemon == "bfdd":
        timers = "detect-multiplier 3\n  receive-interval 50\n  transmit-interval 50"
        return f"{head}bfd\n profile fast\n  {timers}\n"
    number = box.switches.index(node) + 1
    lines = [
        f"router bgp {_FIRST_AS + number}",
        f" bgp router-id 10.255.0.{number}",
        " no bgp ebgp-requires-policy",
        " bgp bestpath as-path multipath-relax",
        " timers bgp 1 3",
        " neighbor fabric peer-group",
        " neighbor fabric bfd profile fast",
        " neighbor fabric timers connect 1",
        " neighbor fabric advertisement-interval 0",
    ]
    lines += [
        line
        for peer, address in _peers(box, node)
        for line in (
            f" neighbor {address} remote-as {_FIRST_AS + box.switches.index(peer) + 1}",
            f" neighbor {address} peer-group fabric",
        )
    ]
    lines += [" address-family ipv4 unicast", "  maximum-paths 16"]
    lines += [f"  network {box.subnet(node)}"] if node in box.leaf_names else []
    return head + "\n".join(lines) + "\n exit-address-family\n"


def _peers(box: Box, node: str) -> list[tuple[str, str]]:
    if node in box.leaf_names:
        return [(spine, box.uplink_addresses(node, spine)[1]) for spine in box.spine_names]
    return [(leaf, box.uplink_addresses(leaf, node)[0]) for leaf in box.leaf_names]


def sshd_config(address: str, *, key: str, pid: str, authorized: str, environment: str = f"PATH={PATH}") -> str:
    """The configuration of a server on one address; the others are files of its own, and of who may come in."""
    return _SSHD.format(address=address, key=key, pid=pid, authorized=authorized, environment=environment)


def ssh_config(box: Box) -> str:
    """How hosts reach each other (mpirun): with the box's key, by names that only the box knows."""
    return _SSH.format(folder=box.folder)


def hosts_file(box: Box) -> str:
    """Names of hosts: by the management network, so that a bad data port does not keep a test from starting."""
    rows = [f"{box.management_address(host)} {host}" for host in box.leaf_of]
    return "\n".join(["127.0.0.1 localhost", *rows]) + "\n"


_SSHD = """\
ListenAddress {address}
HostKey {key}
PidFile {pid}
AuthorizedKeysFile {authorized}
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
MaxStartups 100
LogLevel ERROR
SetEnv {environment}
"""
_SSH = """\
Host *
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
"""
