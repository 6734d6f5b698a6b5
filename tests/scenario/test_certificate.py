"""Certificates of whole runs: what they say, and that nothing can be changed behind their back."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fabric.app_verify import FILES_ONLY, HTML, NAME, SHA256, SIGNATURE, make_certificate, verify
from fabric.errors import ConfigError
from fabric.store.manifest import DERIVED
from fabric.store.run_lock import holding
from tests.scenario.repaired_rack import BAD, checked, validated


def _key(folder: Path, name: str) -> tuple[Path, Path]:
    """A private and a public key, as ssh-keygen makes them."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / name, folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" somebody\n")
    return private, public


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checked(tmp_path_factory.mktemp("failed"), BAD)


@pytest.fixture
def signed(failed: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the failed run with a signed certificate, and the public key."""
    run = tmp_path / failed.name
    shutil.copytree(failed, run)
    private, public = _key(tmp_path, "key")
    make_certificate(run, key=private)
    return run, public


def test_a_certificate_that_nobody_touched_is_true(signed: tuple[Path, Path]) -> None:
    run, public = signed
    for path in (run, run / NAME, run / HTML):
        found = verify(path, key=public)
        assert found.exit_code == 0, found.problems
        assert found.signed_by.startswith("SHA256:")


def test_a_failed_rack_has_a_certificate_that_says_failed_and_never_accepted(signed: tuple[Path, Path]) -> None:
    run, _ = signed
    document = orjson.loads((run / NAME).read_bytes())
    assert document["result"] == "FAILED"
    assert [one["component"] for one in document["suspects"]] == ["gpu003/mlx5_3"]
    for name in (NAME, HTML):
        text = (run / name).read_text("utf-8").lower()
        assert "accept" not in text
        assert "passed" not in text


def test_it_says_limits_with_sources_versions_parts_and_that_nothing_real_was_tested(signed: tuple[Path, Path]) -> None:
    run, _ = signed
    document = orjson.loads((run / NAME).read_bytes())
    limits = [limit for baseline in document["limits"] for limit in baseline["limits"]]
    assert limits
    assert all(limit["source"] for limit in limits)
    assert document["simulated"] is True
    assert "SIMULATED" in (run / HTML).read_text("utf-8")
    assert document["versions"]["fabric-testbench"]
    assert len(document["identity"][0]["parts"]) == 24
    assert document["coverage"]["probes_measured"] == document["coverage"]["probes_planned"] == 4 * (80 + 56)


def test_every_source_file_that_is_changed_is_named(signed: tuple[Path, Path]) -> None:
    run, public = signed
    sources = [path for path in run.rglob("*") if path.is_file() and path.name not in DERIVED]
    assert len(sources) >= 4
    for path in sources:
        before = path.read_bytes()
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        found = verify(run, key=public)
        assert found.exit_code == 1
        assert f"{path.relative_to(run).as_posix()}: changed" in found.problems
        path.write_bytes(before)
    assert verify(run, key=public).exit_code == 0


def test_a_file_that_is_missing_and_one_that_was_added_are_named(signed: tuple[Path, Path]) -> None:
    run, _ = signed
    (run / "identity.json").rename(run / "other.json")
    found = verify(run, key=None)
    assert {"identity.json: missing", "other.json: was not there"} <= set(found.problems)


def test_a_certificate_that_was_rewritten_is_caught_by_the_run_itself(signed: tuple[Path, Path]) -> None:
    """Whoever changes it can change its digest and its page, too: what the run's files say cannot be argued with."""
    from hashlib import sha256

    from fabric.report.certificate import encoded
    from fabric.report.certificate_html import certificate_html

    run, _ = signed
    document = orjson.loads((run / NAME).read_bytes())
    document["result"], document["suspects"] = "PASSED", []
    (run / NAME).write_bytes(encoded(document))
    (run / SHA256).write_text(f"{sha256(encoded(document)).hexdigest()}  {NAME}\n")
    (run / HTML).write_text(certificate_html(document), "utf-8")
    (run / SIGNATURE).unlink()
    found = verify(run, key=None)
    assert found.problems == ("it says PASSED, and the run's files say FAILED",)


def test_a_rewritten_certificate_does_not_bear_its_old_signature(signed: tuple[Path, Path]) -> None:
    run, _ = signed
    (run / NAME).write_bytes((run / NAME).read_bytes().replace(b'"FAILED"', b'"PASSED"'))
    problems = " ".join(verify(run, key=None).problems)
    assert "not the signature of this certificate" in problems
    assert "its SHA-256 is not that of" in problems
    assert f"{HTML}: changed" in problems


def test_another_ones_signature_is_not_taken_for_the_one_that_is_asked_for(
    signed: tuple[Path, Path], tmp_path: Path
) -> None:
    run, _ = signed
    _, other = _key(tmp_path, "other")
    assert any(text.startswith("signed by another key: SHA256:") for text in verify(run, key=other).problems)


def test_a_certificate_without_a_signature_is_refused_where_one_is_asked_for(signed: tuple[Path, Path]) -> None:
    run, public = signed
    make_certificate(run, key=None)
    assert not (run / SIGNATURE).exists()
    assert verify(run, key=None).exit_code == 0
    assert verify(run, key=public).problems == ("not signed",)


def test_without_the_runs_files_it_cannot_be_told(signed: tuple[Path, Path], tmp_path: Path) -> None:
    run, public = signed
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in (NAME, SHA256, SIGNATURE):
        shutil.copy(run / name, alone / name)
    found = verify(alone / NAME, key=public)
    assert found.exit_code == 3
    assert found.open == (FILES_ONLY,)


def test_what_is_derived_may_be_made_again(signed: tuple[Path, Path]) -> None:
    run, public = signed
    (run / "verdict.json").write_text("{}")
    (run / "measurements.parquet").unlink()
    assert verify(run, key=public).exit_code == 0


def test_what_is_not_looked_at_is_said(signed: tuple[Path, Path]) -> None:
    run, _ = signed
    (run / "verdict.json").write_bytes(b"{}")
    (line,) = (text for text in verify(run, key=None).notes if text.startswith("not looked at"))
    assert "verdict.json" in line
    assert "certificate" not in line


def test_an_interrupted_run_has_not_passed(tmp_path: Path) -> None:
    run = checked(tmp_path)
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    assert make_certificate(run, key=None)[1] == "INCONCLUSIVE"


def test_the_certificate_of_a_repaired_host_says_the_decision(failed: Path) -> None:
    path, found = validated(failed, "gpu003/mlx5_3:replaced")
    _, result = make_certificate(path, key=None)
    document = orjson.loads((path / NAME).read_bytes())
    assert (result, document["decision"]["decision"]) == ("PASSED", "PASSED")
    assert document["decision"]["parts"] == list(found.parts)
    path, _ = validated(failed, BAD, "gpu003/mlx5_5:replaced")
    assert make_certificate(path, key=None)[1] == "FAILED"
    assert "the wrong part was replaced" in (path / HTML).read_text("utf-8")
    assert "accept" not in (path / HTML).read_text("utf-8").lower()


def test_what_is_no_certificate_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in (
        "{}",
        "not JSON",
        '{"kind":"fabric-certificate","format":99}',
        '{"kind":"fabric-certificate","format":1}',
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match="certificate"):
            verify(path, key=None)
    with pytest.raises(ConfigError, match="cannot read"):
        verify(tmp_path / "nothing.json", key=None)


def test_a_run_that_goes_on_gets_no_certificate(failed: Path, tmp_path: Path) -> None:
    """Its digest would be false with the next probe."""
    run = tmp_path / "results" / "check" / failed.name
    shutil.copytree(failed, run)
    with holding(tmp_path / "results", "check", ["gpu001"], run=run.name):
        with pytest.raises(ConfigError, match="this run goes on"):
            make_certificate(run, key=None)
        assert not (run / NAME).exists()
    make_certificate(run, key=None)
