"""report.html: one file, nothing from outside, nothing that a host printed is believed; the figures of a run."""

import re
import shutil
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zlib import decompress

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from fabric.app.analyze import draw_figures, reopened
from fabric.cli.main import main
from fabric.errors import ConfigError, StoreError
from fabric.model.outcome import Outcome, Reason
from fabric.model.verdict import Suspect
from fabric.report import table as tables
from fabric.report.output import visible
from fabric.report.page import page, pictures, racks_of
from fabric.report.shown_run import ShownRun
from fabric.report.table import table
from tests.report.figures.seen import texts
from tests.report.shown import HOSTILE, framed, hostile, pair, run_of, sample


class Seen(HTMLParser):
    """Tags with their attributes, and the text of the page that a person reads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._silent = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        """What follows is read by people again."""
        self._silent = False

    def handle_data(self, data: str) -> None:
        """Keep what is no script and no style."""
        if not self._silent:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All words with single spaces."""
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def bad_page(bad_run: ShownRun) -> str:
    """The page of the bad rack."""
    return page(bad_run)


@pytest.fixture(scope="module")
def changed_page(changed_run: ShownRun) -> str:
    """The page of a scenario with changes."""
    return page(changed_run)


def test_verdict_suspect_confidence_and_advice_come_first(bad_page: str) -> None:
    words = Seen(bad_page).text
    advice = "reseat or replace the RNIC"
    places = [words.index(part) for part in ("FAIL", "gpu002 RNIC mlx5_3", advice, "gpu002/mlx5_3", "This run")]
    assert places == sorted(places)
    assert places[2] < 900


def test_nothing_is_loaded_from_anywhere(bad_page: str) -> None:
    seen = Seen(bad_page)
    links = [value for _, attributes in seen.tags for key, value in attributes.items() if key in ("src", "href")]
    assert [link for link in links if not str(link).startswith("#")] == []
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in seen.tags}
    assert "url(" not in bad_page
    assert "@import" not in bad_page


def test_policy_names_the_script_by_its_hash(bad_page: str) -> None:
    script = re.findall(r"<script>(.*?)</script>", bad_page, flags=re.DOTALL)
    policy = next(a["content"] for tag, a in Seen(bad_page).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert len(script) == 1
    assert f"script-src 'sha256-{b64encode(sha256(script[0].encode()).digest()).decode()}'" in str(policy)
    assert str(policy).startswith("default-src 'none'")


def test_pictures_are_well_formed(bad_page: str) -> None:
    pictures = re.findall(r"<svg.*?</svg>", bad_page, flags=re.DOTALL)
    assert len(pictures) >= 5
    for picture in pictures:
        assert ElementTree.fromstring(picture).get("aria-label")


@pytest.mark.slow
def test_hostile_text_makes_no_tag_and_no_handler_and_is_bounded(bad_run: ShownRun) -> None:
    text = page(hostile(bad_run))
    seen = Seen(text)
    assert "more characters)" in text
    assert not [key for _, attributes in seen.tags for key in attributes if key.startswith("on")]
    assert "img" not in {tag for tag, _ in seen.tags}
    assert sum(tag == "script" for tag, _ in seen.tags) == 2
    assert "window.owned=1" in seen.text
    assert "49" not in [word for word in seen.text.split() if "{{" in word]
    assert not re.search("[\x00-\x08\x1b\u202e]", text)
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert not {"<", ">", "&"} & set(data)
    (why,) = (column["values"] for column in orjson.loads(data)["columns"] if column["name"] == "why")
    assert set(why) == set(map(visible, HOSTILE))


def test_a_change_scenario_draws_both_figures_bands_and_intervals(changed_page: str) -> None:
    for part in ("figure 12a", "simulated", "a fault in force", "95 % interval", "With adaptive routing the job kept"):
        assert part in changed_page
    assert changed_page.index("figure 12a") < changed_page.index("Nothing is suspected")
    assert "figure 12b" not in changed_page


@pytest.mark.slow
def test_an_interrupted_run_has_a_page_that_says_so(bad_rack: Path, tmp_path: Path) -> None:
    copy = tmp_path / bad_rack.name
    shutil.copytree(bad_rack, copy)
    lines = (copy / "events.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "events.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]))
    half = reopened(copy)
    text = page(half)
    assert "The run was interrupted" in text
    assert f"<code>fabric resume {copy}</code>" in text
    with_yes = page(replace(half, judged=replace(half.judged, go_on=f"fabric resume {copy} --yes")))
    assert f"<code>fabric resume {copy} --yes</code>" in with_yes
    assert "the run ended before everything was measured" in text


@pytest.mark.slow
def test_one_host_has_a_page(tmp_path: Path) -> None:
    text = page(reopened(run_of(tmp_path, hosts="gpu001", reports=False)))
    assert '<section id="hosts">' in text


@pytest.mark.slow
def test_a_run_writes_its_reports(bad_rack: Path) -> None:
    assert {"report.html", "junit.xml", "metrics.prom", "summary.md"} <= {path.name for path in bad_rack.iterdir()}
    assert (bad_rack / "report.html").read_text() == page(reopened(bad_rack))


def test_the_first_line_names_the_suspect(bad_page: str) -> None:
    found = re.search(r"<h1>(.*?)</h1>", bad_page, re.DOTALL)
    assert found is not None
    assert "the fabric is bad. " in found[1]
    assert found[1].endswith("1 fault: gpu002 RNIC mlx5_3</span>")


def test_changes_and_expectations_are_counted_above_everything(changed_page: str) -> None:
    words = Seen(changed_page).text
    said = "24 changes made on purpose, all taken back; 3 of 3 expectations met."
    assert words.index(said) < words.index("Nothing is suspected")


@pytest.mark.slow
def test_the_detail_of_a_reason_is_set_below_it(bad_run: ShownRun) -> None:
    verdict = replace(bad_run.judged.verdict, reasons=(Reason("SKIPPED: 4 of 10"), Reason("  gpu003: did not pass")))
    shown = page(replace(bad_run, judged=replace(bad_run.judged, verdict=verdict)))
    assert "<li>SKIPPED: 4 of 10</li>" in shown
    assert '<li class="under">  gpu003: did not pass</li>' in shown


def unpacked(document: dict[str, Any], name: str) -> list[Any]:
    """A column as the page reads it; None where it has no value."""
    column = next(one for one in document["columns"] if one["name"] == name)
    codes = np.frombuffer(decompress(b64decode(column["data"])), f"<u{column['bytes']}")
    return [None if code == 0 else column["values"][code - 1] for code in codes]


def test_every_measurement_is_in_it(bad_run: ShownRun) -> None:
    document, frame = table(bad_run.frames), bad_run.frames.samples
    assert document["rows"] == len(frame)
    assert document["left_out"] == 0
    found = sorted(
        zip(unpacked(document, "kind"), unpacked(document, "series"), unpacked(document, "Gb/s"), strict=True), key=str
    )
    assert found == sorted(
        zip(
            frame["kind"],
            frame["series"],
            [None if value != value else value for value in frame["gbps"].round(1)],
            strict=True,
        ),
        key=str,
    )


def test_the_worst_comes_first_with_a_reason() -> None:
    rows = [
        sample("a", 400.0),
        sample("b", 200.0, outcome="fail", reason="200 of 390"),
        sample("c", 120.0, outcome="fail", reason="120 of 390"),
        sample("d", None, outcome="error", reason="no answer"),
        sample("e", 396.0, reason="judged by what is expected"),
    ]
    document = table(framed(samples=rows))
    assert unpacked(document, "why") == ["120 of 390", "200 of 390", "no answer", None, None]
    assert unpacked(document, "outcome") == ["FAIL", "FAIL", "ERROR", "PASS", "PASS"]
    assert unpacked(document, "% of normal") == [30.0, 50.0, None, 99.0, 100.0]


def test_two_hosts_stand_beside_each_other_and_more_are_found_by_their_names() -> None:
    rows = [pair("a", "gpu002", "gpu001"), sample("b", host=None, hosts="gpu[001-004]"), sample("c", host="gpu003")]
    document = table(framed(samples=rows))
    assert set(unpacked(document, "host")) == {"gpu002 + gpu001", "gpu[001-004]", "gpu003"}
    assert list(document["members"].values()) == [("gpu001", "gpu002", "gpu003", "gpu004")]


def test_of_too_many_rows_the_worst_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    rows = [sample(f"p/{number}", 400.0 - number, outcome="fail" if number == 3 else "pass") for number in range(5)]
    document = table(framed(samples=rows))
    assert document["left_out"] == 3
    assert unpacked(document, "Gb/s") == [397.0, 396.0]


def test_many_different_reasons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_REASONS", 5)
    rows = [sample(f"p/{number}", None, outcome="error", reason=f"{number} {'x' * 5000}") for number in range(9)]
    reasons = unpacked(table(framed(samples=rows)), "why")
    assert len(set(reasons)) == 6
    assert max(map(len, reasons)) <= 240
    assert reasons.count("see verdict.json") == 4


def names(run: ShownRun) -> list[str]:
    """Of all figures, in order."""
    return [one.name for one in pictures(run)]


def test_a_suspect_has_its_evidence_and_its_loopbacks_first(bad_run: ShownRun) -> None:
    found = names(bad_run)
    assert found[:2] == ["suspect-1", "loopback-1"]
    assert {"hosts", "pairs-tor_all_reduce", "timeline"} <= set(found)
    assert len(found) == len(set(found))


def test_good_numbers_of_a_suspect_are_said_to_be_no_evidence(bad_run: ShownRun) -> None:
    """A port that went down: what failed with it has its full bandwidth."""
    for outcome, none in ((Outcome.PASS, True), (Outcome.FAIL, False)):
        rows = [row for row in bad_run.rows if row.verdict.outcome is outcome and row.probe.kind == "loopback"]
        probes = tuple(row.probe.probe_id for row in rows[:3])
        one = Suspect("gpu002/mlx5_3:port", "link", Outcome.FAIL, 0.8, (), (), "", ("gpu002",), probes)
        verdict = replace(bad_run.judged.verdict, suspects=(one,))
        first = next(pictures(replace(bad_run, judged=replace(bad_run.judged, verdict=verdict))))
        assert first.words.startswith("All of these met what is required") is none


def test_within_a_run_figures_lie_in_their_own_folder_alone(bad_run: ShownRun) -> None:
    """A certificate knows that one as derived; files anywhere else it would miss."""
    for folder in ("", "pictures", "figures/old"):
        with pytest.raises(ConfigError, match=r"only .* is for figures"):
            draw_figures(bad_run, Path(bad_run.judged.path) / folder)


def test_of_a_run_with_faults_the_answer_comes_before_what_is_normal(changed_run: ShownRun) -> None:
    found = names(changed_run)
    assert found[0] == "bars-group_all_reduce"
    assert "timeline" in found


def test_racks_are_in_the_order_of_the_inventory(bad_run: ShownRun) -> None:
    topology = bad_run.past.inventory.topology
    assert list(racks_of(topology, bad_run.judged.scenario.hosts)) == ["r0"]
    bare = {name: replace(host, rack=None) for name, host in topology.hosts.items()}
    assert list(racks_of(replace(topology, hosts=bare), ["gpu001"])) == [topology.hosts["gpu001"].leaves[0]]


@pytest.mark.slow
def test_words_that_mean_harm_stay_words(bad_run: ShownRun) -> None:
    for one in pictures(hostile(bad_run)):
        assert all("\x1b" not in text and "\u202e" not in text for text in texts(one.figure))


@pytest.mark.slow
def test_every_figure_is_written_as_png_and_svg(bad_rack: Path, bad_run: ShownRun, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", str(bad_rack), "--figures", str(tmp_path / "slides")])
    assert done.exit_code == 0
    written = {path.name for path in (tmp_path / "slides").iterdir()}
    assert written == {f"{name}.{kind}" for name in names(bad_run) for kind in ("png", "svg")}


def test_a_folder_that_cannot_be_written_is_said(bad_run: ShownRun) -> None:
    with pytest.raises(StoreError, match=r"^/proc/nowhere: cannot write: "):
        draw_figures(bad_run, Path("/proc/nowhere"))


def test_a_file_where_figures_should_go_is_the_command_lines_mistake(bad_run: ShownRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"^{tmp_path / 'file'}: expected a folder, got a file"):
        draw_figures(bad_run, tmp_path / "file" / "x")
