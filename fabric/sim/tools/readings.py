"""The files that a sampler reads on a host again and again, read at once: the same numbers that ``cat`` prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fabric.sim.hosts.temperature import ASIC, MODULE, Warmth
from fabric.sim.phy.port import Port, capped
from fabric.sim.rack import Rack
from fabric.sim.tools.call import ToolCall
from fabric.sim.tools.sysfs import ROOT, cat

_COUNTER = re.compile(rf"{ROOT}([^/]+)/ports/[0-9]+/(?:hw_)?counters/([^/]+)")
_SENSOR = re.compile(rf"{ROOT}([^/]+)/device/hwmon/hwmon(?:\*|[0-9]+)/temp([12])_input")
_NET = re.compile(rf"{ROOT}([^/]+)/device/net/(?:\*|eth[0-9]+)/(statistics/rx_crc_errors|carrier_down_count)")
_EIGHTHS = 125  # the register counts eighths of a degree

# Of a port that loses nothing these follow from its rates alone, and its traffic need not be added up: their place in
# what _errors tells, and their width in bits.
_BY_RATE = {"symbol_error": (0, 16), "port_rcv_errors": (0, 16), "link_downed": (1, 8), "link_error_recovery": (2, 8)}
_LOSSES = frozenset({"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "roce_adp_retrans"})
_NEVER = frozenset(
    {
        "port_xmit_discards",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "rnr_nak_retry_err",
        "rx_icrc_encapsulated",
    }
)
_WAIT = "port_xmit_wait"
_STEADY = frozenset({*_BY_RATE, *_LOSSES, *_NEVER})
_KNOWN = frozenset({*_BY_RATE, *_LOSSES, *_NEVER, _WAIT})
Value = int | float | None
Read = Callable[[Warmth], Value]


class Readings:
    """Some files of one host; a pattern stands for the one file that it matches here."""

    def __init__(self, rack: Rack, host: str, paths: Sequence[str]) -> None:
        self._rack, self._host, self._site = rack, host, rack.hosts.site(host)
        self._numbers = {rnic.device: number for number, rnic in enumerate(self._site.layout.platform.rnics)}
        self._ports: dict[str, tuple[Port, Port | None]] = {}
        self._seen: dict[str, tuple[int, ...]] = {}  # errors of a port that loses nothing, as ``_errors`` tells them
        self._last: list[Value] = []
        names: list[str] = []
        # Where in a row and how each is read, by RNIC: what only errors move, and what may always move.
        self._steady: dict[str, list[tuple[int, Read]]] = {}
        self._moving: dict[str, list[tuple[int, Read]]] = {}
        for place, path in enumerate(paths):
            name, device, read = self._found(path)
            names.append(name)
            counter = _COUNTER.fullmatch(path)
            kind = self._steady if counter is not None and counter[2] in _STEADY and device else self._moving
            kind.setdefault(device, []).append((place, read))
        self.names = tuple(names)

    def row(self, at_s: float) -> list[Value] | None:
        """The numbers now, None for a file that is not there; None for all when the host does not answer."""
        kind = self._rack.hosts.kind(self._host)
        if kind == "hanging":
            return None
        if kind == "garbage":
            return [None] * len(self.names)
        warmth = Warmth(self._site, at_s)
        row: list[Value] = list(self._last) or [None] * len(self.names)
        for device in ("", *self._numbers):
            moving, steady = self._moving.get(device, ()), self._steady.get(device, ())
            if device and self._site.trouble_of(device) == "absent":
                self._seen.pop(device, None)
                for place, _ in (*moving, *steady):
                    row[place] = None
                continue
            for place, read in moving:
                row[place] = read(warmth)
            if steady and not self._is_still(device, at_s):
                for place, read in steady:
                    row[place] = read(warmth)
        self._last = row
        return row

    def _is_still(self, device: str, at_s: float) -> bool:
        """Whether its error counters are what they were when this was asked before, so that they need no look."""
        port, peer = self._port(device)
        if _loses(port) or (peer is not None and _loses(peer)):
            self._seen.pop(device, None)
            return False
        now = tuple(map(int, _errors(port, at_s, "ib")))
        before = self._seen.get(device)
        self._seen[device] = now
        return before == now and bool(self._last)

    def _found(self, path: str) -> tuple[str, str, Read]:
        """The file's name here, the RNIC that it is about, and how it is read."""
        counter, sensor, net = _COUNTER.fullmatch(path), _SENSOR.fullmatch(path), _NET.fullmatch(path)
        if counter and counter[1] in self._numbers and counter[2] in _KNOWN:
            return path, counter[1], self._counter(path, counter[1], counter[2])
        if sensor and sensor[1] in self._numbers:
            nature = ASIC if sensor[2] == "1" else MODULE
            name = path.replace("hwmon*", f"hwmon{self._numbers[sensor[1]]}")
            device = sensor[1]
            return name, device, lambda now: round(now.of(device, nature) * 1000 / _EIGHTHS) * _EIGHTHS
        if net and net[1] in self._numbers:
            name = path.replace("/net/*/", f"/net/eth{self._numbers[net[1]] + 1}/")
            return name, net[1], self._of_net(net[1], down=net[2] == "carrier_down_count")
        return path, "", lambda now: self._by_cat(path, now.at_s)

    def _port(self, device: str) -> tuple[Port, Port | None]:
        """The RNIC's port and its partner, made when first asked for."""
        found = self._ports.get(device)
        if found is None:
            port = self._rack.ports.of_adapter(self._host, device)
            found = self._ports[device] = port, self._rack.ports.peer(port)
        return found

    def _counter(self, path: str, device: str, name: str) -> Read:
        if name in _NEVER:
            return lambda _: 0
        by_rate = _BY_RATE.get(name)

        def read(now: Warmth) -> Value:
            port, peer = self._port(device)
            if name == _WAIT:
                return int(self._rack.ports.counts(port, now.at_s, view="ib").wait_ticks)
            if by_rate is None:
                quiet = not _loses(port) and (peer is None or not _loses(peer))
                return 0 if quiet else self._by_cat(path, now.at_s)
            place, bits = by_rate
            return capped(_errors(port, now.at_s, "ib")[place], bits)

        return read

    def _of_net(self, device: str, *, down: bool) -> Read:
        def read(now: Warmth) -> Value:
            port, _ = self._port(device)
            if not port.node.ethernet:
                return None
            tally = port.tally
            effective = tally.counts.effective + tally.rates.effective * (now.at_s - tally.since_s)
            return int(tally.counts.downed if down else effective)

        return read

    def _by_cat(self, path: str, at_s: float) -> Value:
        """What any other file says, if it is one number."""
        said = cat(ToolCall(self._rack, self._site, (path,), at_s, 0))
        text = said.stdout.strip()
        if said.status == 0 and re.fullmatch(r"-?[0-9]+", text):
            return int(text)
        return None


def _loses(port: Port) -> bool:
    return port.tally.rates.loss > 0.0 or port.tally.counts.lost_gb > 0.0


def _errors(port: Port, at_s: float, view: str) -> tuple[float, float, float]:
    """Symbol errors, times down and recoveries since the view was cleared; leaves the tally as it is."""
    tally, counts, lasted_s = port.tally, port.tally.counts, at_s - port.tally.since_s
    symbol = counts.symbol + tally.rates.symbol * lasted_s
    recovered = counts.recovered + tally.rates.recovered * lasted_s
    old = tally.cleared.get(view)
    if old is None:
        return symbol, counts.downed, recovered
    return symbol - old.symbol, counts.downed - old.downed, recovered - old.recovered
