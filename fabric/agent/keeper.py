"""
A process beside the agent that outlives it for a moment: if the agent is killed, it kills what the agent had begun.

The kernel ends the leader of each session with the agent (PR_SET_PDEATHSIG), but not what that had begun itself.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import mmap
import os
import signal
import time

from fabric.agent.sessions import killed, members

_SLOTS = 1024
"""Sessions that can be told of at once; choice: more than the commands an agent runs at once."""
_SLOT_BYTES = 4
_FILES = 1024  # more than an agent was born with
_END_S = 4.0
_LOOK_S = 0.02


class Keeper:
    """To be made before the agent opens anything: the process keeps none of its files open, for readers see the end."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _SLOTS * _SLOT_BYTES)  # costs the other side nothing until it is needed
        self._slots = {}  # type: dict[int, int]
        self._free = list(range(_SLOTS))
        agent_gone, self._alive_fd = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._keep(agent_gone)
            finally:
                os._exit(0)
        os.close(agent_gone)

    def began(self, session: int) -> None:
        """A session is to end with the agent; one too many is not told of."""
        if self._free:
            slot = self._slots[session] = self._free.pop()
            self._set(slot, session)

    def ended(self, session: int) -> None:
        """A session is over, and its number may come to mean another."""
        slot = self._slots.pop(session, None)
        if slot is not None:
            self._set(slot, 0)
            self._free.append(slot)

    def _set(self, slot: int, session: int) -> None:
        self._shared[slot * _SLOT_BYTES : (slot + 1) * _SLOT_BYTES] = session.to_bytes(_SLOT_BYTES, "little")

    def _keep(self, agent_gone: int) -> None:
        """In the process: wait for the agent's end, then kill what is left; a second life is not prolonged."""
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, agent_gone)
        os.closerange(agent_gone + 1, _FILES)
        os.read(agent_gone, 1)
        data = self._shared[:]
        sessions = {int.from_bytes(data[at : at + _SLOT_BYTES], "little") for at in range(0, len(data), _SLOT_BYTES)}
        sessions.discard(0)
        until_s = time.monotonic() + _END_S
        while sessions and time.monotonic() < until_s:
            left = [pid for pids in members(sessions).values() for pid in pids]
            if not left:
                return
            killed(left, signal.SIGKILL)
            time.sleep(_LOOK_S)  # nothing tells when a process that is not our child has gone
