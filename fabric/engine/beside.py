"""An Executor that does something beside what it is told by the engine."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.ports import Executor, Happening


class Beside:
    """Hands everything on to another executor; what looks on while probes run is made of it."""

    def __init__(self, executor: Executor) -> None:
        self._inner = executor
        self.now, self.go_on, self.wake = executor.now, executor.go_on, executor.wake
        self.start, self.cancel = executor.start, executor.cancel
        self.start_sampling, self.stop_sampling = executor.start_sampling, executor.stop_sampling
        self.samples = executor.samples

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's."""
        return self._inner.wait(until_s)

    def end(self) -> None:
        """Stop looking and make what was seen durable; safe to call twice. Raises StoreError when the disk says no."""
        if isinstance(self._inner, Beside):
            self._inner.end()

    def close(self) -> None:
        """End what is done beside, and close the executor."""
        try:
            self.end()
        finally:
            self._inner.close()
