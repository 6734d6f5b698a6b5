"""Certificates of whole runs: what they say, and that nothing can be changed behind their back."""

import shutil
from pathlib import Path

import orjson
import pytest

from benchmarks.certificate_mutations import (
    FIELDS,
    STORIES,
    Mutation,
    code_of,
    document_of,
    edited,
    forge,
    seal,
)
from fabric.app.verify import FILES_ONLY, HTML, NAME, SHA256, SIGNATURE, make_certificate, verify
from fabric.errors import ConfigError
from fabric.report.certificate import encoded
from fabric.runs.manifest import DERIVED
from fabric.runs.run_lock import holding
from tests.app.test_signature import new_key
from tests.scenario.repaired_rack import BAD, checked


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A failed run of two hosts with a signed certificate, and the public key; tests take copies."""
    folder = tmp_path_factory.mktemp("certified")
    made = checked(folder, BAD, hosts="gpu[003-004]")
    run = folder / made.name
    made.rename(run)
    private = new_key(folder)
    public = private.with_name("key.pub")
    make_certificate(run, key=private)
    return run, public


@pytest.fixture
def signed(certified: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of it, and the public key."""
    run, public = certified
    shutil.copytree(run, tmp_path / run.name)
    return tmp_path / run.name, public


@pytest.mark.slow
def test_a_certificate_that_nobody_touched_is_true(signed: tuple[Path, Path]) -> None:
    run, public = signed
    for path in (run, run / NAME, run / HTML):
        found = verify(path, key=public)
        assert found.exit_code == 0, found.problems
        assert found.signed_by.startswith("SHA256:")


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
    assert document["coverage"]["probes_measured"] == document["coverage"]["probes_planned"] == 2 * (80 + 56)


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


FORGERIES = (*(edited((name,), "altered", 1, sealed=True) for name in FIELDS[:4]), *STORIES)
"""Of what benchmarks/certificate_mutations.py writes out; it does all of them, and draws hundreds more."""


@pytest.mark.slow
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda one: one.name)
def test_no_forgery_is_told_ok(signed: tuple[Path, Path], forgery: Mutation) -> None:
    """Nor does one break it: not true, no certificate, or not to be told."""
    run, _ = signed
    forgery.change(run)
    assert code_of(run) in (1, 2, 3)


def test_a_field_that_was_rewritten_is_named_with_both_values(signed: tuple[Path, Path]) -> None:
    """Whoever changes it can change its digest and its page, too: what the run's files say cannot be argued with."""
    run, _ = signed
    document = document_of(run)
    began, took_s = document["began"], document["duration_s"]
    document |= {"result": "PASSED", "began": "2020", "duration_s": 172800.0, "note": "seen by the owner"}
    del document["changes"]
    document["complete"] = False
    document["coverage"]["probes_measured"] += 1
    forge(run, document)
    assert verify(run, key=None).problems == [
        f'began: it says "2020", the run\'s files say "{began}"',
        "changes: it says nothing, the run's files say a list of 0",
        "complete: it says false, the run's files say true",
        "coverage.probes_measured: it says 273, the run's files say 272",
        f"duration_s: it says 172800.0, the run's files say {took_s}",
        'note: it says "seen by the owner", the run\'s files say nothing',
        'result: it says "PASSED", the run\'s files say "FAILED"',
    ]


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
    other = new_key(tmp_path, "other").with_suffix(".pub")
    assert any(text.startswith("signed by another key: SHA256:") for text in verify(run, key=other).problems)


def test_a_certificate_without_a_signature_is_refused_where_one_is_asked_for(signed: tuple[Path, Path]) -> None:
    run, public = signed
    make_certificate(run, key=None)
    assert not (run / SIGNATURE).exists()
    assert verify(run, key=None).exit_code == 0
    assert verify(run, key=public).problems == ["not signed"]


def test_without_the_runs_files_it_cannot_be_told(signed: tuple[Path, Path], tmp_path: Path) -> None:
    run, public = signed
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in (NAME, SHA256, SIGNATURE):
        shutil.copy(run / name, alone / name)
    found = verify(alone / NAME, key=public)
    assert found.exit_code == 3
    assert found.open == [FILES_ONLY]


def test_alone_and_with_a_forged_page_it_is_not_true(signed: tuple[Path, Path], tmp_path: Path) -> None:
    """Nor is a name of many hosts unfolded to make the page again."""
    run, _ = signed
    for name in (NAME, HTML, SHA256, SIGNATURE):
        (tmp_path / "alone").mkdir(exist_ok=True)
        shutil.copy(run / name, tmp_path / "alone" / name)
    forge(tmp_path / "alone", {**document_of(run), "simulated": False})
    assert verify(tmp_path / "alone", key=None).exit_code == 3
    shutil.copy(run / HTML, tmp_path / "alone" / HTML)
    assert verify(tmp_path / "alone" / HTML, key=None).exit_code == 1
    seal(tmp_path / "alone", encoded({**document_of(run), "hosts": ["gpu[1-999999999]"]}))
    assert verify(tmp_path / "alone", key=None).problems == [f"{HTML}: changed: it does not say what {NAME} says"]


@pytest.mark.slow
def test_a_verdict_beside_it_that_says_something_else_is_not_true(signed: tuple[Path, Path]) -> None:
    """A program reads verdict.json, and not the certificate."""
    run, _ = signed
    file = run / "verdict.json"
    before = file.read_bytes()
    for other, said in (
        (
            before.replace(b'"outcome": "fail"', b'"outcome": "pass"', 1),
            'outcome: it says "pass", the run\'s files say',
        ),
        (b"{", "no JSON"),
        (before + b" ", "not as it was written"),
        (b" " * (len(before) * 3 + (1 << 20)), "cannot be read: larger"),
    ):
        file.write_bytes(other)
        (problem,) = verify(run, key=None).problems
        assert said in problem
        assert "(fabric analyze RUN makes it again)" in problem
    make_certificate(run, key=None)
    own_path = {"path": str(run)}
    assert orjson.loads(file.read_bytes()) == {**orjson.loads(before), **own_path}
    assert verify(run, key=None).exit_code == 0


def test_of_a_run_that_goes_on_it_cannot_be_told(signed: tuple[Path, Path], tmp_path: Path) -> None:
    run, _ = signed
    place = tmp_path / "results" / "check" / run.name
    shutil.copytree(run, place)
    with holding(tmp_path / "results", "check", ["gpu001"], run=run.name):
        assert verify(place, key=None).exit_code == 3
    assert verify(place, key=None).exit_code == 0


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


def test_a_run_that_goes_on_gets_no_certificate(certified: tuple[Path, Path], tmp_path: Path) -> None:
    """Its digest would be false with the next probe."""
    run = tmp_path / "results" / "check" / certified[0].name
    shutil.copytree(certified[0], run, ignore=shutil.ignore_patterns(NAME, HTML, SHA256, SIGNATURE))
    with holding(tmp_path / "results", "check", ["gpu001"], run=run.name):
        with pytest.raises(ConfigError, match="this run goes on"):
            make_certificate(run, key=None)
        assert not (run / NAME).exists()
    make_certificate(run, key=None)
