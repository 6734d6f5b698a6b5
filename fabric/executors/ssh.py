"""Hosts reached over SSH: one connection and one channel each, with an agent at its end."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Mapping

import paramiko

from fabric.agent.bundle import program
from fabric.errors import HostUnreachable
from fabric.executors.agent_executor import AgentExecutor
from fabric.executors.ssh_connection import Refused
from fabric.executors.ssh_plain import SshPlainExecutor
from fabric.executors.ssh_stream import SshStream
from fabric.executors.stream import Stream
from fabric.executors.watchdog import Watchdog
from fabric.model.inventory import SshSettings
from fabric.model.topology import Login


class SshExecutor(AgentExecutor):
    """
    Runs commands on hosts by SSH; *addresses* says where each host is, *logins* how each switch is reached.

    Host keys are checked, always. Authentication is never retried.
    """

    _final = Refused

    def __init__(
        self, settings: SshSettings, addresses: Mapping[str, str], logins: Mapping[str, Login] | None = None
    ) -> None:
        self._over_ssh = SshPlainExecutor(settings, addresses, logins)
        super().__init__(self._over_ssh)
        self._timeout_s = settings.connect_timeout_s
        self._watchdog = Watchdog()

    def close(self) -> None:
        """End every command, then let go of all connections."""
        super().close()
        self._watchdog.close()

    def _stream(self, host: str, argv: tuple[str, ...], arrived: Callable[[], None]) -> Stream:
        session = self._over_ssh.session(host, timeout_s=self._timeout_s)
        stream = SshStream(session, arrived)
        connection, channel = session.connection, session.channel
        silent = f"the host did not execute anything within {self._timeout_s:g} s"
        begun = False
        self._watchdog.arm(stream, self.now() + self._timeout_s, lambda: connection.close(silent))
        try:
            channel.exec_command(shlex.join(("exec", *argv)).encode("ascii"))
            channel.sendall(program())
            stream.lend()
            begun = True
        except (paramiko.SSHException, OSError, EOFError) as exc:
            cause = connection.epitaph() or f"the server refuses to execute ({exc})"
            raise HostUnreachable(host, "starting the agent", cause) from exc
        finally:
            self._watchdog.disarm(stream)
            if not begun:
                with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
                    stream.close()
        return stream

    def _interrupt(self) -> None:
        self._over_ssh.connector.close()
