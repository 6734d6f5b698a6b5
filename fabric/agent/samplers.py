"""
What is being sampled on a host: when each source is read next, and what its tool printed.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import time

from fabric.agent.commands import Running
from fabric.agent.sampling import TOLD_S, Files, Series, tool_row
from fabric.agent.sessions import Sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LEAST_PERIOD_S = 0.01
_LEAST_TOOL_PERIOD_S = 0.2
_TOOL_S = 10.0
_TOOL_CAP = 1 << 18


class FileSampler:
    """Reads files once a period; periods that were missed are left out, not made up for."""

    def __init__(self, asked: "dict[str, Any]") -> None:
        self.series = Series(asked["id"], 0)
        self._period_s = max(_LEAST_PERIOD_S, asked["period"])
        self._files = Files(asked["files"])
        self._next_s = time.monotonic()

    def step(self, now_s: float) -> float:
        """Read if it is time; returns when it is time again."""
        if now_s >= self._next_s:
            names, values = self._files.row()
            self.series.add(now_s, names, values)
            self._next_s += self._period_s
            if self._next_s <= now_s:
                self._next_s = now_s + self._period_s
        return self._next_s

    def close(self) -> None:
        """Let go of the files."""
        self._files.close()


class ToolSampler:
    """Runs a tool once a period, never twice at a time; what it prints is one row."""

    def __init__(self, asked: "dict[str, Any]", part: int, sessions: Sessions) -> None:
        tool = asked["tools"][part - 1]
        self.series = Series(asked["id"], part)
        self.running = None  # type: Running | None
        self._argv, self._form, self._sessions = tool["argv"], tool["form"], sessions
        self._period_s = max(_LEAST_TOOL_PERIOD_S, asked["period"])
        self._next_s = time.monotonic()

    def due(self, now_s: float) -> "Running | None":
        """A run of the tool to begin, if it is time and the last one has ended."""
        if self.running is not None or now_s < self._next_s:
            return None
        self._next_s = now_s + self._period_s
        asked = {"id": -1, "argv": self._argv, "timeout": _TOOL_S, "cap": _TOOL_CAP}
        self.running = Running(asked, self._sessions)
        return self.running

    def step(self, now_s: float) -> float:
        """When to look again."""
        return now_s + _TOOL_S if self.running is not None else self._next_s

    def ended(self) -> None:
        """Take what the tool printed; one that failed leaves no row."""
        running, self.running = self.running, None
        if running is not None and running.status == 0:
            names, values = tool_row(running.outputs[0].taken(), self._form)
            self.series.add(running.begun_s, names, values)

    def close(self) -> None:
        """End the tool."""
        if self.running is not None:
            self.running.end("cancelled")


class Sampling:
    """One request to sample: its files in one series, each of its tools in one of its own."""

    def __init__(self, asked: "dict[str, Any]", sessions: Sessions) -> None:
        self.files = FileSampler(asked) if asked["files"] else None
        self.tools = [ToolSampler(asked, part, sessions) for part in range(1, 1 + len(asked["tools"]))]
        self._tell_s = 0.0

    def told(self, now_s: float) -> "list[dict[str, Any]]":
        """Messages with what is new, at most every half second."""
        if now_s < self._tell_s:
            return []
        series = [tool.series for tool in self.tools] + ([self.files.series] if self.files is not None else [])
        told = [message for one in series for message in one.told()]
        if told:
            self._tell_s = now_s + TOLD_S
        return told

    def step(self, now_s: float) -> float:
        """Read the files if it is time; returns when to come again."""
        times = [tool.step(now_s) for tool in self.tools]
        if self.files is not None:
            times.append(self.files.step(now_s))
        return min(times) if times else now_s + TOLD_S

    def close(self) -> None:
        """End what runs and let go of files."""
        for tool in self.tools:
            tool.close()
        if self.files is not None:
            self.files.close()
