"""The numbers against a suspect: each told apart, and none that looks like evidence where it is none."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.html import strip
from fabric.report.html.page import page
from fabric.report.shown_run import ShownRun

PAIRS = (("gpu001", "gpu002"), ("gpu001", "gpu003"), ("gpu002", "gpu003"))
GOOD_ALONE = "the evidence is in the lines above, not in the bandwidth"


def suspect_of(run: ShownRun, outcome: Outcome) -> Suspect:
    """A port that is accused by probes of one outcome."""
    probes = [row.probe.probe_id for row in run.rows if row.verdict.outcome is outcome and row.probe.kind == "loopback"]
    return Suspect(
        "gpu002/mlx5_3:port", "link", Outcome.FAIL, 0.8, ("4 times down",), (), "", ("gpu002",), (*probes[:3],)
    )


def accused(run: ShownRun, suspect: Suspect) -> ShownRun:
    """The same run with this suspect alone."""
    return replace(run, judged=replace(run.judged, verdict=replace(run.judged.verdict, suspects=(suspect,))))


def test_good_numbers_of_a_suspect_are_said_to_be_no_evidence(bad_run: ShownRun) -> None:
    """A port that went down: what failed with it has its full bandwidth."""
    assert GOOD_ALONE in page(accused(bad_run, suspect_of(bad_run, Outcome.PASS)))
    assert GOOD_ALONE not in page(accused(bad_run, suspect_of(bad_run, Outcome.FAIL)))


def test_probes_of_two_rounds_are_told_apart(bad_run: ShownRun) -> None:
    first, second, _ = suspect_of(bad_run, Outcome.FAIL).probes
    row = bad_run.row_of[first]
    again = replace(row.probe, probe_id=f"soak-r2/{first.partition('/')[2]}", phase="soak-r2")
    rows = [row, row._replace(probe=again), bad_run.row_of[second]]
    assert strip.names(rows) == [first, again.probe_id, second.partition("/")[2]]


def test_without_peers_the_legend_has_none(bad_run: ShownRun) -> None:
    suspect = suspect_of(bad_run, Outcome.FAIL)
    rows = [bad_run.row_of[probe] for probe in suspect.probes]
    beside = "the same elsewhere"
    assert beside in str(strip.evidence(suspect, bad_run, strip.elsewhere(rows, bad_run)))
    assert beside not in str(strip.evidence(suspect, bad_run, {}))


def test_what_another_suspect_made_slow_is_no_peer(bad_run: ShownRun) -> None:
    """Else the bar of what is normal reaches down to the numbers of a bad leaf."""
    suspect = suspect_of(bad_run, Outcome.FAIL)
    rows = [bad_run.row_of[probe] for probe in suspect.probes]
    label = strip.peer_label(rows[0])
    other = next(
        row for row in bad_run.rows if strip.peer_label(row) == label and row.probe.hosts != rows[0].probe.hosts
    )
    second = replace(suspect, component=f"{other.probe.hosts[0]}/mlx5_3", probes=(other.probe.probe_id,))
    verdict = replace(bad_run.judged.verdict, suspects=(suspect, second))
    both = replace(bad_run, judged=replace(bad_run.judged, verdict=verdict))
    hosts = [hosts for _, hosts in strip.elsewhere(rows, both)[label]]
    assert other.probe.hosts not in hosts
    assert len(hosts) == len(strip.elsewhere(rows, accused(bad_run, suspect))[label]) - 1


def test_a_part_that_all_hosts_measured_with_has_peers(bad_run: ShownRun) -> None:
    """Its partners are not suspected: what they reach without it is the measure."""
    rows = [row for row in bad_run.rows if len(row.probe.hosts) == 2 and row.verdict.value_gbps is not None]
    measured = {strip.peer_label(rows[0]): [(300.0 + number, hosts) for number, hosts in enumerate(PAIRS)]}
    row = rows[0]._replace(probe=replace(rows[0].probe, hosts=("gpu001", "gpu002")))
    suspect = replace(suspect_of(bad_run, Outcome.FAIL), hosts=("gpu001",), probes=(row.probe.probe_id,))
    run = accused(bad_run, suspect)
    run.__dict__["row_of"] = {row.probe.probe_id: row}
    assert "the same elsewhere" in str(strip.evidence(suspect, run, measured))
    assert strip.peers_of(measured[strip.peer_label(row)], suspect, {"gpu001"}) == strip.PeerBand(302.0, 302.0, 302.0)


def test_the_worst_of_many_is_drawn_first(bad_run: ShownRun) -> None:
    """Of a course over hours the first bad probes are the best of the bad ones."""
    suspect = suspect_of(bad_run, Outcome.FAIL)
    worst = suspect.probes[-1]
    verdict = bad_run.judged.verdict
    probes = tuple(replace(one, value_gbps=50.0) if one.probe_id == worst else one for one in verdict.probes)
    run = replace(bad_run, judged=replace(bad_run.judged, verdict=replace(verdict, probes=probes)))
    drawn = str(strip.evidence(suspect, run, {}))
    assert min(drawn.index(f"{probe}: ") for probe in suspect.probes) == drawn.index(f"{worst}: 50.0 Gb/s")
