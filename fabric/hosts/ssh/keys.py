"""The user's keys for authentication: one file, or the agent's, or the usual files; loaded once for the run."""

from __future__ import annotations

import getpass
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko

from fabric.errors import HostUnreachable
from fabric.model.inventory import SshSettings

if TYPE_CHECKING:
    from paramiko.message import _LikeBytes

_USUAL_FILES = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_MOST = 5  # sshd's MaxAuthTries is 6 by default
_STEP = "reading the user's key"

Keys = tuple[tuple[str, paramiko.PKey], ...]
"""Name and key of each key to offer, in order."""


def user_name(settings: SshSettings) -> str:
    """Whom to log in as."""
    return settings.user or getpass.getuser()


def user_keys(settings: SshSettings) -> Keys:
    """Raises HostUnreachable (for no host in particular) when there is none, or the one asked for is of no use."""
    if settings.key_file is not None:
        return ((settings.key_file, _loaded(settings.key_file)),)
    found: list[tuple[str, paramiko.PKey]] = []
    if settings.agent:
        found += _agent_keys()
    if not found:
        usual = [name for name in _USUAL_FILES if Path(name).expanduser().is_file()]
        found += [(name, _loaded(name)) for name in usual]
    if not found:
        cause = "none: the agent has no key, and there is no " + ", ".join(_USUAL_FILES) + "; set ssh.key_file"
        raise HostUnreachable("every host", _STEP, cause)
    return tuple(found[:_MOST])


def key_problem(settings: SshSettings) -> str | None:
    """Why nobody could log in with these settings, before any host is asked; None when there is a key to offer."""
    try:
        close_agent(user_keys(settings))
    except HostUnreachable as exc:
        return exc.cause
    return None


def close_agent(keys: Keys) -> None:
    """Let go of the agent's socket."""
    for _, key in keys:
        if isinstance(key, _AgentKey) and isinstance(key.agent, paramiko.Agent):
            key.agent.close()


class _AgentKey(paramiko.AgentKey):
    """A key in the agent; one signature at a time, because paramiko shares one unlocked socket among all threads."""

    lock = threading.Lock()

    def sign_ssh_data(self, data: _LikeBytes, algorithm: str | None = None) -> paramiko.Message:
        """Have the agent sign."""
        with self.lock:
            return super().sign_ssh_data(data, algorithm)


def _agent_keys() -> list[tuple[str, paramiko.PKey]]:
    try:
        keys = paramiko.Agent().get_keys()
    except (OSError, paramiko.SSHException) as exc:
        raise HostUnreachable("every host", _STEP, f"the agent does not answer: {exc}") from exc
    return [(f"{key.get_name()} of the agent", _AgentKey(key.agent, key.blob, key.comment)) for key in keys]


def _loaded(name: str) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(Path(name).expanduser())
    except FileNotFoundError as exc:
        raise HostUnreachable("every host", _STEP, f"{name} does not exist") from exc
    except (paramiko.PasswordRequiredException, TypeError) as exc:  # TypeError is how cryptography asks for it
        cause = f"{name} is locked by a passphrase; add it to ssh-agent and leave ssh.key_file out"
        raise HostUnreachable("every host", _STEP, cause) from exc
    except (OSError, ValueError, paramiko.SSHException) as exc:
        raise HostUnreachable("every host", _STEP, f"{name}: {exc}") from exc
