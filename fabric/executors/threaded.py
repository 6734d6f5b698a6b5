"""What the executors on real machines share: a thread for each running command, and one queue of happenings."""

from __future__ import annotations

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable, SessionLost
from fabric.executors.heard import Heard
from fabric.executors.mailbox import Mailbox
from fabric.executors.pipe import Pipe
from fabric.executors.remote_shell import environed, shell_argv
from fabric.executors.start_time import begins_s, check_start
from fabric.executors.watchdog import Watchdog
from fabric.model.command import Command, CommandResult
from fabric.ports import Ended, Happening, Lost, Ready, Ticket

# The wrapper needs up to 4 s to end a session (2 s after TERM, 2 s after KILL); the rest is for the way.
GRACE_S = 6.0
_SLICE_S = 5.0  # a reader looks up this often even if no data wakes it


class _Running:
    """One started command, and how far it has come."""

    def __init__(self, ticket: Ticket, command: Command) -> None:
        self.ticket, self.command = ticket, command
        self.lock = threading.Lock()
        self.pipe: Pipe | None = None  # set once the command has begun
        self.cancelled = False
        self.woken = threading.Event()  # a start that was waited for is cancelled
        self.inactive = False  # ended because it said nothing for its inactivity_s
        self.thread: threading.Thread | None = None


class ThreadedExecutor(ABC):
    """An Executor whose commands run under the sh wrapper behind a Pipe; subclasses say how to open one."""

    def __init__(self) -> None:
        self.tell: Callable[[Happening], None] = self._happened
        """Whom what happens is told, from any thread: ``wait``, unless somebody else wants to know."""
        self._mailbox = Mailbox()
        self._running: dict[Ticket, _Running] = {}
        self._lock = threading.Lock()
        self._watchdog = Watchdog()
        self._tickets = 0
        self._closed = False

    @abstractmethod
    def _open(self, command: Command) -> Pipe:
        """Make the way to a host ready, within a bounded time; raises HostUnreachable."""

    def _let_go(self) -> None:
        """Close what outlives single commands; called by ``close``, and interrupts every ``_open``."""
        return

    def now(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def start(self, command: Command) -> Ticket:
        """Begin a command in a thread of its own; raises ValueError for one that no host could run."""
        environed(command)
        check_start(command, self.now())
        if self._closed:
            raise ValueError("the executor is closed")
        self._tickets += 1
        self.carry(self._tickets, command)
        return self._tickets

    def carry(self, ticket: Ticket, command: Command) -> None:
        """Begin a command under a ticket of the caller's choice; for who gives out all tickets himself."""
        running = _Running(ticket, command)
        running.thread = threading.Thread(target=self._carry, args=(running,), name=_thread_name(command), daemon=True)
        with self._lock:
            self._running[running.ticket] = running
        running.thread.start()

    def _happened(self, happening: Happening) -> None:
        self._mailbox.put((happening,))

    def cancel(self, ticket: Ticket) -> None:
        """Tell the wrapper to end the command; its Ended or Lost still arrives."""
        with self._lock:
            running = self._running.get(ticket)
        if running is None:
            return
        with running.lock:
            running.cancelled = True
            running.woken.set()
            pipe = running.pipe
        if pipe is not None:
            self._end(running, pipe)

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Block until something happened or the clock reads *until_s*; return all that happened, oldest first."""
        return self._mailbox.wait(until_s)

    def wake(self) -> None:
        """Let ``wait`` return; a signal handler may ask for it."""
        self._mailbox.wake()

    def close(self) -> None:
        """End every command, wait until the hosts say so or their time is over, then let go of all connections."""
        self._closed = True
        with self._lock:
            left = list(self._running.values())
        for running in left:
            self.cancel(running.ticket)
        begun = [running for running in left if running.pipe is not None]
        self._join(begun, until_s=self.now() + GRACE_S)
        self._let_go()
        self._join(left, until_s=self.now() + GRACE_S)
        self._watchdog.close()

    def _join(self, running: Sequence[_Running], *, until_s: float) -> None:
        for one in running:
            if one.thread is not None:
                one.thread.join(timeout=max(0.0, until_s - self.now()))

    def _end(self, running: _Running, pipe: Pipe) -> None:
        pipe.end()
        why = f"{running.command.argv[0]} did not end within {GRACE_S:g} s of being cancelled"
        self._watchdog.arm(running.ticket, self.now() + GRACE_S, lambda: pipe.abort(why))

    def _carry(self, running: _Running) -> None:
        """A command's whole life; whatever becomes of it, exactly one Ended or Lost is told."""
        happening: Happening | None = None
        command = running.command
        try:
            happening = Ended(running.ticket, self._result(running))
        except ExecutorError as exc:
            happening = Lost(running.ticket, exc, self.now())
        finally:
            if happening is None:  # a defect of ours; its traceback goes to threading.excepthook
                defect = HostUnreachable(command.host, f"running {command.argv[0]}", "the testbench itself failed")
                happening = Lost(running.ticket, defect, self.now())
            with self._lock:
                del self._running[running.ticket]
            self.tell(happening)

    def _result(self, running: _Running) -> CommandResult:
        pipe = self._open(running.command)
        try:
            return self._conversation(running, pipe)
        finally:
            self._watchdog.disarm(running.ticket)
            pipe.close()

    def _conversation(self, running: _Running, pipe: Pipe) -> CommandResult:
        command, nonce = running.command, f"fabric-{secrets.token_hex(16)}"
        running.woken.wait(begins_s(command, self.now()) - self.now())
        if running.cancelled:
            raise HostUnreachable(command.host, f"starting {command.argv[0]}", "cancelled before it began")
        started_s = self.now()
        limit_s = command.timeout_s + GRACE_S
        silent = f"the host said nothing within {limit_s:g} s, {GRACE_S:g} s beyond the command's own deadline"
        self._watchdog.arm(running.ticket, started_s + limit_s, lambda: pipe.abort(silent))
        pipe.begin(shell_argv(command, nonce))
        with running.lock:
            running.pipe = pipe
            cancelled = running.cancelled
        if cancelled:
            self._end(running, pipe)
        heard = self._listen(running, pipe, Heard(command, nonce))
        _raise_unless_ended(heard, command, cancelled=running.cancelled or running.inactive, epitaph=pipe.epitaph)
        if running.inactive and "closed" in heard.words:
            raise CommandTimeout(
                command.host, command.timeout_s, heard.stdout, heard.stderr, inactivity_s=command.inactivity_s
            )
        return CommandResult(
            command=command,
            exit_status=int(heard.words[-1].removeprefix("end ")),
            stdout=heard.stdout,
            stderr=heard.stderr,
            started_s=started_s,
            ended_s=self.now(),
            truncated=heard.truncated,
        )

    def _listen(self, running: _Running, pipe: Pipe, heard: Heard) -> Heard:
        """Drain both streams until the last word has come, or nothing will come any more."""
        while not heard.finished and (arrived := self._read(running, pipe)) is not None:
            if "ready" in heard.add(*arrived):
                self.tell(Ready(running.ticket, self.now()))
        return heard

    def _read(self, running: _Running, pipe: Pipe) -> tuple[bytes, bytes] | None:
        """One read; a command that says nothing for its inactivity limit is ended."""
        limit_s = running.command.inactivity_s
        if limit_s is None or running.inactive:
            return pipe.read(_SLICE_S)
        until_s = self.now() + limit_s
        while (remaining_s := until_s - self.now()) > 0:
            arrived = pipe.read(min(_SLICE_S, remaining_s))
            if arrived is None or any(arrived):
                return arrived
        running.inactive = True
        self._end(running, pipe)
        return b"", b""


def _thread_name(command: Command) -> str:
    return f"fabric {command.host} {command.argv[0]}"


def _raise_unless_ended(heard: Heard, command: Command, *, cancelled: bool, epitaph: Callable[[], str]) -> None:
    """Raise what the wrapper's words mean, unless they mean that the command ended by itself or was cancelled."""
    words, tool = heard.words, command.argv[0]
    if not heard.finished:
        said = "" if words else _first_line(heard.stderr or heard.stdout)
        lost = SessionLost if words else HostUnreachable  # without a word of the wrapper, nothing ever ran
        raise lost(command.host, f"waiting for {tool}", epitaph() + (f"; it said: {said}" if said else ""))
    if "deadline" in words:
        raise CommandTimeout(command.host, command.timeout_s, heard.stdout, heard.stderr)
    if words[-1] == "stuck":
        raise HostUnreachable(command.host, f"ending {tool}", "its processes survive SIGKILL; they hang in the kernel")
    broken = next((word for word in words if word.startswith("broken ")), None)
    if broken is not None:
        status = broken.removeprefix("broken ")
        raise HostUnreachable(command.host, f"running {tool}", f"'timeout' or 'cat' on the host failed ({status})")
    if "closed" in words and not cancelled:
        cause = "stdin was closed on the way; what carries the command must keep it open (kubectl exec: -i)"
        raise HostUnreachable(command.host, f"running {tool}", cause)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
