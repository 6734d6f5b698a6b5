"""What a hung job leaves behind: finds out which kind of file it is and calls its reader; also the reader of logs.

Logs hold what NCCL (NCCL_DEBUG=WARN or INFO) and PyTorch's watchdog print about ranks, hosts and RNICs. A rank that
prints a timeout waited; the rank that it waited for often prints nothing. ``[rank3]:`` before a line is the rank in the
job; in the line it is the rank in the group. NCCL's ranks are those of a communicator: only the communicators with the
most ranks are used, which are those of the whole job.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from fabric.errors import UnreadableOutput
from fabric.model.hang import Call, CallState, HangKind, HangSuspect, JobEvidence, Place, RankTrace
from fabric.model.outcome import Outcome
from fabric.tools.driver import plain
from fabric.tools.hang import flight_recorder, ras
from fabric.tools.hang.flight_recorder import MOST_RANKS
from fabric.tools.nccl.failures import OF_ITS_OWN, Failures, NcclFailure

EXPECTED = "a dump of PyTorch's flight recorder (pickle or JSON), an answer of NCCL RAS, or a log of NCCL or PyTorch"


def read(data: bytes, file_name: str) -> JobEvidence | None:
    """Return the evidence in a file, None for a file of another kind; raise UnreadableOutput for a damaged one."""
    if data.startswith(b"\x80") and len(data) > 1 and data[1] <= 5:
        return flight_recorder.parse_json(flight_recorder.plain_values(data), file_name)
    text = data.decode("utf-8-sig", "replace")
    if text.lstrip().startswith("{"):
        return _json(text, file_name)
    if ras.MARK.search(text):
        return ras.parse_text(text)
    return parse_log(text) if MARK.search(text) else None


def _json(text: str, file_name: str) -> JobEvidence | None:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as wrong:
        try:
            document = orjson.loads(ras.mended(text))
        except orjson.JSONDecodeError:
            raise UnreadableOutput(f"JSON that is cut or damaged: {wrong}") from None
    if ras.is_status(document):
        return ras.parse_json(document)
    return flight_recorder.parse_json(document, file_name) if flight_recorder.is_dump(document) else None


MARK = re.compile(
    r"^\[rank\d{1,6}\]: |NCCL (?:INFO|WARN) |WorkNCCL\(|work sequence id: \d|last enqueued (?:NCCL )?work", re.MULTILINE
)
"""A pattern by which such a log is recognized."""

_PROCESS = re.compile(r"([A-Za-z0-9][\w.-]{0,252}):(\d{1,10}):\d{1,10} \[(\d{1,4})\] NCCL INFO (.*)")
_INIT = re.compile(r"(?:ncclCommInitRank\S* )?comm 0x[0-9a-f]+ rank (\d{1,6}) n[rR]anks (\d{1,6}) ")
_DEVICE = re.compile(r" (?:nvmlDev|cudaDev) (\d{1,4})")
_USING = re.compile(r"NET/IB\s?: Using (.{1,4000})")
_RNIC = re.compile(r"\[(\d{1,3})\]([A-Za-z][\w-]{0,63}):\d")
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\] \[(?:send|receive)\] via NET/IB\w*/(\d{1,3})")
_OWN_ADDRESS = re.compile(r"Bootstrap\s?: Using \S{1,64}?:([0-9a-fA-F.:]{2,45})<\d+>")

_GLOBAL = re.compile(r"\[rank(\d{1,6})\]:")
_PEER_GONE = re.compile(r"Connection (?:closed by (?:remote )?peer|reset by peer)|remote process exited")
_TIMED_OUT = re.compile(r"WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w{1,40}), NumelIn=(\d{1,18}), NumelOut=(\d{1,18})")
_STATUS = re.compile(
    r"\[PG (?:ID \d+ PG GUID (\S{1,80}?)\((\S{0,80}?)\)|(\d+)) Rank \d+\].{1,200}?"
    r"last enqueued (?:NCCL )?work: (-?\d{1,18}), last completed (?:NCCL )?work: (-?\d{1,18})"
)
_PEER = re.compile(r"from peer ([0-9a-fA-F.:]{2,45})<\d+>")
_HCA = re.compile(r"\bhca (\w{1,64})")


@dataclass(slots=True)
class _Log:
    """What was read so far; *devices* are the RNICs of a process, in NCCL's order."""

    failures: Failures = field(default_factory=Failures)
    places: dict[int, dict[int, tuple[str, str, int | None]]] = field(default_factory=dict)  # by size and rank
    devices: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    used: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    timed_out: dict[int, tuple[int, Call]] = field(default_factory=dict)
    status: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    gave_up: set[int] = field(default_factory=set)


def parse_log(text: str) -> JobEvidence:
    """Return the evidence in one log, of one rank or of many."""
    log = _Log()
    for line in plain(text).split("\n"):
        if found := _PROCESS.search(line):
            _info(log, found[1], found[2], found[4])
        elif of_rank := _GLOBAL.search(line):
            _watchdog(log, int(of_rank[1]), line)
        if "NCCL WARN" in line:
            log.failures.line(line[max(line.find("NCCL WARN") - 400, 0) :].strip())
    size = max(log.places, default=0)
    places = {
        rank: Place(host, gpu, frozenset(_rnics(log, host, process)))
        for rank, (host, process, gpu) in log.places.get(size, {}).items()
    }
    return JobEvidence(
        tuple(_traces(log)),
        places,
        addresses=log.addresses,
        ranks=frozenset(range(size)) if size <= MOST_RANKS else frozenset(),
        gave_up=frozenset(log.gave_up),
        failures=tuple(one for failure in log.failures.found() for one in _suspects(failure, log.addresses)),
    )


def _info(log: _Log, host: str, process: str, message: str) -> None:
    if found := _INIT.match(message):
        device = _DEVICE.findall(message)
        of_size = log.places.setdefault(int(found[2]), {})
        of_size[int(found[1])] = (host, process, int(device[-1]) if device else None)
    elif found := _CHANNEL.match(message):
        log.used.setdefault((host, process), set()).add(int(found[1]))
    elif found := _USING.match(message):
        log.devices[host, process] = {int(number): name for number, name in _RNIC.findall(found[1])}
    elif found := _OWN_ADDRESS.match(message):
        log.addresses[found[1]] = host


def _rnics(log: _Log, host: str, process: str) -> Iterator[str]:
    devices = log.devices.get((host, process), {})
    return (devices[number] for number in log.used.get((host, process), ()) if number in devices)


def _watchdog(log: _Log, rank: int, line: str) -> None:
    if found := _TIMED_OUT.search(line):
        call = Call(found[2].lower().lstrip("_"), (int(found[3]), int(found[4])), (), CallState.CALLED)
        log.timed_out[rank] = int(found[1]), call
    elif found := _STATUS.search(line):
        group = f"{found[1]} ({found[2]})" if found[1] else f"{found[3]} (by its number)"
        log.status[rank, group] = int(found[4]), int(found[5])
    elif _PEER_GONE.search(line):
        log.gave_up.add(rank)


def _traces(log: _Log) -> Iterator[RankTrace]:
    for (rank, group), (called, completed) in log.status.items():
        number, call = log.timed_out.get(rank, (None, None))
        own = {number: call} if call is not None and number == completed + 1 else {}
        yield RankTrace(rank, group, called, completed + 1, own)


def _suspects(failure: NcclFailure, addresses: dict[str, str]) -> Iterator[HangSuspect]:
    """Yield the host that printed a failure (FAIL for a part of its own), and the other end of a failed connection."""
    if not failure.blames_fabric:
        return
    own = failure.kind in OF_ITS_OWN
    rnic, peer = _HCA.search(failure.text), None if own else _PEER.search(failure.text)
    other = addresses.get(peer[1], peer[1]) if peer else ""
    if failure.host is not None:
        parts = (f"{failure.host}/{rnic[1]}",) if rnic else ()
        outcome = Outcome.FAIL if own else Outcome.INCONCLUSIVE
        yield HangSuspect(HangKind.FAILED, outcome, host=failure.host, parts=parts, said=failure.text, others=other)
    if other:
        text, host = failure.text, failure.host or ""
        yield HangSuspect(HangKind.FAILED, Outcome.INCONCLUSIVE, host=other, said=text, others=host)
