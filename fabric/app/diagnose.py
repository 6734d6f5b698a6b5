"""Judge what other tools wrote down: pair results that any tool measured, and the traces of a job that hangs."""

import codecs
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import reduce
from operator import add, or_
from pathlib import Path

from fabric.config.inventory import load_inventory
from fabric.errors import ConfigError, Problem, ToolError
from fabric.judge.hang import judge_hang
from fabric.model.diagnosis import Diagnosis, PairRow, PairTable
from fabric.model.fields.wording import nearest, quoted, shown
from fabric.model.hang import Hang, HangSuspect, JobEvidence, Place, RankTrace
from fabric.model.text import other_names
from fabric.model.topology import Topology
from fabric.runs.plain_file import reading
from fabric.tools import hang as tools
from fabric.tools import pairs

MOST_PAIRS_BYTES = 256 << 20
"""A larger file is refused (a choice: 65,024 results are 3 MB)."""


def diagnose_files(
    files: Sequence[Path],
    *,
    inventory: Path | None = None,
    format_name: str = "auto",
    limit_gbps: float | None = None,
    floor: float | None = None,
) -> tuple[Diagnosis, tuple[str, ...]]:
    """
    Return the diagnosis of all files together, and notes of what the readers left out.

    ``-`` is standard input. Raises ConfigError with everything that is wrong.
    """
    from fabric.judge.locate.pairs.diagnose import diagnose  # numpy takes a while to import, and memory
    from fabric.judge.locate.pairs.samples import unknown_names
    from fabric.judge.locate.structure import FLOOR

    topology = load_inventory(inventory).topology if inventory is not None else None
    tables: list[tuple[str, PairTable]] = []
    problems: list[Problem] = []
    for file in files:
        name = shown(str(file))
        table = pairs.read(decoded(read_input(file, MOST_PAIRS_BYTES)), format_name, file.name)
        tables.append((name, table))
        unknown = unknown_names(_named(table), topology) if topology is not None and not table.problems else ()
        problems += [Problem(name, line, text) for line, text in (*table.problems, *unknown)]
    problems += _spelled_twice(tables) if topology is None else ()
    if problems:
        raise ConfigError(problems)
    rows = [row for _, table in tables for row in table.rows]
    failures = [one for _, table in tables for one in table.failures]
    found = diagnose(rows, topology=topology, limit_gbps=limit_gbps, floor=floor or FLOOR, failures=failures)
    return found, tuple(f"{name}: {note}" for name, table in tables for note in table.notes)


def _spelled_twice(tables: Sequence[tuple[str, PairTable]]) -> Iterator[Problem]:
    """Yield each name that may be of a machine with another name, in whichever file: two halves of a host hide it."""
    rows = [(file, row) for file, table in tables for row in _named(table)]
    again = other_names(sorted({name for _, row in rows for name in (row.a, row.b)}, key=str.swapcase))
    if not again:
        return
    first: dict[str, tuple[str, int]] = {}
    for file, row in rows:
        for name in (row.a, row.b):
            first.setdefault(name, (file, row.line))
    for name, other in again.items():
        file, line = first[other]
        text = f"host {quoted(name)} is called {quoted(other)} at {file}:{line}"
        yield Problem(*first[name], f"{text}: write one machine with one name")


def _named(table: PairTable) -> list[PairRow]:
    """Return every row that names hosts: failed tests become rows too."""
    return [*table.rows, *(PairRow(one.a, one.b, 0.0, one.line, rail=one.rail) for one in table.failures)]


def read_input(file: Path, most_bytes: int) -> bytes:
    """
    Read a file that a person named, ``-`` for standard input; raise ConfigError if it cannot be read or is too large.
    """
    name = shown(str(file))
    with reading(name), nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ConfigError.at(name, f"larger than {most_bytes >> 20} MiB")
    return data


def decoded(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 if a byte order mark says so (spreadsheets); invalid bytes become U+FFFD."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


MOST_BYTES = 64 << 20
"""A larger file is refused (a choice: a full ring of a flight recorder is 0.3 MB, RAS of 4,096 ranks 2 MB)."""

MOST_FILES = 20_000
"""The most files of one folder (a choice: a dump and a log of each of 8,192 ranks)."""

_RANKS = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?\s+(\S{1,255})")
_SLOTS = re.compile(r"(\S{1,255})(?:\s+slots=(\d{1,4}))?(?:\s+max_slots=\d+)?")


def hang_files(files: Sequence[Path], *, inventory: Path | None = None, ranks: Path | None = None) -> Hang:
    """
    Return the verdict on all files and folders together; raise ConfigError with everything that is wrong.

    A file that is named has to be readable evidence. In a folder, files that are something else are skipped, and
    evidence that cannot be read (its process died while it wrote) is left out and noted.
    """
    topology = load_inventory(inventory).topology if inventory is not None else None
    placed = {} if ranks is None else _rank_hosts(ranks, topology)
    read: list[tuple[str, JobEvidence]] = []
    problems: list[Problem] = []
    damaged: list[Problem] = []
    others = 0
    for file, named in _each(files):
        name = shown(str(file))
        try:
            found = tools.read(read_input(file, MOST_BYTES), file.name)
        except ConfigError as exc:
            problems += exc.problems
        except ToolError as exc:
            (problems if named else damaged).append(Problem(name, 0, str(exc)))
        else:
            if found is not None:
                read.append((str(file), found))
            elif named:
                problems.append(Problem(name, 0, f"expected {tools.EXPECTED}"))
            others += found is None
    if problems or not read:
        nothing = [Problem("fabric hang", 0, f"{others} files, none of them {tools.EXPECTED}")]
        raise ConfigError([*problems, *damaged] or nothing)
    evidence = _with_places(read, placed, topology)
    evidence = replace(evidence, notes=(*evidence.notes, *(f"left out: {one}" for one in damaged)))
    if others:
        evidence = replace(evidence, notes=(*evidence.notes, f"{others} files of the folders are something else"))
    return judge_hang(evidence)


def _each(files: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file and whether it was named itself; a folder gives its regular files at any depth, no links."""
    for file in files:
        if not file.is_dir():
            yield file, True
            continue
        below = sorted(path for path in file.rglob("*") if path.is_file() and not path.is_symlink())
        if len(below) > MOST_FILES:
            raise ConfigError.at(shown(str(file)), f"{len(below):,} files; at most {MOST_FILES:,} are read")
        yield from ((path, False) for path in below)


def _rank_hosts(path: Path, topology: Topology | None) -> dict[int, Place]:
    """
    Read which host each rank ran on.

    The file has lines such as ``0-7 gpu001``, or is a launcher's hostfile in the order of ranks (``gpu001 slots=8``).
    """
    places: dict[int, Place] = {}
    problems = []
    name = shown(str(path))
    for number, line in enumerate(read_input(path, MOST_BYTES).decode("utf-8", "replace").splitlines(), start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        if found := _RANKS.fullmatch(entry):
            first, last, host = int(found[1]), int(found[2] or found[1]), found[3]
        elif found := _SLOTS.fullmatch(entry):
            first = len(places)
            last, host = first + int(found[2] or 1) - 1, found[1]
        else:
            problems.append(Problem(name, number, f"expected '0-7 gpu001' or 'gpu001 slots=8', got {quoted(entry)}"))
            continue
        if topology is not None and host not in topology.hosts:
            near = nearest(host, topology.hosts)
            problems.append(Problem(name, number, f"host {quoted(host)} is not in the inventory{near}"))
        places |= dict.fromkeys(range(first, last + 1), Place(host))
    if problems:
        raise ConfigError(problems)
    return places


def _with_places(
    read: Sequence[tuple[str, JobEvidence]], placed: Mapping[int, Place], topology: Topology | None
) -> JobEvidence:
    """Merge all evidence, with hosts and RNICs by the inventory's names."""
    addresses = {} if topology is None else {host.address: host.name for host in topology.hosts.values()}
    for _, one in read:
        addresses |= one.addresses

    def host_of(name: str) -> str:
        known = addresses.get(name, name)
        short = known.partition(".")[0]
        return short if topology is not None and known not in topology.hosts and short in topology.hosts else known

    places: dict[int, Place] = {}
    for path, one in read:
        for rank, place in one.places.items():
            old = places.get(rank, place)
            places[rank] = Place(host_of(place.host), place.gpu, place.rnics | old.rnics)
        if topology is not None and not one.places:
            hosts = topology.hosts.keys() & set(re.split(r"[/_]", path))
            for trace in one.traces if len(hosts) == 1 else ():
                places.setdefault(trace.rank, Place(min(hosts)))
    for rank, place in placed.items():
        places[rank] = replace(places[rank], host=place.host) if rank in places else place
    together = _together([one for _, one in read])
    return replace(
        together,
        traces=tuple(_latest(together.traces)),
        places={rank: _with_rnics(place, topology) for rank, place in places.items()},
        ranks=together.ranks | placed.keys(),
        failures=tuple(_of_host(failure, host_of) for failure in together.failures),
    )


def _together(all_of: Sequence[JobEvidence]) -> JobEvidence:
    """Merge all evidence into one; where two give the same key of a mapping, the last one wins."""
    names = [field.name for field in fields(JobEvidence)]
    columns = zip(*([getattr(one, name) for name in names] for one in all_of), strict=True)
    return JobEvidence(*(reduce(add if isinstance(column[0], tuple) else or_, column) for column in columns))


def _latest(traces: Iterable[RankTrace]) -> Iterator[RankTrace]:
    """
    Yield the last dump of each rank in each group, and every answer of NCCL RAS.

    In a group that has dumps, calls that came from logs are dropped.
    """
    kept: dict[tuple[int, str], RankTrace] = {}
    for trace in traces:
        if trace.counted:
            yield trace
        else:
            kept[trace.rank, trace.group] = max(trace, kept.get((trace.rank, trace.group), trace), key=_last_call_ns)
    dumped = {trace.group for trace in kept.values() if _last_call_ns(trace)}
    for trace in kept.values():
        yield trace if _last_call_ns(trace) or trace.group not in dumped else replace(trace, calls={})


def _last_call_ns(trace: RankTrace) -> int:
    """Return when the rank called its last collective; 0 if the trace comes from a log."""
    return max((call.at_ns or 0 for call in trace.calls.values()), default=0)


def _with_rnics(place: Place, topology: Topology | None) -> Place:
    """Add the RNICs nearest to the place's GPU, unless a log named the RNICs that it used."""
    host = None if topology is None else topology.hosts.get(place.host)
    if host is None or place.rnics or place.gpu is None:
        return place
    near = (rnic.device for rnic in host.platform.rnics if place.gpu in rnic.nearest_gpus)
    return replace(place, rnics=frozenset(near))


def _of_host(failure: HangSuspect, host_of: Callable[[str], str]) -> HangSuspect:
    host = host_of(failure.host or "")
    parts = tuple(f"{host}/{part.partition('/')[2]}" for part in failure.parts)
    return replace(failure, host=host, parts=parts, others=failure.others and host_of(failure.others))
