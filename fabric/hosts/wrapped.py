"""Commands without an agent: two constant sh texts run a command on a host, and its marked output is parsed here.

The texts add what a plain exec cannot promise: the command runs in a session of its own; its deadline is kept on the
host; the whole session is ended (TERM, 2 s, KILL) at the deadline, when the command ends and leaves children behind,
and when stdin closes (cancelled, connection lost, orchestrator killed); a server is reported once its port is listened
on. They report by lines that begin with a nonce which the tool cannot know. The host needs only POSIX sh, /proc and the
usual cat, env, grep, sed, setsid, sleep, timeout. No value is ever spliced into the texts: argv and everything else
arrive as positional parameters.
"""

from collections.abc import Callable

from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable, SessionLost
from fabric.hosts.stream import GRACE_S, PIECES_PER_TURN, TICK_S, Conversation, HostStream, Request, Tell, unanswered
from fabric.model.probe import Command, CommandResult
from fabric.ports import Ended, Ready

# $1 nonce, $2 deadline in seconds, $3 TCP port in hex or nothing, $4 the runner's text, then the command.
#
# One process waits for both the deadline and the end of stdin: "timeout T cat". Its exit status says which came:
# 0 stdin closed, 124 deadline (143 with busybox), 137 the runner killed it because the command ended. (Any other
# signal is lost if it comes before the forked child has dropped its parent's traps; many were.)
# Signals are trapped with ":" and not ignored, because children inherit ignored ones; and only once both are forked.
# Members of the session are found in /proc by session number: tools such as mpirun give children their own groups.
WRAPPER = r"""
nonce=$1 timeout_s=$2 port=$3 runner=$4; shift 4
exec 3>&2 2>/dev/null 4<&0 </dev/null
say() { printf '%s %s\n' "$nonce" "$1" >&3; }
say begun
listening() { cat /proc/net/tcp /proc/net/tcp6 3>&- | grep -q ": [0-9A-F]*:$port 0*:0000 0A "; }
members() { cat /proc/[0-9]*/stat 3>&- | sed -n "s/^\([0-9]*\) (.*) [^ZX] [0-9]* [0-9]* $run .*/\1/p" 3>&-; }
ended_by() {
  n=0
  while left=$(members); [ -n "$left" ]; do
    [ $n -lt 20 ] || return 1
    case $1$n in TERM0|KILL*) kill -s "$1" $left ;; esac
    n=$((n + 1)); sleep 0.1 3>&-
  done
}
[ -z "$port" ] || ! listening || port=
timeout "$timeout_s" cat <&4 >/dev/null 3>&- & watch=$!
setsid sh -c "$runner" fabric "$watch" "$@" 2>&3 3>&- 4<&- & run=$!
exec 4<&-
trap : HUP INT PIPE TERM
while [ -n "$port" ] && kill -0 "$watch"; do
  if listening; then say ready; port=; else sleep 0.1 3>&-; fi
done
wait "$watch"; why=$?
case $why in 137) ;; 0) say closed ;; 124|143) say deadline ;; *) say "broken $why" ;; esac
if ended_by TERM || ended_by KILL; then wait "$run"; last="end $?"; else last=stuck; fi
printf '%s %s\n' "$nonce" "$last"
say "$last"
"""

# $1 what to kill (a process, and the group it may lead) when the command has ended, then the command.
# The runner leads the session.
# A shell prints "Killed" about its children: its stderr is /dev/null, and only the command has the real one.
RUNNER = r"""
trap : HUP INT TERM
exec 3>&2 2>/dev/null
watch=$1; shift
(exec "$@" </dev/null 2>&3 3>&-)
status=$?; kill -s KILL -- "-$watch"; kill -s KILL "$watch"; exit $status
"""


def argv_with_env(command: Command) -> tuple[str, ...]:
    """
    Return the command as one argv, with its environment set by ``env``, in the C locale as the agent does it.

    Raises ValueError for a NUL, which no argv can hold and which would cut the argv short unnoticed.
    """
    argv = ("env", "--", "LC_ALL=C", *(f"{name}={value}" for name, value in command.env), *command.argv)
    if any("\0" in word for word in argv):
        raise ValueError(f"a NUL in the command for {command.host}: {command.argv[0]!r}")
    return argv


def shell_argv(command: Command, nonce: str) -> tuple[str, ...]:
    """Return the argv that runs *command* under the wrapper, which marks its lines with *nonce*."""
    port = "" if command.ready_port is None else f"{command.ready_port:04X}"
    timeout = f"{command.timeout_s:.3f}"
    return ("sh", "-c", WRAPPER, "fabric", nonce, timeout, port, RUNNER, *argv_with_env(command))


class WrappedCommand(Conversation):
    """One command under the wrapper; reports exactly one Ended or Lost."""

    def __init__(
        self, request: Request, stream: HostStream, nonce: str, *, tell: Tell, now: Callable[[], float]
    ) -> None:
        assert request.command is not None
        super().__init__(request.host, stream, tell=tell, now=now)
        self.request, self._command = request, request.command
        cap_bytes = self._command.output_cap_bytes
        self._out, self._err = MarkedOutput(nonce, cap_bytes), MarkedOutput(nonce, cap_bytes)
        self._started_s = now()
        self._due_s = self._started_s + self._command.timeout_s + GRACE_S
        self._cancelled = False

    def cancel(self) -> None:
        """Have the wrapper end the command; its Ended or Lost still arrives."""
        if not self._cancelled:
            self._cancelled = True
            self._due_s = min(self._due_s, self._now() + GRACE_S)
            self.stream.end()

    def arrived(self) -> bool:
        """Read output and the wrapper's words, until the last word or the end of the stream."""
        for _ in range(PIECES_PER_TURN):
            data = self.stream.read()
            if data is None:
                self.give_up(self.stream.epitaph("the command's shell"))
            elif any(data):
                self._take(*data)
            if self.failure or data is None or not any(data):
                return False
        return True

    def tick(self, now_s: float) -> float:
        """Give up a host that is silent beyond all deadlines."""
        if now_s >= self._due_s:
            self.abandon(unanswered(self.request, cancelled=self._cancelled))
        return TICK_S

    def give_up(self, why: str) -> None:
        """Report how the command ended; without the wrapper's last word it is Lost, because of *why*."""
        if self.failure:
            return
        self.failure = why
        problem = self._problem(why)
        if problem is not None:
            self._lose(self.request.ticket, problem)
            return
        status, truncated = int(self._err.words[-1].removeprefix("end ")), self._out.truncated or self._err.truncated
        times = self._started_s, self._now()
        result = CommandResult(self._command, status, self._out.text(), self._err.text(), *times, truncated)
        self._tell(Ended(self.request.ticket, result))

    def _take(self, stdout: bytes, stderr: bytes) -> None:
        known = len(self._err.words)
        self._out.add(stdout)
        self._err.add(stderr)
        if "ready" in self._err.words[known:]:
            self._tell(Ready(self.request.ticket, self._now()))
        if self._out.finished and self._err.finished:
            self.give_up("it has ended")

    def _problem(self, why: str) -> ExecutorError | None:
        """Return the error that the wrapper's words mean; None if the command ended by itself or was cancelled."""
        command, host, tool, words = self._command, self.host, self.request.tool, self._err.words
        stdout, stderr = self._out.text(), self._err.text()
        if not (self._out.finished and self._err.finished):
            first_line = "" if words else (stderr or stdout).strip().partition("\n")[0][:200]
            lost = SessionLost if words else HostUnreachable  # without a word of the wrapper, nothing ever ran
            return lost(host, f"waiting for {tool}", why + (f"; it said: {first_line}" if first_line else ""))
        if "deadline" in words:
            return CommandTimeout(host, command.timeout_s, stdout, stderr)
        if words[-1] == "stuck":
            return HostUnreachable(host, f"ending {tool}", "its processes survive SIGKILL; they hang in the kernel")
        broken = next((word for word in words if word.startswith("broken ")), None)
        if broken is not None:
            status = broken.removeprefix("broken ")
            return HostUnreachable(host, f"running {tool}", f"'timeout' or 'cat' on the host failed ({status})")
        if "closed" in words and not self._cancelled:
            cause = "stdin was closed on the way; what carries the command must keep it open (kubectl exec: -i)"
            return HostUnreachable(host, f"running {tool}", cause)
        return None


class MarkedOutput:
    """
    One output stream of a wrapped command: kept up to a cap, searched to its end in bounded memory.

    The wrapper's *words* are on lines that begin with the nonce, and are kept apart.
    """

    def __init__(self, nonce: str, cap_bytes: int) -> None:
        self._nonce, self._cap_bytes = nonce.encode("ascii"), cap_bytes
        self._kept = bytearray()
        self._rest = b""  # may be the beginning of a marked line
        self.truncated = False
        self.words: list[str] = []

    def add(self, data: bytes) -> None:
        """Split *data* into output, which is kept, and the wrapper's words."""
        data = self._rest + data
        while (start := data.find(self._nonce)) >= 0 and (end := data.find(b"\n", start)) >= 0:
            self._keep(data[:start])
            self.words.append(data[start + len(self._nonce) + 1 : end].decode("ascii", "replace"))
            data = data[end + 1 :]
        if start < 0:
            start = len(data) - self._begun_bytes(data)
        self._keep(data[:start])
        self._rest = data[start:]

    @property
    def finished(self) -> bool:
        """Whether the wrapper's last word has come, so that no output can follow."""
        return bool(self.words) and self.words[-1].startswith(("end ", "stuck"))

    def _begun_bytes(self, data: bytes) -> int:
        """Return how many of the last bytes of *data* may be the beginning of the nonce."""
        longest = min(len(data), len(self._nonce) - 1)
        return next((n for n in range(longest, 0, -1) if data.endswith(self._nonce[:n])), 0)

    def _keep(self, data: bytes) -> None:
        room = self._cap_bytes - len(self._kept)
        self._kept += data[:room]
        self.truncated = self.truncated or len(data) > room

    def text(self) -> str:
        """
        Return what was kept, with U+FFFD for bytes that are not UTF-8; an unfinished marked line counts as output.
        """
        if len(self._kept) >= self._cap_bytes:
            return self._kept.decode("utf-8", "replace")
        return (self._kept + self._rest).decode("utf-8", "replace")
