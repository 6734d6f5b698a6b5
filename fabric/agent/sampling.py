"""Sampling on a host: counters read repeatedly, from files of the kernel and from tools that print numbers.

Knows what is being sampled, when each source is read next, and how a tool's output is parsed.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import os
import time

from fabric.agent.sessions import Running, Sessions, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Number = int | float | None

MOST_FILES = 4096
_MOST_ROWS = 10000
_FILE_BYTES = 1 << 16
_LEAST_PERIOD_S = 0.01
_LEAST_TOOL_PERIOD_S = 0.2
_TOOL_S = 10.0
_TOOL_CAP = 1 << 18


class Series:
    """Rows of numbers under the same names; ``new_messages`` returns what has not been reported yet."""

    def __init__(self, key: int, part: int) -> None:
        self.key, self.part = key, part
        self._names = None  # type: list[str] | None
        self._at = []  # type: list[float]
        self._rows = []  # type: list[list[Number]]
        self._messages = []  # type: list[dict[str, Any]]

    def add(self, at_s: float, names: "list[str]", values: "list[Number]") -> None:
        """Add a row; if its names differ from those before, a new block begins. Beyond a bound rows are dropped."""
        if len(self._rows) >= _MOST_ROWS:
            return
        if names != self._names:
            self._close()
            self._names = names
            shown = [printable(name) for name in names]
            self._messages.append({"e": "names", "id": self.key, "part": self.part, "names": shown})
        self._rows.append(values)
        self._at.append(at_s)

    def new_messages(self) -> "list[dict[str, Any]]":
        """Return the messages about everything since the last call."""
        self._close()
        messages, self._messages = self._messages, []
        return messages

    def _close(self) -> None:
        if self._rows:
            at = [round(at_s, 6) for at_s in self._at]
            self._messages.append({"e": "rows", "id": self.key, "part": self.part, "at": at, "rows": self._rows})
            self._rows, self._at = [], []


class FileSampler:
    """
    Samples files that hold one number each; they are kept open and read from the start once a period.

    Missed periods are skipped, not made up for.
    """

    def __init__(self, asked: "dict[str, Any]") -> None:
        import glob  # only here: it imports re, which takes longer than everything else

        paths = []  # type: list[str]
        for pattern in asked["files"]:
            paths += sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]  # noqa: PTH207
        if len(paths) > MOST_FILES:
            raise ValueError(f"{len(paths)} files to sample, more than {MOST_FILES}")
        self._paths = list(dict.fromkeys(paths))
        self._fds = {}  # type: dict[str, int]
        self.series = Series(asked["id"], 0)
        self._period_s = max(_LEAST_PERIOD_S, asked["period"])
        self._next_s = time.monotonic()

    def step(self, now_s: float) -> float:
        """Read if it is time; return when it is time again."""
        if now_s >= self._next_s:
            self.series.add(now_s, self._paths, [number_of(self._text(path).strip()) for path in self._paths])
            self._next_s += self._period_s
            if self._next_s <= now_s:
                self._next_s = now_s + self._period_s
        return self._next_s

    def _text(self, path: str) -> str:
        """Return a file's text; empty, which is no number, if it cannot be read."""
        try:
            if path not in self._fds:
                self._fds[path] = os.open(path, os.O_RDONLY)
            return os.pread(self._fds[path], _FILE_BYTES, 0).decode("ascii", "replace")
        except OSError:
            if path in self._fds:
                os.close(self._fds.pop(path))
            return ""

    def close(self) -> None:
        """Close all files."""
        while self._fds:
            os.close(self._fds.popitem()[1])


def tool_row(text: str, form: str) -> "tuple[list[str], list[Number]]":
    """
    Return the names and numbers that a tool printed.

    *form* "pairs": lines such as ``name: 5``, others are skipped; "csv": rows of values, the first one naming the
    columns (as ``nvidia-smi --query-gpu=... --format=csv,nounits`` does), numbered from 0.
    """
    names = []  # type: list[str]
    values = []  # type: list[Number]
    if form == "pairs":
        for line in text.splitlines():
            name, _, word = line.strip().rpartition(":")
            value = number_of(word.strip())
            if name and value is not None:
                names.append(name.strip())
                values.append(value)
        return names, values
    lines = [[word.strip() for word in line.split(",")] for line in text.splitlines() if line.strip()]
    for number, words in enumerate(lines[1:]):
        for name, word in zip(lines[0], words):  # noqa: B905
            names.append(f"{number}:{name}")
            values.append(number_of(word))
    return names, values


def number_of(word: str) -> "Number":
    """Return an integer or a finite decimal number, else None."""
    try:
        return int(word)
    except ValueError:
        pass
    try:
        value = float(word)
    except ValueError:
        return None
    return value if value - value == 0 else None


class ToolSampler:
    """Runs a tool once a period, never twice at a time; each output makes one row (all its lines together)."""

    def __init__(self, asked: "dict[str, Any]", part: int, sessions: Sessions) -> None:
        tool = asked["tools"][part - 1]
        self.series = Series(asked["id"], part)
        self.running = None  # type: Running | None
        self._argv, self._form, self._sessions = tool["argv"], tool["form"], sessions
        self._period_s = max(_LEAST_TOOL_PERIOD_S, asked["period"])
        self._next_s = time.monotonic()

    def due(self, now_s: float) -> "Running | None":
        """Return a run of the tool to begin, if it is time and the last one has ended."""
        if self.running is not None or now_s < self._next_s:
            return None
        self._next_s = now_s + self._period_s
        asked = {"id": -1, "argv": self._argv, "timeout": _TOOL_S, "cap": _TOOL_CAP}
        self.running = Running(asked, self._sessions)
        return self.running

    def step(self, now_s: float) -> float:
        """Return when to look again."""
        return now_s + _TOOL_S if self.running is not None else self._next_s

    def ended(self) -> None:
        """Take what the tool printed; one that failed leaves no row."""
        running, self.running = self.running, None
        if running is not None and running.status == 0:
            self.series.add(running.begun_s, *tool_row(running.outputs[0].taken(), self._form))

    def close(self) -> None:
        """End the tool."""
        if self.running is not None:
            self.running.end("cancelled")


class Sampling:
    """One request to sample: all files in one series, each tool in a series of its own."""

    def __init__(self, asked: "dict[str, Any]", sessions: Sessions) -> None:
        self.tools = [ToolSampler(asked, part, sessions) for part in range(1, 1 + len(asked["tools"]))]
        self._sources = list(self.tools)  # type: list[ToolSampler | FileSampler]
        if asked["files"]:
            self._sources.append(FileSampler(asked))
        self._report_interval_s, self._next_report_s = asked["told"], 0.0

    def new_messages(self, now_s: float) -> "list[dict[str, Any]]":
        """Return messages with what is new, at most as often as was asked."""
        if now_s < self._next_report_s:
            return []
        messages = [message for source in self._sources for message in source.series.new_messages()]
        if messages:
            self._next_report_s = now_s + self._report_interval_s
        return messages

    def step(self, now_s: float) -> float:
        """Read the files if it is time; return when to be called again."""
        return min([source.step(now_s) for source in self._sources], default=now_s + self._report_interval_s)

    def close(self) -> None:
        """End the tools and close the files."""
        for source in self._sources:
            source.close()
