"""Who is told of a failure: a command, of the first and of the end, and the run goes on whatever it does."""

import json
from pathlib import Path

import pytest

from fabric.app.run import OnFail
from fabric.errors import ConfigError
from tests.cli.command_line import called
from tests.places import SCENARIOS


def test_a_command_gets_the_first_failure_and_the_end_on_standard_input(tmp_path: Path) -> None:
    said: list[str] = []
    hook = OnFail(f"tee -a {tmp_path}/told", said.append)
    for part in ("gpu002/mlx5_3", "gpu004"):
        hook.first({"part": part})
    hook.end({"outcome": "fail"})
    told = (tmp_path / "told").read_text()
    assert '{"event":"first_fail","part":"gpu002/mlx5_3"}' in told
    assert '{"event":"end","outcome":"fail"}' in told
    assert "gpu004" not in told
    assert said == []


@pytest.mark.slow
def test_a_part_that_is_only_slow_is_told_of_when_its_phase_is_over(tmp_path: Path) -> None:
    """No tool calls it bad: of a burn-in it was told at the end of 48 hours."""
    words = ["--hosts", "gpu[002-004]", "--results", str(tmp_path / "r"), "--no-html"]
    called(["run", str(SCENARIOS / "self-check.yaml"), *words, "--on-fail", f"tee -a {tmp_path}/told"])
    first, end = (json.loads(text) for text in (tmp_path / "told").read_text().replace("}{", "}\n{").splitlines())
    assert (first["event"], first["phase"], first["part"]) == ("first_fail", "intra-host", "gpu003/mlx5_2->numa1-gpus")
    assert first["suspects"][0]["next_step"]
    assert (end["event"], end["outcome"]) == ("end", "fail")


def test_one_that_fails_is_a_note_and_no_error() -> None:
    said: list[str] = []
    OnFail("false", said.append).end({"outcome": "fail"})
    assert said == ["--on-fail: false ended with 1"]


def test_one_that_hangs_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabric.app.run.PATIENCE_S", 0.05)
    monkeypatch.setattr("fabric.app.run.TIMEOUT_S", 1.0)
    said: list[str] = []
    OnFail("sleep 30", said.append).end({})
    assert said == ["--on-fail: not done after 0.05 s; it is left to itself"]


@pytest.mark.parametrize("target", ["no-such-command-here x", "", "'unclosed"])
def test_what_cannot_be_called_is_refused_before_the_run(target: str) -> None:
    with pytest.raises(ConfigError, match="--on-fail: expected"):
        OnFail(target, print)
