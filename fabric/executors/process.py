"""Hosts reached by a local process: this machine, a network namespace, a pod: an argv prefix carries the agent."""

from __future__ import annotations

from collections.abc import Callable

from fabric.executors.agent_executor import AgentExecutor
from fabric.executors.process_plain import ProcessPlainExecutor
from fabric.executors.process_stream import ProcessStream
from fabric.executors.stream import Stream


class ProcessExecutor(AgentExecutor):
    """Runs commands behind *prefix*, ``{host}`` replaced in it; without prefix the host is this machine."""

    def __init__(self, prefix: tuple[str, ...] = ()) -> None:
        super().__init__(ProcessPlainExecutor(prefix))
        self._prefix = prefix

    def _stream(self, host: str, argv: tuple[str, ...], arrived: Callable[[], None]) -> Stream:
        del arrived  # it has descriptors
        return ProcessStream(host, tuple(word.replace("{host}", host) for word in self._prefix) + argv)
