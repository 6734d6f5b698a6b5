"""Starts the agent's programs, each in a session of its own, and ends whole sessions; runs commands.

A command's output is capped, its deadlines are kept, and it ends only when its whole session has ended.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import ctypes
import errno
import mmap
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HANDLED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
_DEFAULT = (*_HANDLED, signal.SIGPIPE, signal.SIGXFSZ)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHILDREN = "/proc/{0}/task/{0}/children"  # kernels may lack it (CONFIG_PROC_CHILDREN)
_SLOTS = 1024
"""Sessions that can be reported at once; choice: more than the commands an agent runs at once."""
_SLOT_BYTES = 4
_MOST_FILES = 1024  # more than an agent was born with
_KEEPER_END_S = 4.0
_KEEPER_LOOK_S = 0.02


class Sessions:
    """Starts programs, each the leader of a session, and finds what is left of a session."""

    def __init__(self) -> None:
        self.environment = dict(os.environb)
        self.environment[b"LC_ALL"] = b"C"  # tools must speak the language in which they are read
        self._prctl: Any = None
        self._adopts = False
        try:
            self._prctl = ctypes.CDLL(None).prctl
            adopts = self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
            self._adopts = adopts and os.access(_CHILDREN.format(os.getpid()), os.R_OK)
        except (OSError, AttributeError, ValueError):
            return  # no such call: look for what is left in all of /proc

    def spawn(self, argv: "list[bytes]", env: "dict[bytes, bytes]") -> "tuple[int, int, int]":
        """
        Start a program with empty stdin; return its pid, which is its session's id, and the pipes to read its output.
        """
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        # A signal between fork and exec would run our handlers in the child, and wake the parent.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                self._become(argv, env, out_w, err_w)
        except OSError:
            os.close(out_r)
            os.close(err_r)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
            os.close(out_w)
            os.close(err_w)
        os.set_blocking(out_r, False)
        os.set_blocking(err_r, False)
        return pid, out_r, err_r

    def _become(self, argv: "list[bytes]", env: "dict[bytes, bytes]", out_fd: int, err_fd: int) -> None:
        """Become the program, in the child; end the process with a shell's status if there is no such program."""
        status = 126
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out_fd, 1)
            os.dup2(err_fd, 2)
            signal.set_wakeup_fd(-1)
            for number in _DEFAULT:
                signal.signal(number, signal.SIG_DFL)
            if self._prctl is not None:
                self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
            os.execvpe(argv[0], argv, env)
        except OSError as exc:
            status = 127 if exc.errno in (errno.ENOENT, errno.ENOTDIR) else 126
            os.write(2, argv[0] + b": " + str(exc.strerror).encode() + b"\n")
        finally:
            os._exit(status)

    def left(self, session: int) -> bool:
        """Return whether anything is left of a session whose leader has been reaped."""
        if not self._adopts:
            return bool(members({session})[session])
        # We adopt orphans: the topmost process of what is left is now our child, and is itself in the session, because
        # nobody ever joins a session from outside. So looking at our children is enough.
        children = slurped(_CHILDREN.format(os.getpid())).split()
        return any(_session(int(pid)) == session for pid in children)


def members(sessions: "set[int]") -> "dict[int, list[int]]":
    """Return the living processes of each session, from /proc; zombies are dead."""
    found = {session: [] for session in sessions}  # type: dict[int, list[int]]
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            session = _session(int(name))
            if session in found:
                found[session].append(int(name))
    return found


def killed(pids: "list[int]", number: int) -> None:
    """Send a signal to processes, some of which may have gone."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def shell_status(status: int) -> int:
    """Return waitpid's status as a shell reports it: 128 + N for a program ended by signal N."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _session(pid: int) -> int:
    """Return the session of a living process, -1 for one that is dead or gone."""
    stat = slurped(f"/proc/{pid}/stat")
    words = stat[stat.rfind(b")") + 1 :].split(None, 4)
    return int(words[3]) if len(words) > 4 and words[0] not in (b"Z", b"X") else -1


def slurped(path: str, most: int = 1 << 16) -> bytes:
    """Return a file's first bytes, empty if it cannot be read; files of /proc come in many small reads."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    pieces, size = [], 0
    try:
        while size < most:
            piece = os.read(fd, 1 << 16)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    except OSError:
        return b""
    finally:
        os.close(fd)
    return b"".join(pieces)


def printable(text: str) -> str:
    """Return a text in ASCII: what is no valid Unicode would be no valid JSON."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


class Keeper:
    """
    A process that outlives the agent for a moment: if the agent is killed, it kills what the agent had begun.

    The kernel ends the leader of each session with the agent (PR_SET_PDEATHSIG), but not the leader's own children.
    Create it before the agent opens anything: it must hold none of the agent's files open, because readers wait for
    their end.
    """

    def __init__(self) -> None:
        shared = mmap.mmap(-1, _SLOTS * _SLOT_BYTES)  # takes no memory until it is used
        self._sessions = memoryview(shared).cast("I")
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
        """Note a session that must end with the agent; sessions beyond _SLOTS are not noted."""
        if self._free:
            slot = self._slots[session] = self._free.pop()
            self._sessions[slot] = session

    def ended(self, session: int) -> None:
        """Forget a session that is over, because its number may come to mean another."""
        slot = self._slots.pop(session, None)
        if slot is not None:
            self._sessions[slot] = 0
            self._free.append(slot)

    def _keep(self, agent_gone: int) -> None:
        """
        Wait for the agent's end, then kill what is left, for _KEEPER_END_S at most. Runs in the keeper's own process.
        """
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, agent_gone)
        os.closerange(agent_gone + 1, _MOST_FILES)
        os.read(agent_gone, 1)
        sessions = set(self._sessions) - {0}
        until_s = time.monotonic() + _KEEPER_END_S
        while sessions and time.monotonic() < until_s:
            left = [pid for pids in members(sessions).values() for pid in pids]
            if not left:
                return
            killed(left, signal.SIGKILL)
            time.sleep(_KEEPER_LOOK_S)  # nothing tells when a process that is not our child has gone


CHUNK_BYTES = 32 << 10
"""Output is handed on in pieces of about this size; less is kept until the end."""
_READ_BYTES = 64 << 10
_TERM_S = 2.0  # seconds that a session gets after TERM, and again after KILL
_LOOK_S = 0.1


class Output:
    """One output stream of a command: kept up to a cap, read to its end beyond it, in bounded memory."""

    def __init__(self, name: str, fd: int, cap: int) -> None:
        self.name, self.fd, self.cap = name, fd, cap
        self.kept = b""
        self.cut = False

    def read(self) -> bool:
        """Read what is there; return False when there was nothing. Closes itself at the end of the stream."""
        if self.fd < 0:
            return False
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self.cut = self.cut or len(data) > self.cap
        self.kept += data[: self.cap]
        self.cap -= len(data[: self.cap])
        return True

    def taken(self) -> str:
        """Return and clear what was kept, with one character for each byte."""
        data, self.kept = self.kept, b""
        return data.decode("latin-1")

    def close(self) -> None:
        """Close the pipe; safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Running:
    """
    A command from its start to its end; ``step`` returns when it wants to be called again.

    *why* it ended: "ended" by itself, "deadline", "cancelled" or "stuck" (survived KILL).
    """

    def __init__(self, asked: "dict[str, Any]", sessions: Sessions) -> None:
        self.key = asked["id"]
        self.why = "ended"
        self.status = None  # type: int | None
        self.begun_s = self.ended_s = 0.0
        self.outputs = []  # type: list[Output]
        self.over = False
        self.pid = 0
        self._asked, self._sessions = asked, sessions
        self._port = asked.get("port")  # in hex, as /proc/net/tcp has it, until it is listened on
        self._deadline_s = 0.0
        self._signals = []  # type: list[int]
        self._next_signal_s = 0.0

    def begin(self) -> None:
        """Start the program; raises OSError when no process can be made."""
        asked = self._asked
        env = dict(self._sessions.environment)
        env.update((_bytes(name), _bytes(value)) for name, value in asked.get("env") or ())
        if self._port and listening({self._port}):
            self._port = None  # somebody else's listener
        self.pid, out_fd, err_fd = self._sessions.spawn([_bytes(word) for word in asked["argv"]], env)
        self.begun_s = time.monotonic()
        self._deadline_s = self.begun_s + asked["timeout"]
        self.outputs = [Output("out", out_fd, asked["cap"]), Output("err", err_fd, asked["cap"])]

    @property
    def awaited_port(self) -> "str | None":
        """The port whose listener will make it ready; None once that is known or it is being ended."""
        return None if self._signals else self._port

    def became_ready(self, ports: "set[str]") -> bool:
        """Return True once: when its port is among those listened on."""
        if self._port in ports:
            self._port = None
            return True
        return False

    def reaped(self, status: int) -> None:
        """Note that the program has ended; what it left behind is ended too."""
        self.status, self.ended_s = shell_status(status), time.monotonic()
        if self._signals:
            return
        if self._sessions.left(self.pid):
            self.end("ended")
        else:
            self.over = True

    def end(self, why: str) -> None:
        """Begin to end the session, unless that is under way."""
        if self._signals or self.over:
            return
        self.why = why
        self._signals = [signal.SIGTERM, signal.SIGKILL, 0]
        self._next_signal_s = 0.0

    def step(self, now_s: float) -> float:
        """Enforce the deadline; return when to be called again."""
        if self._signals:
            return now_s + _LOOK_S
        if now_s >= self._deadline_s:
            self.end("deadline")
        return self._deadline_s

    @property
    def ending(self) -> bool:
        """True while its session is being ended."""
        return bool(self._signals) and not self.over

    def strike(self, left: "list[int]", now_s: float) -> None:
        """Send the next signal to the processes *left* in the session, when it is due; over when none is left."""
        if not left:
            self.over = self.status is not None
        elif now_s >= self._next_signal_s:
            number = self._signals.pop(0)
            if number == 0:
                self.why, self.over = "stuck", True
                return
            self._next_signal_s = now_s + _TERM_S
            killed(left, number)
        elif self._signals[0] == 0:
            killed(left, signal.SIGKILL)  # also processes that were forked since


def listening(wanted: "set[str]") -> "set[str]":
    """Return which of these TCP ports (four hex digits) somebody listens on."""
    found = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in slurped(path, 1 << 24).decode("ascii", "replace").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == "0A":
                found.add(words[1].rpartition(":")[2])
    return found & wanted


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
