"""
Hosts of a Slurm job: one step of it, begun by one srun, starts the agents of all hosts, and each connects to us.

Slurm's own tree carries the step to the hosts. The agents meet us at a door (a listening socket) at the address that
srun's own connections come to: a stream for each host, so that none waits for another.
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
from fabric.hosts.stream import GRACE_S, HostStream, Order, notice_loss, raise_file_limit
from fabric.hosts.threads import Workers
from fabric.ports import Ticket
from fabric.tools import slurm
from fabric.tools.driver import need_success

WHOLE_S = 90.0
"""A step has so long until all of its tasks have met us; choice: srun gives up a node that is away after 10 s."""
_GATHER_S = 0.1
"""Hosts that are asked for within so long of each other go into one step; choice."""
_TRIES = 3  # of a step that Slurm takes back because of a node: without it, once more
_ANSWER_S = 30.0  # for one answer of Slurm's own commands; choice
_GREETERS = 16  # tasks that are met at once; a stranger who says nothing keeps one for ANSWER_S
_KEPT_LINES = 500  # of what srun complains about
_CHUNK_BYTES = 256 << 10
_STEP = "beginning a step"


class SlurmExecutor(AgentExecutor):
    """Runs commands on the hosts of Slurm job *job*, in one step for all that are asked for at once."""

    _plain = False

    def __init__(self, job: str, options: Sequence[str] = ()) -> None:
        super().__init__()
        self._job, self._options = job, tuple(options)
        self._nodes: frozenset[str] | None = None
        self._asked: dict[str, float] = {}  # hosts that no step has been begun for, and since when
        self._begun: set[str] = set()
        self._door: Door | None = None
        self._steps: list[SlurmStep] = []
        self._beginning = threading.Lock()
        self._shut = threading.Event()
        # Who holds the lock has these: tasks that wait for their first word, and hosts for which there is none.
        self._tasks: dict[str, _TaskStream] = {}
        self._without: dict[str, str] = {}
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

    def _order(self, order: Order) -> Ticket:
        ticket = super()._order(order)
        if order.host not in self._begun:
            self._asked.setdefault(order.host, time.monotonic())
        return ticket

    def _interrupt(self) -> None:
        self._shut.set()
        for step in list(self._steps):
            step.wake()

    def _stream(self, host: str, argv: tuple[str, ...], stdin: bytes, limit_s: float | None) -> HostStream:
        del limit_s  # a task has met us already, and a step has a time of its own
        with self._beginning:
            if host not in self._tasks and host not in self._without:
                self._begin_steps(self._gathered(host))
            task, why = self._tasks.pop(host, None), self._without.pop(host, "")
        if task is None:
            raise HostUnreachable(host, _STEP, why or "the testbench is closing")
        task.begin(argv, stdin)
        return task

    def _gathered(self, host: str) -> list[str]:
        """All hosts that are asked for: the first order of a run goes to every host, one after the other."""
        self._asked.setdefault(host, time.monotonic())
        while time.monotonic() - max(list(self._asked.values())) < _GATHER_S and not self._shut.wait(_GATHER_S / 4):
            pass
        hosts, self._asked = sorted(self._asked), {}
        self._begun |= {*hosts}
        return [name for name in hosts if name not in self._tasks]

    def _begin_steps(self, hosts: list[str]) -> None:
        """One step for all; where Slurm takes it back because of a node, one more for the others."""
        try:
            if self._nodes is None:
                self._nodes = frozenset(_nodes(self._job))
            self._door = self._door or Door(_ports())
        except (ExecutorError, ToolError, OSError) as exc:
            self._without |= dict.fromkeys(hosts, str(exc))
            return
        self._without |= {host: f"no node of job {self._job}" for host in hosts if host not in self._nodes}
        left = [host for host in hosts if host in self._nodes]
        for _ in range(_TRIES):
            if not left or self._shut.is_set():
                return
            try:
                step = SlurmStep(
                    slurm.step(self._job, left, self._options, task_argv(self._door.port)), self._door, left
                )
            except (OSError, ValueError) as exc:
                self._without |= dict.fromkeys(left, f"srun: {exc}")
                return
            self._steps.append(step)
            met, absent = step.met(self._shut)
            self._tasks |= met
            self._without |= absent
            left = [host for host in left if host not in {*met, *absent}]
        self._without |= dict.fromkeys(left, f"Slurm took back {_TRIES} steps because of other nodes")


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


class Door:
    """Where the tasks of steps meet us; who does not know the secret of the step that is being begun is sent away."""

    def __init__(self, ports: range) -> None:
        self._listener = _listening(ports)
        self.port = int(self._listener.getsockname()[1])
        self._greeters = Workers(_GREETERS)
        self._step: SlurmStep | None = None
        self._thread = threading.Thread(target=self._accept, name="fabric door", daemon=True)
        self._thread.start()

    def opens_for(self, step: SlurmStep | None) -> None:
        """Let in the tasks of this step, and of no other."""
        self._step = step

    def close(self) -> None:
        """Let in nobody any more."""
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
        """Whom it lets in knows the step's secret, and so do we."""
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
    """A listener on every address of this machine; OSError where no port of the site's range is free."""
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
    """One srun, and the tasks of its step that have met us."""

    def __init__(self, argv: tuple[str, ...], door: Door, hosts: Iterable[str]) -> None:
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
        with contextlib.suppress(OSError):  # who does not read has ended, and will be seen to
            self._srun.stdin.write(task_program() + f"{self.secret}\n".encode("ascii"))
            self._srun.stdin.close()

    def met(self, shut: threading.Event) -> tuple[Mapping[str, _TaskStream], Mapping[str, str]]:
        """
        The tasks once all have met us, and why there is none on which host.

        A host that is in neither can be tried again: Slurm took back the step because of others.
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
        """A task has met us."""
        with self._changed:
            if host in self._hosts and host not in self._met:
                self._met[host] = _TaskStream(host, sock, self)
            else:
                sock.close()
        self.wake()

    def wake(self) -> None:
        """Something happened."""
        with self._changed:
            self._changed.notify_all()

    def last_line_of(self, host: str) -> str:
        """What srun said last of a host's task; empty where it said nothing."""
        return next((line for line in reversed(list(self._complaints)) if f" {host}: " in f" {line}"), "")

    def close(self) -> None:
        """Wait until its tasks have ended, and end it if it stays."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):  # 0 is none
            self._srun.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._srun.wait(GRACE_S)
                break
        self._reader.join(GRACE_S)

    def _last_complaint(self) -> str:
        last = [line for line in self._complaints if line.startswith("srun: error: ")] or list(self._complaints)
        return f"; it said: {last[-1][:200]}" if last else ""

    def _read(self) -> None:
        """Its complaints, until it has ended."""
        assert self._srun.stderr is not None
        with self._srun.stderr as stderr:
            for line in iter(lambda: stderr.readline(_CHUNK_BYTES), b""):
                self._complaints.append(line.decode("utf-8", "replace").strip())
        self._srun.wait()
        self._over = True
        self.wake()


class _TaskStream(HostStream):
    """The connection of one task that has met us, which becomes the program that it is told."""

    def __init__(self, host: str, sock: socket.socket, step: SlurmStep) -> None:
        self._host, self._sock, self._step = host, sock, step
        self._given_up = ""

    def begin(self, argv: tuple[str, ...], stdin: bytes) -> None:
        """Have it become *argv* and read *stdin*; raises HostUnreachable."""
        try:
            self._sock.sendall(json.dumps(argv).encode("ascii") + b"\n" + stdin)
            self._sock.setblocking(False)
        except OSError as exc:
            self._sock.close()
            raise HostUnreachable(self._host, "starting a program", f"the task in Slurm has ended: {exc}") from exc

    def fds(self) -> tuple[int, ...]:
        """The socket."""
        return (self._sock.fileno(),) if self._sock.fileno() >= 0 else ()

    def write(self, data: bytes) -> int:
        """Send what the socket takes."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0

    def read(self) -> tuple[bytes, bytes] | None:
        """One piece of stdout; stderr goes to srun."""
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
        """Whether the other side has not hung up."""
        try:
            return self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def epitaph(self, program: str) -> str:
        """Why it was given up, or what srun said of it."""
        return (
            self._given_up or f"{program} hung up; srun says: {self._step.last_line_of(self._host) or 'nothing of it'}"
        )

    def abandon(self, why: str) -> None:
        """Cut the connection, which ends the program over there."""
        self._given_up = self._given_up or why
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go: the program over there sees the end of its stdin."""
        self.end()
        self._sock.close()
