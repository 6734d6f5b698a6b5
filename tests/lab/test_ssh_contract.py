"""The contract of executors over real SSH."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import paramiko
import pytest

from benchmarks.lab.lab import Lab
from fabric.hosts.ssh import SshExecutor
from fabric.model.inventory import SshSettings
from tests.hosts.contract import ExecutorContract

pytestmark = pytest.mark.lab


class TestSsh(ExecutorContract):
    """Commands on a host with a real sshd."""

    host = "h1"
    dead_host = "dead"

    @pytest.fixture(params=[True, False], ids=["agent", "plain"])
    def executor(
        self, request: pytest.FixtureRequest, orchestrator: Lab, settings: SshSettings
    ) -> Iterator[SshExecutor]:
        """A fresh one, with an agent and without; no thread of it or of paramiko may outlive it."""
        executor = SshExecutor(settings, orchestrator.addresses, agents=request.param)
        yield executor
        executor.close()
        left = [
            one for one in threading.enumerate() if isinstance(one, paramiko.Transport) or one.name[:7] == "fabric "
        ]
        assert left == []
