"""report.html in a real browser: filters, sorting, deep links, and nothing that was injected runs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chromium import PATH, Chromium
from fabric.report.page import page
from fabric.report.shown_run import ShownRun
from tests.report.shown import hostile

pytestmark = [pytest.mark.browser, pytest.mark.skipif(PATH is None, reason="no Chromium here")]

ROWS = "[...document.querySelectorAll('#table tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    """A browser of the test's own."""
    found = Chromium(tmp_path / "profile")
    yield found
    found.close()


@pytest.fixture
def bad_page(bad_run: ShownRun, tmp_path: Path) -> str:
    """Address of the page of the bad rack."""
    path = tmp_path / "report.html"
    path.write_text(page(bad_run))
    return path.as_uri()


def clean(browser: Chromium) -> bool:
    """No error was logged or thrown, and nothing but the file itself was asked for."""
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith(("file:", "about:"))] == []
    return True


def test_the_table_shows_what_did_not_pass_first(browser: Chromium, bad_page: str) -> None:
    browser.open(bad_page)
    rows = browser.value(ROWS)
    assert rows[0][0] == "FAIL"
    assert len(rows) == 100
    assert clean(browser)


def test_words_filter_rows(browser: Chromium, bad_page: str) -> None:
    browser.open(bad_page)
    browser.value("words.value = 'gpu003 loopback numa1'; words.dispatchEvent(new Event('input'))")
    browser.until("found.textContent.startsWith('8 of ')")
    assert {row[4] for row in browser.value(ROWS)} == {"gpu003"}
    browser.value("outcome.value = 'FAIL'; outcome.dispatchEvent(new Event('change'))")
    assert browser.value("found.textContent").startswith("0 of ")
    assert clean(browser)


def test_an_equals_sign_asks_for_a_whole_name(browser: Chromium, bad_page: str) -> None:
    browser.open(bad_page)
    browser.value("words.value = 'mlx5'; words.dispatchEvent(new Event('input'))")
    browser.until("!found.textContent.startsWith('0 of ')")
    browser.value("words.value = '=mlx5'; words.dispatchEvent(new Event('input'))")
    browser.until("found.textContent.startsWith('0 of ')")
    assert clean(browser)


def test_a_deep_link_opens_the_rows_of_that_part(browser: Chromium, bad_page: str, bad_run: ShownRun) -> None:
    browser.open(f"{bad_page}#gpu002/mlx5_3")
    rows = browser.value(ROWS)
    expected = [
        row
        for row in bad_run.rows
        if row.probe.hosts == ("gpu002",)
        and "mlx5_3" in (row.probe.params.get("rnic"), row.probe.params.get("peer_rnic"))
    ]
    assert len(rows) == len(expected) == 24
    assert {row[4] for row in rows} == {"gpu002"}
    assert clean(browser)


def test_a_click_on_a_head_sorts_by_number(browser: Chromium, bad_page: str) -> None:
    browser.open(bad_page)
    browser.value("[...document.querySelectorAll('#table th')].find(head => head.textContent === 'Gb/s').click()")
    values = [float(row[2].replace(",", "")) for row in browser.value(ROWS)]
    assert values == sorted(values)
    browser.value("document.getElementById('next').click()")
    assert browser.value("document.getElementById('where').textContent").startswith("page 2 of")
    assert clean(browser)


def test_a_suspect_leads_to_its_measurements(browser: Chromium, bad_page: str) -> None:
    browser.open(bad_page)
    browser.value("document.querySelector('button.deep').click()")
    browser.until("words.value === '=gpu002 =mlx5_3'")
    assert clean(browser)


def test_what_did_not_pass_says_why(browser: Chromium, bad_page: str) -> None:
    browser.open(bad_page)
    browser.value("outcome.value = 'FAIL'; outcome.dispatchEvent(new Event('change'))")
    rows = browser.value(ROWS)
    assert rows
    assert all("at least" in row[-1] or "normal" in row[-1] for row in rows)
    assert clean(browser)


def test_a_word_without_an_end_pushes_nothing_off_the_page(
    browser: Chromium, bad_run: ShownRun, tmp_path: Path
) -> None:
    verdict = bad_run.judged.verdict
    endless = replace(verdict.suspects[0], component="gpu002/" + "A" * 500, ambiguous_with=("B" * 500,))
    run = replace(bad_run, judged=replace(bad_run.judged, verdict=replace(verdict, suspects=(endless,))))
    path = tmp_path / "endless.html"
    path.write_text(page(run))
    browser.open(path.as_uri())
    browser.ask("Emulation.setDeviceMetricsOverride", width=1250, height=900, deviceScaleFactor=1, mobile=False)
    assert browser.value("document.querySelector('#suspects .card').getBoundingClientRect().right <= innerWidth")


def test_on_paper_a_suspect_begins_where_the_page_has_room(browser: Chromium, bad_page: str) -> None:
    """Else the first page of the print is empty below the table."""
    browser.open(bad_page)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.value("getComputedStyle(document.querySelector('article')).breakInside") == "auto"
    assert browser.value("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"


def test_injected_text_does_not_run(browser: Chromium, bad_run: ShownRun, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page(hostile(bad_run)))
    browser.open(f"{path.as_uri()}#%3Cscript%3Ewindow.owned=1%3C/script%3E")
    browser.value("words.value = '<script>'; words.dispatchEvent(new Event('input'))")
    browser.until("found.textContent.indexOf(' of ') > 0 && !found.textContent.startsWith('0 ')")
    browser.value("[...document.querySelectorAll('#table th')].forEach(head => head.click())")
    assert browser.value("typeof window.owned") == "undefined"
    assert "window.owned=1" in browser.value("document.body.textContent")
    assert clean(browser)


def test_the_policy_would_stop_what_slips_through(browser: Chromium, bad_page: str) -> None:
    """The second line of defence holds alone: an element made by hand in the page runs nothing and loads nothing."""
    browser.open(bad_page)
    image = '<img src="https://example.invalid/x.png" onerror="owned=1">'
    browser.value(f"document.body.insertAdjacentHTML('beforeend', '{image}')")
    browser.until("document.images[0].complete")
    assert browser.value("typeof window.owned") == "undefined"
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_the_head_of_a_number_stands_over_it(browser: Chromium, bad_page: str) -> None:
    browser.open(bad_page)
    align = "[...document.querySelectorAll('#table th')].map(head => getComputedStyle(head).textAlign)"
    assert browser.value(align)[1:4] == ["right"] * 3


def test_the_name_of_a_host_is_not_torn_by_a_long_reason_beside_it(browser: Chromium, bad_page: str) -> None:
    browser.ask("Emulation.setDeviceMetricsOverride", width=800, height=900, deviceScaleFactor=1, mobile=False)
    browser.open(bad_page)
    hosts = "[...document.querySelectorAll('#table td.host')].filter(cell => !/[,+]/.test(cell.textContent))"
    torn = (
        "(range => cell => (range.selectNodeContents(cell), range.getClientRects().length > 1))(document.createRange())"
    )
    assert browser.value(f"{hosts}.length") > 0
    assert browser.value(f"{hosts}.filter({torn}).map(cell => cell.textContent)") == []
    assert clean(browser)


def test_in_the_dark_every_colour_of_the_map_is_another(browser: Chromium, bad_page: str) -> None:
    """Also from the ground: what is good must not look like what was not measured."""
    browser.open(bad_page)
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    names = "['v0','v1','v2','v3','v4','v5','v6','none','paper','field']"
    read = f"{names}.map(one => getComputedStyle(document.documentElement).getPropertyValue('--' + one).trim())"
    colours = [[int(one[at : at + 2], 16) for at in (1, 3, 5)] for one in browser.value(read) if len(one) == 7]
    assert len(colours) == 10
    for number, one in enumerate(colours[:7]):
        assert min(sum(map(abs, map(int.__sub__, one, other))) for other in colours[number + 1 :]) > 50


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_runs_off_the_page_and_every_letter_can_be_read(
    browser: Chromium, bad_page: str, width: int, scheme: str
) -> None:
    """What to do is in sight also on a telephone; wide figures scroll in themselves."""
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(bad_page)
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.value("document.querySelector('.do').getBoundingClientRect().right <= innerWidth")
    assert browser.value("document.querySelector('#table').getBoundingClientRect().right <= innerWidth")
    letters = (
        "[...document.querySelectorAll('figure svg:not(.drawn) text')].map(one => one.getBoundingClientRect().height)"
    )
    assert min(browser.value(letters)) > 9
    ink = "getComputedStyle(document.querySelector('figure svg:not(.drawn) text')).fill"
    assert browser.value(ink) == browser.value("getComputedStyle(document.documentElement).color")
    assert clean(browser)


def test_on_paper_figures_fit_and_nothing_is_dark(browser: Chromium, bad_page: str) -> None:
    browser.ask(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    browser.open(bad_page)
    assert browser.value("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()") == "#ffffff"
    assert browser.value("getComputedStyle(document.getElementById('filters')).display") == "none"
    assert browser.ask("Page.printToPDF")["data"]
