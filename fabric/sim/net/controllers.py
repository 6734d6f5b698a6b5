"""The managers of a fabric besides its subnet manager: switches with a command line of their own (NVUE), and UFM.

UFM isolates switch ports with many bit errors, and keeps them isolated until it is told to release them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from fabric.model.topology import Topology
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.phy import Ports
from fabric.sim.phy.cabling import End
from fabric.sim.phy.port import ISOLATED, Port

Config = dict[str, str]
"""Paths of NVUE's tree and their values: ``router adaptive-routing enable``: ``on``."""

AR = "router adaptive-routing"
ECN, PFC = "qos congestion-control default-global traffic-class", "qos pfc default-global"

OnCommit = Callable[[bool, float], None]
"""Called at each commit with whether all switches together route adaptively."""


@dataclass(slots=True)
class NvueSwitch:
    """
    One NVUE switch; everybody who logs in uses the same account.

    *staged*: values that are set and not applied; None means unset. *waits*: for a commit that waits for confirmation,
    the config to go back to, and when. *commits*: the messages of their authors. *failing*: the switch refuses every
    commit.
    """

    name: str
    uplinks: int
    applied: dict[str, str]
    staged: dict[str, str | None] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    waits: tuple[Config, float] | None = None
    failing: bool = False

    @property
    def adaptive(self) -> bool:
        """
        Return whether the switch routes adaptively: it must be on for the whole switch and for at least one interface.
        """
        ports = (value for path, value in self.applied.items() if path.startswith("interface ") and AR in path)
        return self.applied.get(f"{AR} enable", "off") == "on" and "on" in ports

    def marks(self, queue: int) -> bool:
        """Return whether the switch marks packets of a queue, on ports that have no profile of their own."""
        return self.applied.get(f"{ECN} {queue} ecn") != "disable"

    def pauses(self, way: str) -> bool:
        """Return whether the switch sends pauses (tx), or obeys them (rx)."""
        return self.applied.get(f"{PFC} {way}") != "disable"

    def changes(self) -> dict[str, str | None]:
        """Return the staged values that would alter something."""
        return {path: value for path, value in self.staged.items() if self.applied.get(path) != value}


class NvueSwitches:
    """
    All NVUE switches. A commit is in force at once (a choice: nothing says how long switchd takes).

    The fabric routes adaptively when every switch does (a choice: where some do not, hashes decide for all).
    """

    def __init__(self, topology: Topology, timeline: Timeline, on_commit: OnCommit, *, adaptive: bool) -> None:
        self._timeline, self._on_commit = timeline, on_commit
        self.switches: dict[str, NvueSwitch] = {}
        for name, login in topology.logins.items():
            if login.management == "nvue":
                cables = sum(topology.cables_between(name, other) for other in topology.switches)
                uplinks = max(1, cables)  # they may route adaptively; whether the switch does is one line
                applied = {f"interface swp1-{uplinks} {AR} enable": "on", "system hostname": name}
                applied |= {f"{AR} enable": "on"} if adaptive else {}
                self.switches[name] = NvueSwitch(name, uplinks, applied)

    def lossless(self, queue: int) -> tuple[bool, bool]:
        """
        Return whether all switches mark a queue, and whether all pause (a choice: one that does not decides for all).
        """
        found = self.switches.values()
        return all(one.marks(queue) for one in found), all(one.pauses("tx") and one.pauses("rx") for one in found)

    def apply(self, switch: NvueSwitch, at_s: float, *, message: str, confirm_s: float | None = None) -> int | None:
        """Apply what is staged; return the number of the commit, None when there is nothing to apply."""
        changes = switch.changes()
        switch.staged.clear()
        if not changes:
            return None
        before = switch.applied
        switch.applied = {path: value for path, value in {**before, **changes}.items() if value is not None}
        if confirm_s is not None:
            switch.waits = (before, at_s + confirm_s)
            self._timeline.at(at_s + confirm_s, lambda now_s: self._roll_back(switch, before, now_s))
        return self._committed(switch, message, at_s)

    def confirm(self, switch: NvueSwitch) -> bool:
        """Keep the commit that waits; return False when none does."""
        waited, switch.waits = switch.waits is not None, None
        return waited

    def _roll_back(self, switch: NvueSwitch, before: Config, at_s: float) -> None:
        """Undo an unconfirmed commit, and everything that was committed since."""
        if switch.waits is not None and switch.waits[0] is before:
            switch.waits = None
            switch.applied = before
            self._committed(switch, "rollback: not confirmed in time", at_s)

    def _committed(self, switch: NvueSwitch, message: str, at_s: float) -> int:
        switch.commits.append(message)
        self._on_commit(all(one.adaptive for one in self.switches.values()), at_s)
        return len(switch.commits)


PATH = "/ufmRest/app/unhealthy_ports"
"""The resource of UFM Enterprise's REST API (6.11 to 6.22)."""

HIGH_BER = 1e-12
"""Symbol or effective bit error ratio above which a port is unhealthy: UFM's own bound for an error (facts: choice)."""

NOTICED_S = 60.0
"""Time from the first such error to the isolation; a choice: UFM's telemetry samples every half minute or so."""


class Ufm:
    """The state of UFM. *there*: it can be asked; a UFM that *isolates* is there, too."""

    def __init__(self, ports: Ports, timeline: Timeline, *, there: bool, isolates: bool) -> None:
        self._ports, self._timeline, self._isolates = ports, timeline, isolates
        ports.watch = self.look_at
        self.there = there or isolates
        self._listed: dict[End, str] = {}  # the condition of each listed port
        self._noticed: dict[End, float] = {}

    def look_at(self, sender: Port, at_s: float) -> None:
        """Look at a port between switches whose sending has changed; its partner may be isolated after NOTICED_S."""
        receiver = self._ports.peer(sender) if self._isolates else None
        if receiver is None or receiver.site is not None or sender.site is not None:
            return
        if not _is_high(sender):
            self._noticed.pop(receiver.end, None)
        elif receiver.end not in self._noticed and receiver.end not in self._listed:
            self._noticed[receiver.end] = at_s
            self._timeline.at(at_s + NOTICED_S, lambda now_s: self._isolate(sender, receiver, at_s, now_s))

    def _isolate(self, sender: Port, receiver: Port, since_s: float, at_s: float) -> None:
        if self._noticed.get(receiver.end) == since_s and _is_high(sender):
            del self._noticed[receiver.end]
            self._list(receiver, "HIGH_BER", at_s)

    def _list(self, port: Port, condition: str, at_s: float) -> None:
        if port.end not in self._listed:
            self._listed[port.end] = condition
            self._ports.hold(port, ISOLATED, at_s)

    def listing(self) -> str:
        """Return the answer to GET: a JSON list of unhealthy ports."""
        return json.dumps([self._entry(self._ports.at(end), why) for end, why in self._listed.items()]) + "\n"

    def put(self, body: str, at_s: float) -> str | None:
        """Mark ports (``guid_port``) HEALTHY or UNHEALTHY; return why that is refused, else None."""
        request = json.loads(body)
        ports = [port for name in request["ports"] for port in self._named(name)]
        if not ports:
            return f"Ports {', '.join(request['ports'])} do not exist"
        for port in ports:
            if request["ports_policy"] == "UNHEALTHY":
                self._list(port, "MANUAL", at_s)
            else:
                self._heal(port, at_s)
        return None

    def _named(self, name: str) -> list[Port]:
        guid, _, number = name.partition("_")
        nodes = (node for node in self._ports.cabling.nodes.values() if f"{node.guid:016x}" == guid)
        ends = (end for node in nodes for end in self._ports.cabling.ends(node))
        return [self._ports.at(end) for end in ends if str(end[1]) == number]

    def _heal(self, port: Port, at_s: float) -> None:
        """Take a port and its partner off the list; either end may be named."""
        for one in self._ports.both(port):
            if self._listed.pop(one.end, None) is not None:
                self._ports.release(one, ISOLATED, at_s)
                sender = self._ports.peer(one)
                if sender is not None:
                    self.look_at(sender, at_s)

    def _entry(self, port: Port, condition: str) -> dict[str, object]:
        peer = self._ports.peer(port)
        entry: dict[str, object] = {
            "UnhealthyNode": port.node.name,
            "UnhealthyPort": f"{port.node.guid:016x}_{port.end[1]}",
            "UnhealthyGUID": f"{port.node.guid:016x}",
            "UnhealthyPortNumber": port.end[1],
            "Condition": condition,
            "State": "isolated",
        }
        if peer is not None:
            entry |= {"PeerNode": peer.node.name, "PeerPort": f"{peer.node.guid:016x}_{peer.end[1]}"}
        return entry


def _is_high(sender: Port) -> bool:
    quality = sender.quality()
    return sender.injection is not None and max(quality.symbol_ber, quality.effective_ber) > HIGH_BER
