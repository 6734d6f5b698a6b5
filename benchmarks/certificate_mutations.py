"""
Is any forged certificate told OK? Changes certificates and their runs in every way it can think of, and verifies them.

    python benchmarks/certificate_mutations.py [--tries 300] [--seed 1]

Four runs of the mock: a self-check that failed, a post-repair validation, two hours of burn-in, a drill with changes.
Each of them verifies where it is and in another folder. Then each try takes a copy and changes one thing: a field of
the certificate (as a forger does: with its digest and its page made anew, and the signature removed), its bytes, its
files, a file of the run. Prints ``verify | tried | told OK``; exit status 1 when any was, or verify broke.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.post_repair import CHECK, RACK, ROOT, measured
from fabric.app.prepare import Given, prepare
from fabric.app.repair import prepare_repair
from fabric.app.verify import HTML, NAME, SHA256, SIGNATURE, make_certificate, verify
from fabric.errors import ConfigError, FabricError
from fabric.report.certificate import certificate_html, encoded
from fabric.runs.manifest import DERIVED

Document = dict[str, Any]
Place = tuple[str | int, ...]
"""Where a value stands in a document: the keys and numbers on the way to it."""

FIELDS = (
    "backend", "began", "changes", "complete", "components", "coverage", "decision", "digest", "duration_s", "format",
    "hall", "hosts", "identity", "kind", "limits", "manifest", "reasons", "result", "run", "simulated", "suspects",
    "tested", "versions",
)  # fmt: skip
"""Every field of a certificate."""


@dataclass(frozen=True)
class Mutation:
    """What is changed, in words, and what changes it in a copy of a run."""

    name: str
    change: Callable[[Path], None]


def document_of(run: Path) -> Document:
    """The certificate of a run."""
    found: Document = orjson.loads((run / NAME).read_bytes())
    return found


def forge(run: Path, document: Document) -> None:
    """Write a certificate with its digest and its page, as this tool would, and no signature."""
    seal(run, encoded(document))
    with suppress(Exception):  # no page can be made of such a document: the old one stays
        (run / HTML).write_bytes(certificate_html(document).encode())


def seal(run: Path, data: bytes) -> None:
    """Write these bytes as the certificate, with their digest."""
    (run / NAME).write_bytes(data)
    (run / SHA256).write_text(f"{hashlib.sha256(data).hexdigest()}  {NAME}\n")
    (run / SIGNATURE).unlink(missing_ok=True)


def code_of(run: Path) -> int:
    """What ``fabric verify`` exits with; -1 when it breaks."""
    try:
        return verify(run, key=None).exit_code
    except ConfigError:
        return 2
    except FabricError:
        return 3
    except Exception as exc:  # noqa: BLE001 - that it broke is what is told
        print(f"BROKE: {type(exc).__name__}: {exc}", file=sys.stderr)
        return -1


# The document

OTHER_VALUES: tuple[Any, ...] = (None, True, False, 0, 1, -1, 1.5, 1e300, "", "PASSED", "x" * 9000, [], {}, [[]], [{}])


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every value in a document, the containers too."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*at, key)
        yield from places(one, (*at, key))


def parent_of(document: Document, place: Place) -> Any:
    """The container in which a value stands."""
    found: Any = document
    for key in place[:-1]:
        found = found[key]
    return found


def altered(value: Any) -> Any:
    """A likely value of the same kind, and another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 10 + 1
    if isinstance(value, str):
        return f"{value}1" if value[-1:].isdigit() else f"{value} "
    if isinstance(value, list):
        return value[:-1] or [0]
    if isinstance(value, dict):
        return {**value, "more": 1}
    return "something"


def edit(document: Document, place: Place, how: str, draw: random.Random) -> None:
    """Change one value in a document."""
    parent, key = parent_of(document, place), place[-1]
    if how == "removed":
        del parent[key]
    elif how == "of another type":
        parent[key] = draw.choice([one for one in OTHER_VALUES if type(one) is not type(parent[key])])
    elif how == "twice" and isinstance(parent, list):
        parent.insert(int(key), parent[key])
    elif how == "twice":
        parent[f"{key}_"] = parent[key]
    else:
        parent[key] = altered(parent[key])


def edited(place: Place, how: str, seed: int, *, sealed: bool) -> Mutation:
    """One value is changed; where it is not *sealed*, digest and page stay as they were."""

    def change(run: Path) -> None:
        document = document_of(run)
        edit(document, place, how, random.Random(seed))
        if sealed:
            forge(run, document)
        else:
            (run / NAME).write_bytes(encoded(document))

    return Mutation(f"{'.'.join(str(one) for one in place)} {how}{'' if sealed else ', nothing else'}", change)


def in_the_document(document: Document, many: int, seed: int) -> list[Mutation]:
    """Every field once, then values anywhere."""
    draw = random.Random(seed)
    anywhere = list(places(document))
    found = [edited((name,), "altered", seed, sealed=True) for name in FIELDS]
    ways = ("altered", "removed", "of another type", "twice")
    while len(found) < many:
        field = draw.choice([one for one in FIELDS if document[one] is not None])  # else nearly all would be parts
        place = draw.choice([one for one in anywhere if one[0] == field])
        found.append(edited(place, draw.choice(ways), draw.randrange(1 << 30), sealed=draw.random() < 0.8))
    return found[:many]


def said(name: str, **fields: Any) -> Mutation:
    """Some fields say something else, all of it consistent."""
    return Mutation(name, lambda run: forge(run, {**document_of(run), **fields}))


def of_version(name: str, **fields: Any) -> Mutation:
    """The same, and another version is to blame."""

    def change(run: Path) -> None:
        document = document_of(run)
        forge(run, {**document, "versions": {**document["versions"], "judged with fabric-testbench": name}, **fields})

    return Mutation(f"judged with {name!r}, and {', '.join(fields) or 'nothing else'} altered", change)


STORIES = (
    said("48 h, PASSED, and no word of a simulation", result="PASSED", duration_s=172800.0, simulated=False,
         backend="ssh", reasons=[], suspects=[], complete=True),
    said("a run of yesterday", began="2020-01-01 00:00:00 UTC", run="check/20200101-000000"),
    said("on real hardware", backend="ssh", simulated=False),
    said("a note more", note="witnessed by the owner"),
    of_version("9.9.9"), of_version(""), of_version("0.1.0 "), of_version("9.9.9", result="PASSED"),
    of_version("9.9.9", simulated=False), of_version("9.9.9", duration_s=172800.0),
)  # fmt: skip


# The bytes


def rewritten(name: str, other: Callable[[bytes], bytes]) -> Mutation:
    """The bytes of the certificate are others, with the right digest."""
    return Mutation(name, lambda run: seal(run, other((run / NAME).read_bytes())))


def _renamed_last(data: bytes) -> bytes:
    return data.replace(b'"result": ', b'"result": "PASSED",\n  "result": ', 1)


BYTES = (
    rewritten("without spaces", lambda data: orjson.dumps(orjson.loads(data))),
    rewritten("a space at the end", lambda data: data + b" "),
    rewritten("without its last line end", lambda data: data[:-1]),
    rewritten("with line ends of Windows", lambda data: data.replace(b"\n", b"\r\n")),
    rewritten("the result twice", _renamed_last),
    rewritten("a field twice, the false one first", lambda data: b'{"simulated": false,' + data[1:]),
    rewritten("with a byte order mark", lambda data: b"\xef\xbb\xbf" + data),
    rewritten("as UTF-16", lambda data: data.decode().encode("utf-16")),
    rewritten("a word after it", lambda data: data + b"PASSED"),
    rewritten("two of them", lambda data: data + data),
    rewritten("cut off", lambda data: data[: len(data) // 2]),
    rewritten("empty", lambda _: b""),
    rewritten("not a number", lambda data: data.replace(b'"duration_s": ', b'"duration_s": NaN, "was": ', 1)),
    rewritten("a number of 400 digits", lambda data: data.replace(b'"duration_s": ', b'"duration_s": ' + b"9" * 400)),
    rewritten("a number beyond all", lambda data: data.replace(b'"duration_s": ', b'"duration_s": 1e999, "was": ', 1)),
    rewritten("900 lists in one another", lambda data: data.replace(b'"reasons": ', b'"reasons": ' + b"[" * 900
              + b"]" * 900 + b', "was": ', 1)),
    rewritten("100,000 lists in one another", lambda _: b'{"kind":"fabric-certificate","x":' + b"[" * 100_000),
    rewritten("a million of hosts in one name", lambda data: data.replace(b'"hosts": [', b'"hosts": ["a[1-9999999]",')),
    rewritten("escaped letters", lambda data: data.replace(b'"result"', b'"r\\u0065sult"', 1)),
    rewritten("4 million empty lists", lambda data: data.replace(b'"reasons": ', b'"reasons": [' + b"[]," * 4_000_000
              + b'[]], "was": ', 1)),
)  # fmt: skip


# The files


def _append(run: Path, name: str, data: bytes = b"x") -> None:
    path = run / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def added(name: str) -> Mutation:
    """A file that nobody knows."""
    return Mutation(f"added: {name}", lambda run: _append(run, name))


def _source(run: Path, which: int) -> Path:
    found = [
        path for path in sorted(run.rglob("*")) if path.is_file() and path.relative_to(run).as_posix() not in DERIVED
    ]
    return found[which % len(found)]


def _flip(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    path.write_bytes(data)


def _swap(run: Path) -> None:
    one, other = sorted((run / "raw").rglob("*.out"))[:2]
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)


def _instead(run: Path, name: str, make: Callable[[Path], None]) -> None:
    (run / name).unlink(missing_ok=True)
    make(run / name)


def _moved_aside(run: Path, name: str) -> None:
    """The same content, by a link."""
    (run / name).rename(run.parent / f"{name}.elsewhere")
    (run / name).symlink_to(run.parent / f"{name}.elsewhere")


def _same_size(run: Path, which: int) -> None:
    """The events of a source file in another order: no byte more or less."""
    path = _source(run, which)
    path.write_bytes(bytes(reversed(path.read_bytes())))


def _without_mark(run: Path) -> None:
    text = (run / HTML).read_text("utf-8")
    (run / HTML).write_text(text.replace("SIMULATED: no real hardware was tested", "on real hardware"), "utf-8")


def _verdict(run: Path, data: Callable[[bytes], bytes]) -> None:
    (run / "verdict.json").write_bytes(data((run / "verdict.json").read_bytes()))


FILES = (
    *map(added, (
        ".x.tmp", "raw/.evil.tmp", ".hidden", "raw/.hidden", "samples.jsonl.tmp", ".verdict.json.tmp", "new.txt",
        "raw/verdict.json", "raw/new/gpu001.out", "a/b/c/d", "STOPPED/gpu001", "STOP", "raw.txt",
        "certificate.json.bak", "report.html.exe", "changes.jsonl.old", "name\nwith a line end", "\udcff",
        ".certificate.json.sig.tmp",
    )),
    Mutation("added: an empty folder", lambda run: (run / "empty").mkdir()),
    Mutation("added: a link", lambda run: (run / "link").symlink_to("run.json")),
    Mutation("added: a FIFO", lambda run: os.mkfifo(run / "fifo")),
    Mutation("added: a FIFO in raw", lambda run: os.mkfifo(run / "raw" / "fifo")),
    Mutation("verdict.json is a link", lambda run: _moved_aside(run, "verdict.json")),
    Mutation("verdict.json is a folder", lambda run: _instead(run, "verdict.json", Path.mkdir)),
    Mutation("verdict.json says pass", lambda run: _verdict(run, lambda data: data.replace(b': "fail"', b': "pass"'))
             if b': "fail"' in (run / "verdict.json").read_bytes() else _verdict(run, lambda _: b"{}")),
    Mutation("verdict.json twice", lambda run: _verdict(run, lambda data: b'{"outcome": "pass",' + data[1:])),
    Mutation("certificate.json is a link", lambda run: _moved_aside(run, NAME)),
    Mutation("certificate.json is a FIFO", lambda run: _instead(run, NAME, os.mkfifo)),
    Mutation("certificate.json is /dev/zero", lambda run: _instead(run, NAME, lambda at: at.symlink_to("/dev/zero"))),
    Mutation("certificate.html is a FIFO", lambda run: _instead(run, HTML, os.mkfifo)),
    Mutation("certificate.json.sha256 is a link", lambda run: _moved_aside(run, SHA256)),
    Mutation("run.json is a link", lambda run: _moved_aside(run, "run.json")),
    Mutation("events.jsonl is a FIFO", lambda run: _instead(run, "events.jsonl", os.mkfifo)),
    Mutation("run.json removed", lambda run: (run / "run.json").unlink()),
    Mutation("events.jsonl removed", lambda run: (run / "events.jsonl").unlink()),
    Mutation("raw removed", lambda run: shutil.rmtree(run / "raw")),
    Mutation("raw renamed", lambda run: (run / "raw").rename(run / "RAW")),
    Mutation("all but the certificate and run.json removed", lambda run: [
        path.unlink() for path in run.rglob("*") if path.is_file() and path.name not in (NAME, "run.json")
    ] and None),
    Mutation("two transcripts swapped", _swap),
    Mutation("a line of the history removed", lambda run: (run / "events.jsonl").write_bytes(
        b"".join((run / "events.jsonl").read_bytes().splitlines(keepends=True)[:-1]))),
    Mutation("an empty line after the history", lambda run: _append(run, "events.jsonl", b"\n")),
    Mutation("the page without SIMULATED", _without_mark),
    Mutation("the page with a word more", lambda run: _append(run, HTML, b"<h1>PASSED</h1>")),
    Mutation("another digest", lambda run: (run / SHA256).write_text(f"{'0' * 64}  {NAME}\n")),
    Mutation("a line after the digest", lambda run: _append(run, SHA256, b"PASSED\n")),
    Mutation("a signature of nothing", lambda run: (run / SIGNATURE).write_text("-----BEGIN SSH SIGNATURE-----\n")),
)  # fmt: skip


def in_the_sources(many: int, seed: int) -> list[Mutation]:
    """Source files that are changed in one bit, cut off, turned round, removed, renamed."""
    draw = random.Random(seed)
    found = []
    for _ in range(many):
        which, at = draw.randrange(1000), draw.random()
        way = draw.choice(("bit", "cut", "reversed", "removed", "renamed", "grown"))
        found.append(Mutation(f"source {which} {way} at {at:.2f}", _in_a_source(which, way, at)))
    return found


def _in_a_source(which: int, way: str, at: float) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        path = _source(run, which)
        if way == "bit":
            _flip(path, at)
        elif way == "cut":
            os.truncate(path, int(at * path.stat().st_size))
        elif way == "reversed":
            _same_size(run, which)
        elif way == "removed":
            path.unlink()
        elif way == "renamed":
            path.rename(path.with_name(f"{path.name}1"))
        else:
            _append(run, path.relative_to(run).as_posix(), b"\0")

    return change


def taken_from(other: Path) -> tuple[Mutation, ...]:
    """Files of another run's certificate, which are true there."""

    def take(*names: str) -> Callable[[Path], None]:
        return lambda run: [shutil.copy(other / name, run / name) for name in names] and None

    return (
        Mutation("the certificate of another run", take(NAME, HTML, SHA256, SIGNATURE)),
        Mutation("the signature of another run", take(SIGNATURE)),
        Mutation("the page of another run", take(HTML)),
        Mutation("the verdict of another run", take("verdict.json")),
        Mutation("the history of another run", take("events.jsonl")),
    )


# The runs


def _ran(folder: Path, scenario: Path, *, hosts: str, lasts_s: float | None = None, seed: int = 1) -> Path:
    asked = prepare(Given(scenario, hosts=hosts, lasts_s=lasts_s))
    return measured(asked, folder / "results", seed)


def runs_in(folder: Path) -> list[Path]:
    """The four runs, each with a signed certificate."""
    check = folder / "check.yaml"
    check.write_text(CHECK, "utf-8")
    asked = prepare(Given(check, faults=("gpu003/mlx5_3:slow=0.6",)))
    failed = measured(asked, folder / "results", 1)
    given = Given(ROOT / "scenarios" / "post-repair.yaml", RACK, None, ("gpu003/mlx5_3:replaced",))
    runs = [
        failed,
        measured(prepare_repair(given, failed, quick=True), folder / "results", 2),
        _ran(folder, ROOT / "scenarios" / "burn-in.yaml", hosts="gpu[001-004]", lasts_s=7200.0),
        _ran(folder, ROOT / "scenarios" / "flap-tolerance.yaml", hosts="gpu[001-004]"),
    ]
    key = new_key(folder / "key")
    for run in runs:
        make_certificate(run, key=key)
    return runs


def new_key(path: Path) -> Path:
    """A private key to sign with."""
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return path


def chosen(runs: list[Path], tries: int, seed: int) -> Iterator[tuple[Path, Mutation]]:
    """So many mutations of the runs: all that are written out here of the first, and of each as many drawn ones."""
    fixed = [*STORIES, *BYTES, *FILES, *taken_from(runs[1])][:tries]
    yield from ((runs[0], mutation) for mutation in fixed)
    for at, run in enumerate(runs):
        many = (tries - len(fixed) + at) // len(runs)
        drawn = in_the_document(document_of(run), many * 3 // 4, seed + at)
        drawn += in_the_sources(many - len(drawn), seed + at)
        yield from ((run, mutation) for mutation in drawn)


def told(run: Path, mutation: Mutation) -> int:
    """The exit code for a copy of the run with this mutation; the copy goes."""
    with tempfile.TemporaryDirectory(prefix="fabric-forged-") as folder:
        copy = Path(folder) / run.name
        shutil.copytree(run, copy)
        mutation.change(copy)
        return code_of(copy)


def main() -> int:
    """Exit status 1 when any forged certificate was told OK, a true one was not, or verify broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began_s, untold = time.monotonic(), 0
    codes: list[int] = []
    with tempfile.TemporaryDirectory(prefix="fabric-mutations-") as folder:
        runs = runs_in(Path(folder))
        for run in runs:
            true = code_of(run), told(run, Mutation("only moved", lambda _: None))
            if any(true):
                untold += 1
                print(f"TRUE, AND NOT TOLD SO: {run.parent.name}: {true[0]} where it was made, {true[1]} moved")
        for run, mutation in chosen(runs, asked.tries, asked.seed):
            codes.append(told(run, mutation))
            if codes[-1] in (0, -1):
                print(f"{'TOLD OK' if codes[-1] == 0 else 'BROKE'}: {run.parent.name}: {mutation.name}")
    print("class | tried | told OK\n--- | --- | ---")
    print(f"verify | {len(codes)} | {codes.count(0)}")
    words = {1: "not true", 2: "refused", 3: "cannot be told", -1: "broke"}
    counts = ", ".join(f"{codes.count(code)} {word}" for code, word in words.items())
    print(f"{counts}; in {time.monotonic() - began_s:.0f} s")
    return int(bool(untold or codes.count(0) or codes.count(-1)))


if __name__ == "__main__":
    sys.exit(main())
