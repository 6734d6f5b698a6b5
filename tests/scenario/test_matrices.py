"""The matrices of failover and retransmission, as shipped, on the simulated racks: every row ends as its page says."""

from pathlib import Path

import pytest

from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from tests.builders import asked, on_mock
from tests.places import SCENARIOS


@pytest.fixture(scope="module")
def failover(tmp_path_factory: pytest.TempPathFactory) -> JudgedRun:
    """The matrix of failover was run once."""
    return on_mock(asked(SCENARIOS / "failover-matrix.yaml"), tmp_path_factory.mktemp("failover"))


def gbps(judged: JudgedRun, phase: str) -> float:
    """What a phase of the first round reached; 0 where it was given up."""
    found = [one for one in judged.verdict.probes if one.probe_id.startswith(f"{phase}/")]
    return found[0].value_gbps or 0.0


@pytest.mark.slow
def test_every_row_of_the_failover_matrix_ends_as_expected(failover: JudgedRun) -> None:
    """Given up without failover, half of the bandwidth with it, and all of it again with recovery."""
    assert {one.outcome for one in failover.verdict.expectations} == {Outcome.PASS}


@pytest.mark.slow
@pytest.mark.parametrize("timeout", [18, 20])
def test_what_failover_keeps_follows_from_timeouts_and_half_a_pair(failover: JudgedRun, timeout: int) -> None:
    """A job of *alone* seconds stands still for eight timeouts; then it has half, to its end or until it is back."""
    whole = gbps(failover, f"whole.failover-1.recovery-0.ib_timeout-{timeout}")
    alone_s, stall_s = 175.0, 8 * 4.096e-6 * 2**timeout
    moved_s = 40.0 - stall_s
    half = gbps(failover, f"out.failover-1.recovery-0.ib_timeout-{timeout}") / whole
    back = gbps(failover, f"out.failover-1.recovery-1.ib_timeout-{timeout}") / whole
    assert half == pytest.approx(alone_s / (20.0 + stall_s + 2 * (alone_s - 20.0)), abs=0.03)
    assert back == pytest.approx(alone_s / (alone_s + stall_s + moved_s / 2), abs=0.03)
    assert gbps(failover, f"out.failover-0.recovery-1.ib_timeout-{timeout}") == 0.0


def test_a_port_of_no_pair_is_given_up_all_the_same(tmp_path: Path) -> None:
    """Failover needs two RNICs that are one to NCCL."""
    text = (SCENARIOS / "failover-matrix.yaml").read_text().replace("../inventory", str(SCENARIOS.parent / "inventory"))
    text = text.replace("mlx5_0,mlx5_1;", "").replace("ib_timeout: [18, 20]", "ib_timeout: [18]")
    text = text.replace("failover: [0, 1]", "failover: [1]").replace("rounds: 2", "rounds: 1")
    (tmp_path / "alone.yaml").write_text(text[: text.index("expect:")])
    judged = on_mock(asked(tmp_path / "alone.yaml"), tmp_path)
    assert gbps(judged, "out.failover-1.recovery-1.ib_timeout-18") == 0.0


@pytest.mark.slow
def test_every_row_of_the_retransmit_matrix_ends_as_expected(tmp_path: Path) -> None:
    """A flap beyond all retries is given up, a shorter one costs whole timeouts; selective repeat helps with losses."""
    judged = on_mock(asked(SCENARIOS / "retransmit-matrix.yaml"), tmp_path)
    assert {one.outcome for one in judged.verdict.expectations} == {Outcome.PASS}
    for timeout, retries in ((18, 7), (20, 3), (20, 7)):
        for selective, kept in (("off", 0.67), ("on", 1.0)):
            row = f"ib_timeout-{timeout}.retry_cnt-{retries}.qps-1.selective_repeat-{selective}.ar_threshold-8192"
            whole, loss, flap = (gbps(judged, f"{phase}.{row}") for phase in ("whole", "loss", "flap"))
            assert loss / whole == pytest.approx(kept, abs=0.02)
            assert flap / whole == pytest.approx(0.95, abs=0.03)
