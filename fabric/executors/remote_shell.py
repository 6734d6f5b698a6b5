"""
The two constant sh texts that carry a command on a host, whichever way the host is reached.

What a plain exec cannot promise, they do: the command runs in a session of its own; its deadline is kept on the
host; the whole session is ended (TERM, 2 s, KILL) at the deadline, when the command ends and leaves children behind,
and when stdin closes (cancelled, connection lost, orchestrator killed); a server is reported once its port is
listened on. They speak through lines led by a nonce that the tool cannot know, and need of the host only POSIX sh,
/proc and the usual cat, env, grep, sed, setsid, sleep, timeout. No value is ever spliced into them: argv and all
else arrive as positional parameters.
"""

from __future__ import annotations

from fabric.model.command import Command

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
# It leads the session.
# A shell says "Killed" of its children: it says it to /dev/null, the command alone has the real stderr.
RUNNER = r"""
trap : HUP INT TERM
exec 3>&2 2>/dev/null
watch=$1; shift
(exec "$@" </dev/null 2>&3 3>&-)
status=$?; kill -s KILL -- "-$watch"; kill -s KILL "$watch"; exit $status
"""


def environed(command: Command) -> tuple[str, ...]:
    """
    The command as one argv, its environment set by ``env``.

    Raises ValueError for a NUL, which no argv can hold and which would cut it short unseen.
    """
    argv = ("env", "--", *(f"{name}={value}" for name, value in command.env), *command.argv)
    if any("\0" in word for word in argv):
        raise ValueError(f"a NUL in the command for {command.host}: {command.argv[0]!r}")
    return argv


def shell_argv(command: Command, nonce: str) -> tuple[str, ...]:
    """The argv that runs *command* under the wrapper, which signs what it says with *nonce*."""
    port = "" if command.ready_port is None else f"{command.ready_port:04X}"
    timeout = f"{command.timeout_s:.3f}"
    return ("sh", "-c", WRAPPER, "fabric", nonce, timeout, port, RUNNER, *environed(command))
