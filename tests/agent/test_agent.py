"""The agent as hosts get it: a Python process fed its program, talked to over pipes."""

import ast
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lab.processes import TOKEN_NAME, processes_with, running_with, until
from fabric.agent import program, receiving_argv, source

NONCE = "n0nce"
Event = dict[str, Any]


class Talk:
    """One agent and what it has said."""

    def __init__(self, *, silence_s: float = 30) -> None:
        argv = (sys.executable, *receiving_argv(NONCE, silence_s)[1:])
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._in.write(program())
        self._rest = b""
        self.events: list[Event] = []

    def ask(self, **fields: Any) -> None:
        """Send a request."""
        self._in.write(json.dumps(fields).encode() + b"\n")

    def start(self, key: int, *argv: str, **more: Any) -> None:
        """Ask for a command."""
        self.ask(**{"v": "start", "id": key, "argv": argv, "timeout": 20, "cap": 1 << 20, **more})

    def until(self, wanted: Callable[[Event], bool], *, timeout_s: float = 20) -> Event:
        """Read until an event fits; raises AssertionError at the end of time or stream."""
        until_s = time.monotonic() + timeout_s
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                event = json.loads(line.removeprefix(f"fabric-agent-{NONCE} ".encode()))
                self.events.append(event)
                if wanted(event):
                    return event
            ready = select.select([self._out], [], [], max(0.0, until_s - time.monotonic()))[0]
            data = os.read(self._out.fileno(), 1 << 16) if ready else b""
            assert data, (f"nothing that fits within {timeout_s} s", self.events[-5:])
            self._rest += data

    def ended(self, key: int, *, timeout_s: float = 20) -> Event:
        """The end of a command."""

        def is_it(one: Event) -> bool:
            return bool(one["e"] == "ended" and one["id"] == key)

        # It may have been read while the test waited for another event.
        return next(filter(is_it, self.events), None) or self.until(is_it, timeout_s=timeout_s)

    def close_stdin(self) -> None:
        """Hang up."""
        self._in.close()

    def close(self) -> None:
        """End the agent."""
        self._in.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self._out.close()


@pytest.fixture
def talk() -> Iterator[Talk]:
    """An agent."""
    made = Talk()
    yield made
    made.close()


def marked(token: str) -> dict[str, Any]:
    """The environment that makes a command's descendants findable."""
    return {"env": [[TOKEN_NAME, token]]}


def test_the_program_is_python_3_6_and_stdlib_only():
    """Hosts of clusters have old Pythons, and nothing of ours."""
    tree = ast.parse(source(), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    assert imported <= set(sys.stdlib_module_names)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)]


def test_hello_names_the_clock(talk: Talk):
    """The first word tells what the host's clock reads."""
    hello = talk.until(lambda one: one["e"] == "hello")
    assert abs(hello["t"] - time.monotonic()) < 10


def test_bytes_that_are_no_text_arrive_as_they_are(talk: Talk):
    """Every byte value survives the way."""
    talk.start(1, sys.executable, "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)))")
    assert talk.ended(1)["out"].encode("latin-1") == bytes(range(256))


@pytest.mark.slow
def test_who_does_not_read_holds_the_tool_back_and_not_memory(talk: Talk):
    """The other side does not read: the tool waits in its write, and all arrives later."""
    talk.start(1, "head", "-c", "20000000", "/dev/zero", cap=30_000_000, timeout=60)
    talk.start(2, "sleep", "1")
    time_s = time.monotonic() + 1.5
    assert until(lambda: time.monotonic() > time_s)
    status = Path(f"/proc/{talk.process.pid}/status").read_text()
    assert int(status.partition("VmHWM:")[2].split()[0]) < 40_000
    end = talk.ended(1, timeout_s=60)
    pieces = [one["data"] for one in talk.events if one["e"] == "out" and one["id"] == 1]
    assert len("".join(pieces) + end["out"]) == 20_000_000


def test_own_sessions_survive_and_the_rest_does_not(talk: Talk):
    """A guard that called setsid stays when its command ends; a mere child does not."""
    guard, child = f"guard-{os.getpid()}", f"child-{os.getpid()}"
    program = f"env {TOKEN_NAME}={guard} setsid sleep 30 & env {TOKEN_NAME}={child} sleep 31 & sleep 0.3"
    talk.start(1, "sh", "-c", program)
    assert until(lambda: bool(running_with(guard)) and bool(running_with(child)))
    assert talk.ended(1)["status"] == 0
    assert running_with(child) == []
    talk.close_stdin()
    assert talk.process.wait(10) == 0
    assert len(running_with(guard)) == 1
    for pid in [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        if guard.encode() in _environ(pid):
            os.kill(int(pid.name), signal.SIGKILL)


@pytest.mark.parametrize("end", ["stdin", *(pytest.param(one, marks=pytest.mark.slow) for one in ("TERM", "HUP"))])
def test_the_agents_end_ends_everything(talk: Talk, end: str):
    """Stdin closed, or a signal: nothing is left, also of what ignores TERM."""
    token = f"end-{end}-{os.getpid()}"
    for key in range(3):
        talk.start(key, "sh", "-c", "trap '' TERM HUP; sleep 60; sleep 60", **marked(token))
    assert until(lambda: len(running_with(token)) == 6)
    talk.close_stdin() if end == "stdin" else talk.process.send_signal(getattr(signal, f"SIG{end}"))
    talk.process.wait(10)
    assert processes_with(token) == []


def test_a_killed_agent_leaves_nothing_behind(talk: Talk):
    """SIGKILL: leaders die with it, and a process beside it kills what they had begun, and then goes too."""
    token, ended = f"killed-{os.getpid()}", f"ended-{os.getpid()}"
    talk.until(lambda one: one["e"] == "hello")
    children = Path(f"/proc/{talk.process.pid}/task/{talk.process.pid}/children").read_text()
    keepers = [int(word) for word in children.split()]
    talk.start(1, "sh", "-c", "trap '' TERM HUP; sleep 60 & (sleep 61; sleep 62) & wait", **marked(token))
    talk.start(2, "sh", "-c", f"env {TOKEN_NAME}={ended} setsid sleep 30 & sleep 0.3")
    talk.ended(2)
    assert until(lambda: len(running_with(token)) == 4)
    assert until(lambda: bool(running_with(ended)))
    talk.process.kill()
    talk.process.wait()
    assert until(lambda: not processes_with(token)), processes_with(token)
    assert until(lambda: not any(alive(pid) for pid in keepers)), keepers
    assert len(running_with(ended)) == 1, "a guard in a session of its own stays"
    for pid in [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        if ended.encode() in _environ(pid):
            os.kill(int(pid.name), signal.SIGKILL)


def test_silence_ends_everything():
    """No heartbeat: the orchestrator is gone, even if the connection looks alive."""
    token, talk = f"silence-{os.getpid()}", Talk(silence_s=1.0)
    talk.start(1, "sleep", "60", **marked(token))
    assert until(lambda: bool(running_with(token)))
    assert "nothing was heard" in talk.until(lambda one: one["e"] == "bye")["cause"]
    assert talk.process.wait(10) == 0
    assert processes_with(token) == []
    talk.close()


@pytest.mark.slow
def test_pings_keep_it_alive():
    """Any word is a heartbeat."""
    talk = Talk(silence_s=0.8)
    talk.start(1, "sleep", "2")
    for key in range(8):
        talk.ask(v="clock", id=key)
        talk.until(lambda one, key=key: one["e"] == "clock" and one["id"] == key)
        time_s = time.monotonic() + 0.25
        assert until(lambda time_s=time_s: time.monotonic() > time_s)
    assert talk.ended(1)["status"] == 0
    talk.close()


def test_samples_of_files_and_tools(talk: Talk, tmp_path: Path):
    """Names once, then rows; a tool is a series of its own; a file that holds no number has none."""
    counter = tmp_path / "counter"
    counter.write_text("5\n")
    (tmp_path / "words").write_text("a 1\nb 2\n")
    tools = [{"argv": ["sh", "-c", "echo ' rx: 7'; echo x"], "form": "pairs"}]
    tools.append({"argv": ["printf", "index, power [W]\\n0, 70.5\\n1, [N/A]\\n"], "form": "csv"})
    talk.ask(v="sample", id=9, period=0.05, told=0.5, files=[f"{tmp_path}/*"], tools=tools)
    names = talk.until(lambda one: one["e"] == "names" and one["part"] == 0)["names"]
    assert names == [f"{counter}", f"{tmp_path}/words"]
    assert talk.until(lambda one: one["e"] == "rows" and one["part"] == 0)["rows"][0] == [5, None]
    counter.write_text("9\n")
    talk.until(lambda one: one["e"] == "rows" and one["part"] == 0 and [9, None] in one["rows"])
    by_part = {one["part"]: one["names"] for one in talk.events if one["e"] == "names"}
    assert by_part == {0: names, 1: ["rx"], 2: ["0:index", "0:power [W]", "1:index", "1:power [W]"]}
    talk.ask(v="cancel", id=9)
    talk.until(lambda one: one["e"] == "stopped")


def test_a_request_that_makes_no_sense_ends_it(talk: Talk):
    """A side that speaks another protocol is not guessed at."""
    talk.ask(v="dance", id=1)
    assert "makes no sense" in talk.until(lambda one: one["e"] == "bye")["cause"]


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _environ(pid: Path) -> bytes:
    try:
        return (pid / "environ").read_bytes()
    except OSError:
        return b""
