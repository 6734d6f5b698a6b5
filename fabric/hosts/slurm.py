"""Hosts of a Slurm job: one srun starts one step with the agents of all hosts, and each agent connects to us.

Slurm's own tree carries the step to the hosts. The agents connect to a TaskListener (a listening socket) at the
address that srun's own connections come to: one stream per host, so that no host waits for another.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hmac import compare_digest

from fabric.agent import task_argv, task_program
from fabric.agent.joining import ANSWER_S, proof, received_line
from fabric.errors import ExecutorError, HostUnreachable, ToolError
from fabric.hosts.agent import AgentExecutor
from fabric.hosts.process import run_here
from fabric.hosts.stream import GRACE_S, HostStream, Request, notice_loss, raise_file_limit
from fabric.hosts.threads import Workers
from fabric.ports import Ticket
from fabric.tools import slurm
from fabric.tools.driver import need_success

WHOLE_S = 90.0
"""Time for all tasks of a step to connect (seconds; choice: srun gives up a node that is away after 10 s)."""
_GATHER_S = 0.1
"""Hosts asked for within this time of each other go into one step (seconds; choice)."""
_TRIES = 3  # steps tried when Slurm takes one back because of a node, each time without that node
_ANSWER_S = 30.0  # for one answer of Slurm's own commands; choice
_GREETERS = 16  # tasks greeted at once; a stranger who says nothing keeps one greeter for ANSWER_S
_KEPT_LINES = 500  # of srun's stderr
_CHUNK_BYTES = 256 << 10
_STEP = "beginning a step"


class SlurmExecutor(AgentExecutor):
    """Runs commands on the hosts of Slurm job *job*, in one step for all hosts that are asked for at once."""

    _plain = False

    def __init__(self, job: str, options: Sequence[str] = ()) -> None:
        super().__init__()
        self._job, self._options = job, tuple(options)
        self._nodes: frozenset[str] | None = None
        self._asked: dict[str, float] = {}  # hosts that no step has begun for, and since when
        self._begun: set[str] = set()
        self._door: TaskListener | None = None
        self._steps: list[SlurmStep] = []
        self._beginning = threading.Lock()
        self._shut = threading.Event()
        # Guarded by the lock _beginning: tasks that wait for their first program, and why a host has no task.
        self._tasks: dict[str, _TaskStream] = {}
        self._absent: dict[str, str] = {}
        raise_file_limit()

    def close(self) -> None:
        """End every command, then every step."""
        super().close()
        for task in self._tasks.values():
            task.close()
        for step in self._steps:
            step.close()
        if self._door is not None:
            self._door.close()

    def _request(self, request: Request) -> Ticket:
        ticket = super()._request(request)
        if request.host not in self._begun:
            self._asked.setdefault(request.host, time.monotonic())
        return ticket

    def _interrupt(self) -> None:
        self._shut.set()
        for step in list(self._steps):
            step.wake()

    def _stream(self, host: str, argv: tuple[str, ...], stdin: bytes, limit_s: float | None) -> HostStream:
        del limit_s  # a task has connected already, and a step has its own limit
        with self._beginning:
            if host not in self._tasks and host not in self._absent:
                self._begin_steps(self._gathered(host))
            task, why = self._tasks.pop(host, None), self._absent.pop(host, "")
        if task is None:
            raise HostUnreachable(host, _STEP, why or "the testbench is closing")
        task.begin(argv, stdin)
        return task

    def _gathered(self, host: str) -> list[str]:
        """
        Return all hosts that are asked for now: the first requests of a run go to every host, one after the other.
        """
        self._asked.setdefault(host, time.monotonic())
        while time.monotonic() - max(list(self._asked.values())) < _GATHER_S and not self._shut.wait(_GATHER_S / 4):
            pass
        hosts, self._asked = sorted(self._asked), {}
        self._begun |= {*hosts}
        return [name for name in hosts if name not in self._tasks]

    def _begin_steps(self, hosts: list[str]) -> None:
        """Begin one step for all hosts; if Slurm takes it back because of a node, another one without that node."""
        try:
            if self._nodes is None:
                self._nodes = frozenset(_nodes(self._job))
            self._door = self._door or TaskListener(_ports())
        except (ExecutorError, ToolError, OSError) as exc:
            self._absent |= dict.fromkeys(hosts, str(exc))
            return
        self._absent |= {host: f"no node of job {self._job}" for host in hosts if host not in self._nodes}
        left = [host for host in hosts if host in self._nodes]
        for _ in range(_TRIES):
            if not left or self._shut.is_set():
                return
            try:
                step = SlurmStep(
                    slurm.step(self._job, left, self._options, task_argv(self._door.port)), self._door, left
                )
            except (OSError, ValueError) as exc:
                self._absent |= dict.fromkeys(left, f"srun: {exc}")
                return
            self._steps.append(step)
            met, absent = step.connected_tasks(self._shut)
            self._tasks |= met
            self._absent |= absent
            left = [host for host in left if host not in {*met, *absent}]
        self._absent |= dict.fromkeys(left, f"Slurm took back {_TRIES} steps because of other nodes")


def _nodes(job: str) -> Sequence[str]:
    answer = run_here(slurm.job_nodes(job), _ANSWER_S)
    try:
        return slurm.nodes_of_job(job, answer.stdout, answer.stderr, answer.exit_status)
    except ToolError as exc:
        raise ToolError(f"Slurm job {job}: {exc}") from exc


def _ports() -> range:
    answer = run_here(slurm.SHOW_CONFIG, _ANSWER_S)
    need_success("scontrol", answer.stdout, answer.stderr, answer.exit_status)
    return slurm.srun_ports(answer.stdout)


class TaskListener:
    """The socket to which the tasks of steps connect; sends away whoever does not know the present step's secret."""

    def __init__(self, ports: range) -> None:
        self._listener = _listening(ports)
        self.port = int(self._listener.getsockname()[1])
        self._greeters = Workers(_GREETERS)
        self._step: SlurmStep | None = None
        self._thread = threading.Thread(target=self._accept, name="fabric door", daemon=True)
        self._thread.start()

    def opens_for(self, step: SlurmStep | None) -> None:
        """Let in the tasks of this step only; of none for None."""
        self._step = step

    def close(self) -> None:
        """Let nobody in any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(GRACE_S)
        self._greeters.join(ANSWER_S)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except ConnectionError:
                continue
            except OSError:
                return  # it was closed
            self._greeters.submit(partial(self._greet, sock))

    def _greet(self, sock: socket.socket) -> None:
        """Let a connection in if it proves that it knows the step's secret; prove that we know it, too."""
        step = self._step
        try:
            sock.settimeout(ANSWER_S)
            notice_loss(sock)
            salt = secrets.token_hex(16)
            sock.sendall(f"{salt}\n".encode("ascii"))
            host, their_salt, theirs = received_line(sock).split(" ")
            if step is None or not compare_digest(theirs, proof(step.secret, "task", salt, host)):
                raise ValueError(host)
            sock.sendall(f"{proof(step.secret, 'orchestrator', their_salt, host)}\n".encode("ascii"))
        except (OSError, ValueError):
            sock.close()
        else:
            step.let_in(host, sock)


def _listening(ports: range) -> socket.socket:
    """Return a listener on every address of this machine; OSError when no port of the site's range is free."""
    six = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if six else socket.AF_INET
    problem: OSError | None = None
    for port in random.sample(ports, len(ports)) or [0]:
        try:
            return socket.create_server(("", port), family=family, backlog=4096, dualstack_ipv6=six)
        except OSError as exc:
            problem = exc
    raise OSError(f"no port of SrunPortRange {ports.start}-{ports.stop - 1} is free here: {problem}")


class SlurmStep:
    """One srun, and the tasks of its step that have connected."""

    def __init__(self, argv: tuple[str, ...], door: TaskListener, hosts: Iterable[str]) -> None:
        self.secret = secrets.token_hex(32)
        self._hosts, self._door = frozenset(hosts), door
        self._met: dict[str, _TaskStream] = {}
        self._changed = threading.Condition()
        self._complaints: deque[str] = deque(maxlen=_KEPT_LINES)
        self._over = False
        door.opens_for(self)
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self._srun = subprocess.Popen(argv, stdin=pipe, stdout=null, stderr=pipe, start_new_session=True)
        self._reader = threading.Thread(target=self._read, name="fabric srun", daemon=True)
        self._reader.start()
        assert self._srun.stdin is not None
        with contextlib.suppress(OSError):  # if it does not read it has ended, which is noticed later
            self._srun.stdin.write(task_program() + f"{self.secret}\n".encode("ascii"))
            self._srun.stdin.close()

    def connected_tasks(self, shut: threading.Event) -> tuple[Mapping[str, _TaskStream], Mapping[str, str]]:
        """
        Wait for all tasks to connect; return those that did, and for each absent host why it has none.

        A host in neither can be tried again: Slurm took the step back because of other hosts.
        """
        until_s = time.monotonic() + WHOLE_S
        with self._changed:
            self._changed.wait_for(
                lambda: shut.is_set() or len(self._met) == len(self._hosts) or self._over, until_s - time.monotonic()
            )
            self._door.opens_for(None)
            met, absent = dict(self._met), self._hosts - {*self._met}
        if not absent or shut.is_set():
            return met, dict.fromkeys(absent, "the testbench is closing")
        if not self._over:
            return met, dict.fromkeys(
                absent, f"its task did not connect to us within {WHOLE_S:g} s{self._last_complaint()}"
            )
        for task in met.values():
            task.close()
        failed = slurm.not_launched("\n".join(self._complaints))
        failed = {host: f"Slurm cannot begin a step there: {why}" for host, why in failed.items() if host in absent}
        return {}, failed or dict.fromkeys(
            self._hosts, f"srun ended with {self._srun.returncode}{self._last_complaint()}"
        )

    def let_in(self, host: str, sock: socket.socket) -> None:
        """Keep the connection of a task."""
        with self._changed:
            if host in self._hosts and host not in self._met:
                self._met[host] = _TaskStream(host, sock, self)
            else:
                sock.close()
        self.wake()

    def wake(self) -> None:
        """Notify ``connected_tasks`` that something happened."""
        with self._changed:
            self._changed.notify_all()

    def last_line_of(self, host: str) -> str:
        """Return the last line of srun about a host's task; empty when there is none."""
        return next((line for line in reversed(list(self._complaints)) if f" {host}: " in f" {line}"), "")

    def close(self) -> None:
        """Wait until its tasks have ended; kill srun if it stays."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):  # 0 sends no signal
            self._srun.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._srun.wait(GRACE_S)
                break
        self._reader.join(GRACE_S)

    def _last_complaint(self) -> str:
        last = [line for line in self._complaints if line.startswith("srun: error: ")] or list(self._complaints)
        return f"; it said: {last[-1][:200]}" if last else ""

    def _read(self) -> None:
        """Collect srun's stderr until it ends."""
        assert self._srun.stderr is not None
        with self._srun.stderr as stderr:
            for line in iter(lambda: stderr.readline(_CHUNK_BYTES), b""):
                self._complaints.append(line.decode("utf-8", "replace").strip())
        self._srun.wait()
        self._over = True
        self.wake()


class _TaskStream(HostStream):
    """The connection of one task, which becomes the program that it is told to run."""

    def __init__(self, host: str, sock: socket.socket, step: SlurmStep) -> None:
        self._host, self._sock, self._step = host, sock, step
        self._given_up = ""

    def begin(self, argv: tuple[str, ...], stdin: bytes) -> None:
        """Have the task become *argv* and read *stdin*; raises HostUnreachable."""
        try:
            self._sock.sendall(json.dumps(argv).encode("ascii") + b"\n" + stdin)
            self._sock.setblocking(False)
        except OSError as exc:
            self._sock.close()
            raise HostUnreachable(self._host, "starting a program", f"the task in Slurm has ended: {exc}") from exc

    def fds(self) -> tuple[int, ...]:
        """Return the socket."""
        return (self._sock.fileno(),) if self._sock.fileno() >= 0 else ()

    def write(self, data: bytes) -> int:
        """Send what the socket takes."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0

    def read(self) -> tuple[bytes, bytes] | None:
        """Return a piece of stdout; stderr goes to srun."""
        try:
            data = self._sock.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return b"", b""
        except OSError:
            data = b""
        return (data, b"") if data else None

    def end(self) -> None:
        """Send the end of stdin."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def alive(self) -> bool:
        """Return whether the other side is still connected."""
        try:
            return self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def epitaph(self, program: str) -> str:
        """Return why it was given up, or what srun said about it."""
        return (
            self._given_up or f"{program} hung up; srun says: {self._step.last_line_of(self._host) or 'nothing of it'}"
        )

    def abandon(self, why: str) -> None:
        """Cut the connection, which ends the program on the host."""
        self._given_up = self._given_up or why
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection: the program on the host sees the end of its stdin."""
        self.end()
        self._sock.close()
