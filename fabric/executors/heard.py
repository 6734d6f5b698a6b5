"""What a wrapped command has said so far: its output, capped, and the wrapper's own words, taken out of it."""

from __future__ import annotations

from fabric.model.command import Command


class Heard:
    """Both streams of one command; the wrapper's words stand on lines led by the nonce and are kept apart."""

    def __init__(self, command: Command, nonce: str) -> None:
        self._stdout = _Stream(nonce.encode(), command.output_cap_bytes)
        self._stderr = _Stream(nonce.encode(), command.output_cap_bytes)

    def add(self, stdout: bytes, stderr: bytes) -> tuple[str, ...]:
        """Take in what arrived; returns the wrapper's words that it held on stderr."""
        self._stdout.add(stdout)
        before = len(self._stderr.words)
        self._stderr.add(stderr)
        return tuple(self._stderr.words[before:])

    @property
    def words(self) -> tuple[str, ...]:
        """All that the wrapper said on stderr, in order."""
        return tuple(self._stderr.words)

    @property
    def finished(self) -> bool:
        """True when the wrapper's last word has come on both streams: no output can follow."""
        return all(
            bool(stream.words) and stream.words[-1].startswith(("end ", "stuck"))
            for stream in (self._stdout, self._stderr)
        )

    @property
    def truncated(self) -> bool:
        """True when output beyond the cap was dropped."""
        return self._stdout.truncated or self._stderr.truncated

    @property
    def stdout(self) -> str:
        """What the command printed, up to the cap; bytes that are not UTF-8 show as U+FFFD."""
        return self._stdout.text()

    @property
    def stderr(self) -> str:
        """What the command complained about, up to the cap."""
        return self._stderr.text()


class _Stream:
    """One stream: kept up to a cap, searched for marked lines to its end, in bounded memory."""

    def __init__(self, nonce: bytes, cap_bytes: int) -> None:
        self._nonce, self._cap_bytes = nonce, cap_bytes
        self._kept = bytearray()
        self._rest = b""  # may be the beginning of a marked line
        self.truncated = False
        self.words: list[str] = []

    def add(self, data: bytes) -> None:
        """Split *data* into output, kept, and words."""
        data = self._rest + data
        while (start := data.find(self._nonce)) >= 0 and (end := data.find(b"\n", start)) >= 0:
            self._keep(data[:start])
            self.words.append(data[start + len(self._nonce) + 1 : end].decode("ascii", "replace"))
            data = data[end + 1 :]
        if start < 0:
            start = len(data) - self._begun_bytes(data)
        self._keep(data[:start])
        self._rest = data[start:]

    def _begun_bytes(self, data: bytes) -> int:
        """How many of the last bytes of *data* may be the beginning of the nonce."""
        longest = min(len(data), len(self._nonce) - 1)
        return next((n for n in range(longest, 0, -1) if data.endswith(self._nonce[:n])), 0)

    def _keep(self, data: bytes) -> None:
        room = self._cap_bytes - len(self._kept)
        self._kept += data[:room]
        self.truncated = self.truncated or len(data) > room

    def text(self) -> str:
        """All that was kept; a marked line that never ended is output after all."""
        if len(self._kept) >= self._cap_bytes:
            return self._kept.decode("utf-8", "replace")
        return (self._kept + self._rest).decode("utf-8", "replace")
