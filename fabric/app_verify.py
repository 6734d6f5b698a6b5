"""What a person can ask of certificates: make one of a run, and is this one true?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from fabric.app_judge import reopened
from fabric.app_post_repair import decided, is_post_repair
from fabric.errors import ConfigError, FabricError, Problem, StoreError
from fabric.report.certificate import FORMAT, KIND, certificate_document, encoded
from fabric.report.certificate_html import certificate_html
from fabric.report.certificate_signature import fingerprint, private_key, public_key, sign, signer
from fabric.store.identity import read_identity
from fabric.store.manifest import DERIVED, SourceFile, differences, digest, manifest
from fabric.store.run_directory import write_durably
from fabric.store.run_lock import running
from fabric.store.run_path import run_path

NAME, HTML = "certificate.json", "certificate.html"
SHA256, SIGNATURE = f"{NAME}.sha256", f"{NAME}.sig"
MOST_BYTES = 256 << 20
"""A larger certificate is not read (a choice: a run of 2,048 hosts makes one of some 10 MB)."""

JUDGED = (
    "result",
    "reasons",
    "suspects",
    "components",
    "decision",
    "tested",
    "limits",
    "hosts",
    "identity",
    "simulated",
)
"""What follows from the source files, and is compared with what they say now."""

FILES_ONLY = "the run's files are not here: what it says cannot be computed again"


@dataclass(frozen=True, slots=True)
class Verified:
    """
    What was found: *problems* make it untrue, *open* could not be checked, *notes* are said besides.

    *result* is what the certificate says of the run; *signed_by* is the fingerprint of the key, empty without a
    signature.
    """

    certificate: str
    result: str
    run: str
    problems: tuple[str, ...]
    open: tuple[str, ...]
    notes: tuple[str, ...]
    signed_by: str = ""

    @property
    def exit_code(self) -> int:
        """0 all of it is true, 1 something is not, 3 it cannot be told."""
        return 1 if self.problems else 3 if self.open else 0


def make_certificate(run: Path, *, key: Path | None) -> tuple[Path, str]:
    """
    Write certificate.json, its digest, its page and with *key* (Ed25519, OpenSSH or PEM) its signature; the path of the
    page, and the result.

    Raises ConfigError for a key that cannot be used, and for a run that goes on: its files change, so that the digest
    would be false a moment later. StoreError when the disk says no.
    """
    path = run_path(run)
    if holder := running(path):
        text = (
            f"this run goes on ({holder.text}): a certificate is of a run that ended; until then: fabric report {path}"
        )
        raise ConfigError([Problem(str(path), 0, text)])
    signing = private_key(_read(key), str(key)) if key is not None else None
    document, directory = _document(run)
    data = encoded(document)
    try:
        (directory / SIGNATURE).unlink(missing_ok=True)  # an older one is of another text
        write_durably(directory / NAME, data)
        write_durably(directory / SHA256, f"{hashlib.sha256(data).hexdigest()}  {NAME}\n".encode())
        write_durably(directory / HTML, certificate_html(document).encode())
        if signing is not None:
            write_durably(directory / SIGNATURE, sign(data, signing).encode())
    except OSError as exc:
        raise StoreError(f"{directory}: cannot write: {exc.strerror or exc}") from exc
    return directory / HTML, str(document["result"])


def verify(path: Path, *, key: Path | None) -> Verified:
    """
    Compute everything that a certificate says again, from the run's files beside it; *key* is a public key that it must
    be signed with.

    *path* is certificate.json, certificate.html or the run directory. ConfigError when it is no certificate.
    """
    wanted = public_key(_read(key).decode("utf-8", "replace"), str(key)) if key is not None else None
    file = path / NAME if path.is_dir() else path.with_name(NAME) if path.name == HTML else path
    data = _read(file)
    document = _certificate(data, file)
    problems = _own_files(file, data, document)
    signed_by, said, notes = _signature(file, data, wanted)
    problems += said
    directory = file.resolve().parent
    unchecked: list[str] = []
    if not (directory / "run.json").exists():
        unchecked.append(FILES_ONLY)
    else:
        problems += _sources(directory, document)
        unchecked += _rejudged(directory, document, problems, notes)
        notes += _not_covered(directory)
    return Verified(
        str(file), document["result"], document["run"], tuple(problems), tuple(unchecked), tuple(notes), signed_by
    )


def _not_covered(directory: Path) -> list[str]:
    """The files beside it that anybody may have changed: they are made from the others."""
    beside = sorted(name for name in DERIVED - {NAME, HTML, SHA256, SIGNATURE} if (directory / name).exists())
    if not beside:
        return []
    return [f"not looked at, for they are made from the other files: {', '.join(beside)}"]


def _document(run: Path) -> tuple[dict[str, Any], Path]:
    shown = reopened(run)
    directory = Path(shown.judged.path)
    identity = read_identity(directory) or {}
    decision = decided(shown) if is_post_repair(shown.judged.scenario) else None
    parts = orjson.loads(orjson.dumps([asdict(host) for host in identity.values()]))
    document = certificate_document(shown, decision, manifest(directory), parts, judged_with=_own_version())
    return orjson.loads(encoded(document)), directory  # as a reader of the file sees it


def _own_files(file: Path, data: bytes, document: Mapping[str, Any]) -> list[str]:
    """The detached digest and the page, where they are there."""
    problems = []
    beside = file.with_name(SHA256)
    if beside.exists():
        stated = _read(beside).split()
        if not stated or stated[0].decode("ascii", "replace") != hashlib.sha256(data).hexdigest():
            problems.append(f"{file.name}: changed: its SHA-256 is not that of {beside.name}")
    page = file.with_name(HTML)
    if page.exists() and _read(page) != _page(document):
        problems.append(f"{page.name}: changed: it does not say what {file.name} says")
    return problems


def _page(document: Mapping[str, Any]) -> bytes:
    try:
        return certificate_html(document).encode()
    except (KeyError, TypeError, ValueError, AttributeError):
        return b""


def _signature(file: Path, data: bytes, wanted: bytes | None) -> tuple[str, list[str], list[str]]:
    """The fingerprint of who signed it, what is wrong, and what to say."""
    beside = file.with_name(SIGNATURE)
    if not beside.exists():
        if wanted is not None:
            return "", ["not signed"], []
        return "", [], ["not signed: whoever can write the files can write a certificate, too"]
    try:
        public = signer(data, _read(beside).decode("utf-8", "replace"))
    except StoreError as exc:
        return "", [f"{beside.name}: {exc}"], []
    if public is None:
        return "", [f"{beside.name}: not the signature of this certificate"], []
    name = fingerprint(public)
    if wanted is None:
        return name, [], [f"signed by {name}: whose key that is, --key PUB can tell"]
    if wanted != public:
        return name, [f"signed by another key: {name}, not {fingerprint(wanted)}"], []
    return name, [], [f"signed by {name}, the key that was given"]


def _sources(directory: Path, document: Mapping[str, Any]) -> list[str]:
    try:
        stated = [SourceFile(**one) for one in document["manifest"]]
        value = document["digest"]["value"]
    except (KeyError, TypeError) as exc:
        raise ConfigError([Problem(str(directory / NAME), 0, f"no manifest as this version writes it: {exc}")]) from exc
    problems = differences(stated, manifest(directory))
    if digest(stated) != value:
        problems.append("the digest is not that of the manifest")
    return problems


def _rejudged(directory: Path, document: Mapping[str, Any], problems: list[str], notes: list[str]) -> list[str]:
    """Adds what the run's files say otherwise; returns what could not be told."""
    try:
        again, _ = _document(directory)
    except FabricError as exc:
        return [f"the run cannot be judged again: {exc}"]
    other = [name for name in JUDGED if document.get(name) != again[name]]
    if not other:
        return []
    if document["result"] != again["result"]:
        problems.append(f"it says {document['result']}, and the run's files say {again['result']}")
        return []
    what = f"not what the run's files say: its {', '.join(other)}"
    mine, theirs = _own_version(), document["versions"].get("judged with fabric-testbench")
    if mine == theirs:
        problems.append(what)
    else:
        notes.append(f"{what} today: it was made with version {theirs}, this is {mine}")
    return []


def _certificate(data: bytes, file: Path) -> dict[str, Any]:
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(data)
        if isinstance(found, dict) and found.get("kind") == KIND:
            if found.get("format") != FORMAT:
                raise ConfigError(
                    [Problem(str(file), 0, f"a certificate of format {found.get('format')!r}, not {FORMAT}")]
                )
            missing = [name for name in ("result", "run", "versions", "manifest", "digest") if name not in found]
            if missing:
                raise ConfigError([Problem(str(file), 0, f"a certificate without {', '.join(missing)}")])
            return found
    raise ConfigError([Problem(str(file), 0, "no certificate (fabric report RUN --certificate makes one)")])


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ConfigError([Problem(str(file), 0, f"larger than {MOST_BYTES >> 20} MiB")])
        return file.read_bytes()
    except OSError as exc:
        raise ConfigError([Problem(str(file), 0, f"cannot read: {exc.strerror or exc}")]) from exc


def _own_version() -> str:
    try:
        return version("fabric-testbench")
    except PackageNotFoundError:
        return "not installed"
