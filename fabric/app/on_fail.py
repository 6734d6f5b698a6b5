"""``--on-fail``: a command, or a URL, that is told when the fabric is bad; it never holds up or fails a run."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from fabric.errors import ConfigError
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import ProbeResult
from fabric.plan.plan import PhasePlan
from fabric.report.output import jsonable

TIMEOUT_S = 60.0
"""So long may a command take; a URL a sixth of it. A run that ends waits no longer than ``PATIENCE_S`` (choices)."""

PATIENCE_S = 10.0


class OnFail:
    """
    Tells *target* of the first failure while a run goes on, and of the whole verdict at its end.

    A command gets the JSON on standard input, a URL as the body of a POST. *say* is told where that did not work.
    Raises ConfigError for a command that is not there and for what is neither.
    """

    def __init__(self, target: str, say: Callable[[str], None]) -> None:
        self._say, self._told = say, False
        self._threads: list[threading.Thread] = []
        self._url = target if target.startswith(("http://", "https://")) else ""
        try:
            self._argv = [] if self._url else shlex.split(target)
        except ValueError as exc:
            raise ConfigError.at("--on-fail", f"expected a command or a URL: {exc}, got {target!r}") from exc
        if not self._url and (not self._argv or shutil.which(self._argv[0]) is None):
            raise ConfigError.at("--on-fail", f"expected http://..., https://... or a command, got {target!r}")

    def first(self, document: Mapping[str, Any]) -> None:
        """Tell of a failure while the run goes on; only the first is told."""
        if not self._told:
            self._told = True
            self._tell({"event": "first_fail", **document})

    def judged(self, judge: Judge, plan: PhasePlan, results: Sequence[ProbeResult], run: Mapping[str, Any]) -> None:
        """A phase is over: tell of the first that has a probe below its limit, with the parts that explain it."""
        if self._told:
            return
        by_id = {one.probe_id: one for one in results}
        verdicts, located = judge.confirmed([one for one in plan.planned if one.probe_id in by_id], by_id)
        bad = next((one for one in verdicts.values() if one.outcome is Outcome.FAIL), None)
        if bad is not None:
            part = located.suspects[0].component if located.suspects else bad.probe_id
            document = {**run, "phase": plan.phase.name, "part": part, "reason": bad.reason}
            self.first({**document, "suspects": jsonable(located.suspects)})

    def end(self, document: Mapping[str, Any]) -> None:
        """Tell of the verdict, and wait a little until all was told."""
        self._tell({"event": "end", **document})
        for thread in self._threads:
            thread.join(PATIENCE_S)
            if thread.is_alive():
                self._say(f"--on-fail: not done after {PATIENCE_S:g} s; it is left to itself")

    def _tell(self, document: Mapping[str, Any]) -> None:
        data = orjson.dumps(document)
        thread = threading.Thread(target=self._told_to, args=(data,), daemon=True, name="on-fail")
        self._threads.append(thread)
        thread.start()

    def _told_to(self, data: bytes) -> None:
        try:
            if self._url:
                self._posted(data)
            else:
                self._run(data)
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            self._say(f"--on-fail: {exc}")

    def _posted(self, data: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, data, headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S / 6):
            pass

    def _run(self, data: bytes) -> None:
        with tempfile.TemporaryFile() as file:  # no pipe: who does not read it must not block
            file.write(data)
            file.seek(0)
            ended = subprocess.run(  # the user's own command, without a shell
                self._argv,
                stdin=file,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                check=False,
                start_new_session=True,
            )
        if ended.returncode:
            self._say(f"--on-fail: {self._argv[0]} ended with {ended.returncode}")
