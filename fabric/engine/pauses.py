"""Detects a PFC storm: a port is told to wait all the time while nothing moves, and all that wait for it wait, too.

One RNIC that pauses for ever stops a network, and what a deadlock of pauses holds does not come back by itself (Guo and
others, "RDMA over Commodity Ethernet at Scale", SIGCOMM 2016). Pauses alone are no storm: 5.0 million of them with
nothing lost were measured on a good fabric (nccl issue 2383). So a storm needs both, pauses and no traffic, for
``STORM_S``.
"""

from dataclasses import dataclass, field

from fabric.model.sampling import Value

STORM_S = 1.0
"""How long it must last (a choice: ten times the watchdog of RNICs in Guo 2016, an eighth of mlx5's slowest, 8 s)."""

ALL_THE_TIME = 0.9
"""Share of the time that counts as always paused (a choice: counters are read a little before or after the clock)."""

_WAYS = {"rx_pfc_us": "port_xmit_data", "tx_pfc_us": "port_rcv_data"}
"""Pause counter to the data counter that stands still: rx, the port is told to wait; tx, it pauses the other end."""
_MOVES = {data: pause for pause, data in _WAYS.items()}

_End = tuple[str, str, str]
"""Host, device, and the name of the pause counter."""


@dataclass(slots=True)
class _Paused:
    """When the present stretch of constant pauses began, and the last reading."""

    since_s: float
    last_s: float
    last_us: float


@dataclass(slots=True)
class PauseStorms:
    """Finds pause storms in counter readings; *found* describes the first one, and is empty until there is one."""

    found: str = ""
    _paused: dict[_End, _Paused] = field(default_factory=dict)
    _moved: dict[_End, tuple[float, float]] = field(default_factory=dict)

    def take(self, host: str, device: str, name: str, at_s: float, value: Value) -> None:
        """Take one reading; other counters are ignored."""
        if value is None:
            return
        if name in _MOVES:
            end = host, device, _MOVES[name]
            known = self._moved.get(end)
            if known is None or known[1] != value:
                self._moved[end] = at_s, value
        elif name in _WAYS:
            self._pause((host, device, name), at_s, value)

    def _pause(self, end: _End, at_s: float, us: float) -> None:
        one = self._paused.get(end)
        if one is None or us - one.last_us < ALL_THE_TIME * (at_s - one.last_s) * 1e6:
            self._paused[end] = _Paused(at_s, at_s, us)
            return
        one.last_s, one.last_us = at_s, us
        moved_s = self._moved.get(end, (at_s, 0.0))[0]  # without an earlier reading, assume that data moved just now
        if at_s - max(one.since_s, moved_s) >= STORM_S and not self.found:
            host, device, name = end
            way = "is told to wait" if name.startswith("rx") else "has the other end wait"
            self.found = f"PFC storm: {host}/{device} {way} all the time, and nothing moves for {STORM_S:g} s"
