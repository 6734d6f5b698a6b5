"""Make, sign and verify certificates of runs: a certificate is made again and compared with what it says.

``ssh-keygen -Y`` of OpenSSH 8.2 or newer makes and checks the signatures. Anybody can check one without this tool:
``ssh-keygen -Y verify -n fabric-certificate -f allowed -I who -s FILE.sig < FILE``.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from os.path import lexists
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from jinja2 import UndefinedError

from fabric.app.analyze import decided, reopened, write_decision
from fabric.app.diagnose import read_input
from fabric.errors import ConfigError, FabricError, StoreError
from fabric.model.differing import differing
from fabric.report.certificate import (
    FORMAT,
    JUDGED_WITH,
    KIND,
    certificate_document,
    certificate_html,
    encoded,
)
from fabric.report.decision import acceptance_document
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import verdict_bytes, verdict_document
from fabric.runs.events import EVENTS
from fabric.runs.manifest import DERIVED, SourceFile, differences, digest, leftovers, manifest
from fabric.runs.plain_file import read_plain, reading, remove_durably, storing, write_durably
from fabric.runs.run_directory import RAW_FOLDER as RAW
from fabric.runs.run_directory import run_path
from fabric.runs.run_document import own_version, read_identity
from fabric.runs.run_lock import running
from fabric.runs.stored_verdict import DECISION, VERDICT

NAMESPACE = "fabric-certificate"
"""The namespace of our signatures: a signature made for another purpose does not count."""

TIMEOUT_S = 60.0
"""Seconds for one call of ssh-keygen (a choice: a key in a token waits for a finger)."""

_SIGNER = re.compile(rb'Good "%s" signature with \S+ key (SHA256:\S+)' % NAMESPACE.encode())
_KEY = re.compile(rb"[0-9]+ (SHA256:\S+) ")
_PASSPHRASE = "the key has a passphrase: sign with ssh-keygen -Y sign -n fabric-certificate -f KEY certificate.json"


def sign(message: bytes, key: Path) -> bytes:
    """Return the armoured signature of a message; raise ConfigError for a key that cannot sign it."""
    result = _ssh_keygen(message, "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key))
    if result.returncode == 0 and result.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        return result.stdout
    text = _PASSPHRASE if b"passphrase" in result.stderr else f"cannot sign with it: {_first_complaint(result)}"
    raise ConfigError.at(key, text)


def signer(message: bytes, signature: bytes) -> str | None:
    """
    Return the fingerprint of the key that made this signature, or None if it is not of this message.

    Raises StoreError if it cannot be read as a signature of a certificate: another kind, or another purpose.
    """
    with TemporaryDirectory(prefix="fabric-") as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        result = _ssh_keygen(message, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(file))
    if result.returncode == 0 and (found := _SIGNER.match(result.stdout)):
        return found[1].decode()
    if b"incorrect signature" in result.stderr:
        return None
    raise StoreError(f"no SSH signature of a certificate: {_first_complaint(result)}")


def fingerprint(public: bytes, where: str) -> str:
    """Return ``SHA256:...`` of a public key, the line in a .pub file; raise ConfigError for anything else."""
    found = _KEY.match(_ssh_keygen(public, "-l", "-E", "sha256", "-f", "-").stdout)
    if found is None or len(public.splitlines()) > 1:
        text = f"no public key: expected a line 'ssh-ed25519 AAAA...', got {public[:40].decode('utf-8', 'replace')!r}"
        raise ConfigError.at(where, text)
    return found[1].decode()


def _ssh_keygen(message: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen; raise StoreError if it is missing or does not answer."""
    environment = {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
    try:
        return subprocess.run(
            ("ssh-keygen", *words),
            input=message,
            capture_output=True,
            timeout=TIMEOUT_S,
            env=environment,
            start_new_session=True,  # no terminal, so that it cannot ask for a passphrase
        )
    except FileNotFoundError as exc:
        raise StoreError("ssh-keygen is not there: install OpenSSH, 8.2 or newer") from exc
    except (OSError, subprocess.SubprocessError) as exc:
        raise StoreError(f"ssh-keygen cannot be run: {exc}") from exc


def _first_complaint(result: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line for line in result.stderr.decode("utf-8", "replace").splitlines() if line.strip(" @")]
    return lines[0].strip()[:200] if lines else f"ssh-keygen ended with {result.returncode}"


NAME, HTML = "certificate.json", "certificate.html"
SHA256, SIGNATURE = f"{NAME}.sha256", f"{NAME}.sig"
MOST_BYTES = 256 << 20
"""A larger certificate is not read (a choice: 72 h of burn-in of 2,048 hosts leave 600,000 files: 120 MB)."""

MOST_VALUES = 4_000_000
"""A certificate with more values is not read either (a choice: five a file): each may fill 200 bytes of memory."""

MOST_LINES = 100
"""The most problems that are listed (a choice)."""

MOST_MORE_BYTES = 1 << 20
"""A derived document is not read if it is this much larger than twice its expected size."""

COPIED = ("run", "began", "hosts", "backend", "simulated")
"""Fields copied from run.json: they are the same with every version of this tool."""

FILES_ONLY = "the run's files are not here: what it says cannot be computed again"
_AGAIN = {VERDICT: "fabric analyze RUN makes it again", DECISION: "fabric report RUN makes it again"}
_KEY_BYTES = 1 << 20
_LONGEST = 200
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}")


@dataclass(slots=True)
class Verified:
    """
    What was found: *problems* make the certificate untrue, *open* could not be checked, *notes* are remarks.

    *result* is what the certificate says of the run; *signed_by* is the fingerprint of the key, empty without a
    signature.
    """

    certificate: str
    result: str
    run: str
    problems: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    signed_by: str = ""

    @property
    def exit_code(self) -> int:
        """Return 0 if all of it is true, 1 if something is not, 3 if that cannot be decided."""
        return 1 if self.problems else 3 if self.open else 0


@dataclass(frozen=True, slots=True)
class _Stated:
    """A certificate as it was read: its bytes, its content, its manifest, and the version that made it."""

    file: Path
    data: bytes
    document: Mapping[str, Any]
    files: tuple[SourceFile, ...]
    made_with: str

    @property
    def of_this_version(self) -> bool:
        return self.made_with == own_version()


def make_certificate(run: Path, *, key: Path | None) -> tuple[Path, str]:
    """
    Write certificate.json, its digest, its page and with *key* its signature; return the page's path and the result.

    The signature is what ``ssh-keygen -Y sign`` makes. Leftovers of killed writers are removed first, and the verdict
    and decision beside it are made again. Raises ConfigError for a key that cannot be used, and for a run that goes on:
    its files change, so the digest would be false a moment later. Raises StoreError when the disk refuses.
    """
    path = run_path(run)
    if holder := running(path):
        text = f"this run goes on ({holder.text}): a certificate is of a run that ended"
        raise ConfigError.at(path, f"{text}; until then: fabric report {path}")
    if key is not None:
        sign(b"", key)  # report an unusable key before anything is judged
    shown = reopened(path)
    directory = shown.past.path
    with storing(directory):
        remove_durably(leftovers(directory))
        write_durably(directory / VERDICT, verdict_bytes(shown.judged))
        write_decision(shown, directory)
        document = _document(shown, manifest(directory))
        data = encoded(document)
        signature = None if key is None else sign(data, key)
        (directory / SIGNATURE).unlink(missing_ok=True)  # an older signature is of another text
        write_durably(directory / NAME, data)
        write_durably(directory / SHA256, _digest_line(data))
        write_durably(directory / HTML, certificate_html(document).encode())
        if signature is not None:
            write_durably(directory / SIGNATURE, signature)
    return directory / HTML, str(document["result"])


def verify(path: Path, *, key: Path | None) -> Verified:
    """
    Make a certificate again from the run's files beside it, and compare all of it.

    *path* is certificate.json, certificate.html or the run directory; *key* is a public key that must have signed it.
    Raises ConfigError if it is not a certificate.
    """
    wanted = fingerprint(read_input(key, _KEY_BYTES), str(key)) if key is not None else None
    file = path / NAME if path.is_dir() else path.with_name(NAME) if path.name == HTML else path
    stated = _certificate(file)
    found = Verified(str(file), stated.document["result"][:_LONGEST], stated.document["run"][:_LONGEST])
    _own_files(stated, found)
    _signature(stated, wanted, found)
    directory = file.parent.resolve()
    if any(lexists(directory / name) for name in ("run.json", EVENTS, RAW)):
        _compared(directory, stated, found)
    else:
        found.open.append(FILES_ONLY)
    if len(found.problems) > MOST_LINES:
        found.problems[MOST_LINES:] = [f"and {len(found.problems) - MOST_LINES} more"]
    return found


def _compared(directory: Path, stated: _Stated, found: Verified) -> None:
    """Check that the run's files are those of the manifest, then judge them again and compare the result."""
    wrong = differences(stated.files, directory)
    if digest(stated.files) != stated.document["digest"].get("value"):
        wrong.append("the digest is not that of the manifest")
    found.problems += wrong
    if wrong:
        return
    if holder := running(directory):
        found.open.append(f"this run goes on ({holder.text}): ask again when it has ended")
        return
    try:
        shown = reopened(directory)
        again = _document(shown, stated.files)
    except FabricError as exc:
        found.open.append(f"the run cannot be judged again: {exc}")
        return
    _says_the_same(stated, again, found)
    beside = _beside(shown) if stated.of_this_version else {}
    found.problems += [f"{name}: {text} ({_AGAIN[name]})" for name, text in beside.items() if text]
    found.notes += _not_covered(directory, beside)


def _says_the_same(stated: _Stated, again: Mapping[str, Any], found: Verified) -> None:
    """
    Compare every field and every byte.

    Another version may judge differently, but copies the same facts.
    """
    document = stated.document
    if not stated.of_this_version:
        made, mine = stated.made_with[:40], own_version()
        found.open.append(f"cannot be told with this version: it was made with {made}, this is {mine}")
        facts = ({name: one[name] for name in COPIED if name in one} for one in (document, again))
        found.problems += differing(*facts)
        parts = ({name: one[name] for name in one if name not in (*COPIED, "versions")} for one in (document, again))
        found.notes += [f"this version says otherwise: {text}" for text in differing(*parts)]
    elif stated.data != encoded(again):
        lines = differing(document, again)
        found.problems += lines or [f"{stated.file.name}: not as it was written: other spaces, order, or a name twice"]


def _beside(shown: ShownRun) -> dict[str, str]:
    """Return how the stored verdict and decision differ from the run's files, by file; empty text if they agree."""
    directory, decision = shown.past.path, decided(shown)
    made: dict[str, Mapping[str, Any]] = {VERDICT: verdict_document(shown.judged)}
    if decision is not None:
        made[DECISION] = acceptance_document(decision)
    there = {directory / name: document for name, document in made.items() if (directory / name).exists()}
    return {file.name: _first_difference(file, document) for file, document in there.items()}


def _first_difference(file: Path, made: Mapping[str, Any]) -> str:
    """Return the first difference in a derived document; its *path* is ignored, because a run can be moved."""
    text = orjson.dumps(made, option=orjson.OPT_INDENT_2)
    try:
        data = read_plain(file, 2 * len(text) + MOST_MORE_BYTES)
        stored = orjson.loads(data)
    except OSError as exc:
        return f"cannot be read: {exc.strerror or exc}"
    except orjson.JSONDecodeError as exc:
        return f"no JSON: {exc}"
    again = orjson.loads(text)
    if isinstance(stored, dict) and isinstance(stored.get("path"), str) and "path" in again:
        again["path"] = stored["path"]
    if lines := differing(stored, again, close=True):
        return lines[0]
    same = data == orjson.dumps(stored, option=orjson.OPT_INDENT_2) + b"\n"
    return "" if same else "not as it was written: other spaces, or a name twice"


def _not_covered(directory: Path, checked: Iterable[str]) -> list[str]:
    """Return a note of derived files that were not checked: anybody may have changed them."""
    others = DERIVED.difference((NAME, HTML, SHA256, SIGNATURE), checked)
    beside = ", ".join(sorted(name for name in others if (directory / name).exists()))
    note = f"not looked at, fabric report RUN --html and fabric analyze RUN make them again: {beside}"
    return [note] if beside else []


def _document(shown: ShownRun, files: Sequence[SourceFile]) -> dict[str, Any]:
    """Return the certificate's document as a reader decodes it, with each of *files* once, sorted by path."""
    identity = read_identity(shown.past.path) or {}
    parts = [asdict(host) for host in identity.values()]
    ordered = [one for _, one in sorted({one.path: one for one in files}.items())]
    document = certificate_document(shown, decided(shown), ordered, parts, judged_with=own_version())
    found: dict[str, Any] = orjson.loads(encoded(document))
    return found


def _digest_line(data: bytes) -> bytes:
    """Return the digest as sha256sum writes it."""
    return f"{hashlib.sha256(data).hexdigest()}  {NAME}\n".encode()


def _own_files(stated: _Stated, found: Verified) -> None:
    """Check the detached digest and the page, if present; a page of another version need only contain the digest."""
    own = stated.file.name
    digest_line, page = _neighbour(stated, SHA256, found), _neighbour(stated, HTML, found)
    if digest_line is not None and digest_line != _digest_line(stated.data):
        found.problems.append(f"{own}: changed: its SHA-256 is not that of {SHA256}")
    if page is None:
        return
    hashed = hashlib.sha256(stated.data).hexdigest().encode()
    same = page == _page(stated.document) if stated.of_this_version else hashed in page
    if not same:
        found.problems.append(f"{HTML}: changed: it does not say what {own} says")


def _neighbour(stated: _Stated, name: str, found: Verified) -> bytes | None:
    """Return a file beside the certificate; None if it is absent, or unreadable, which is noted as a problem."""
    file = stated.file.with_name(name)
    if not lexists(file):
        return None
    try:
        return read_plain(file, MOST_BYTES)
    except OSError as exc:
        found.problems.append(f"{name}: cannot be read: {exc.strerror or exc}")
        return None


def _page(document: Mapping[str, Any]) -> bytes:
    """
    Return the page of a document; empty if it cannot be made, or if *hosts* are not plain names, as they get unfolded.
    """
    hosts = document.get("hosts")
    if not isinstance(hosts, list) or not all(isinstance(one, str) and _HOST.fullmatch(one) for one in hosts):
        return b""
    try:
        return certificate_html(document).encode()
    except (UndefinedError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return b""


def _signature(stated: _Stated, wanted: str | None, found: Verified) -> None:
    """Check who signed the certificate, and note problems and remarks."""
    armoured = _neighbour(stated, SIGNATURE, found)
    if armoured is None:
        if wanted is None:
            found.notes.append("not signed: whoever can write the files can write a certificate, too")
        else:
            found.problems.append("not signed")
        return
    try:
        name = signer(stated.data, armoured)
    except StoreError as exc:
        found.problems.append(f"{SIGNATURE}: {exc}")
        return
    if name is None:
        found.problems.append(f"{SIGNATURE}: not the signature of this certificate")
        return
    found.signed_by = name
    if wanted not in (None, name):
        found.problems.append(f"signed by another key: {name}, not {wanted}")
        return
    whose = ": whose key that is, --key PUB can tell" if wanted is None else ", the key that was given"
    found.notes.append(f"signed by {name}{whose}")


def _certificate(file: Path) -> _Stated:
    """Read a certificate; raise ConfigError if it is not one."""
    with reading(file):
        data = read_plain(file, MOST_BYTES)
    document = None
    if sum(map(data.count, (b",", b"[", b"{"))) <= MOST_VALUES:
        with suppress(orjson.JSONDecodeError):
            document = orjson.loads(data)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ConfigError.at(file, "no certificate (fabric report RUN --certificate makes one)")
    if document.get("format") != FORMAT:
        raise ConfigError.at(file, f"a certificate of format {str(document.get('format'))[:40]!r}, not {FORMAT}")
    kinds = {"result": str, "run": str, "versions": dict, "manifest": list, "digest": dict}
    missing = [name for name, kind in kinds.items() if not isinstance(document.get(name), kind)]
    if missing:
        raise ConfigError.at(file, f"a certificate without {', '.join(missing)}")
    made_with = document["versions"].get(JUDGED_WITH)
    if not isinstance(made_with, str):
        raise ConfigError.at(file, "a certificate that does not say which version made it")
    return _Stated(file, data, document, tuple(_source(one, file) for one in document["manifest"]), made_with)


def _source(entry: object, file: Path) -> SourceFile:
    match entry:
        case {"path": str(path), "sha256": str(sha256), "size_bytes": int(size), **rest} if not rest:
            return SourceFile(path, size, sha256)
    raise ConfigError.at(file, "no manifest as this version writes it")
