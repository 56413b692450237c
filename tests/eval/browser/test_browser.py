"""The pages in headless Chromium: no errors, no network, contents, mouse, keyboard, widths, themes."""

import json
from itertools import pairwise

import pytest

from cef_env.eval import analyse, write_report
from cef_env.eval.comparison import Result, write_comparison
from cef_env.judge.types import Outcome
from tests.eval import pages
from tests.eval.browser.chrome import find_chrome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chrome() is None, reason="no Chromium; install it: apt-get install chromium"),
]
SIZES = [(1280, 900), (360, 740)]
THEMES = ["light", "dark"]


@pytest.fixture
def samples(report_samples):
    return report_samples


@pytest.fixture
def page(report_page):
    return report_page


def text_of(chrome, selector):
    return chrome.run(f"document.querySelector({json.dumps(selector)}).textContent")


def focus_on(chrome):
    return chrome.run(
        "document.activeElement.getAttribute('aria-label') || document.activeElement.dataset.name || "
        "document.activeElement.textContent.slice(0, 40)"
    )


def rows(chrome):
    return chrome.run("[...document.querySelectorAll('#map-table tbody th')].map(h => h.textContent)")


def open_reader(chrome):
    """The cell of the first problem and the first alpha."""
    chrome.run("document.querySelector('#map-table td').focus()")
    chrome.press("Enter")
    chrome.wait_for("document.querySelector('#reader').open")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_page_is_quiet_fits_its_width_and_follows_the_theme(chrome, page, width, height, theme):
    chrome.open(page, width, height, theme)
    assert chrome.complaints == []
    # Also with everything unfolded nothing is wider than the page, except inside what scrolls by itself.
    chrome.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chrome.run("document.documentElement.scrollWidth") <= width
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert (max(chrome.run(brightness)) < 80) == (theme == "dark")
    shown = chrome.run(
        "[...document.querySelectorAll('figure > div')].filter(d => d.offsetWidth).map(d => d.className)"
    )
    assert set(shown) == {"wide" if width > 800 else "narrow"}
    assert len(shown) == 5 + 5 + 1


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_text_has_contrast_enough_where_it_stands(chrome, page, width, height, theme):
    chrome.open(page, width, height, theme)
    open_reader(chrome)
    poor = chrome.run("""(() => {
      const channels = (c) => c.match(/[\\d.]+/g).map(Number);
      const light = (c) => channels(c).slice(0, 3).map(v => v / 255)
        .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
      const ground = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor; if (channels(c)[3] !== 0) return c; } };
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
      for (let node; (node = walker.nextNode());) {
        const e = node.parentElement;
        if (!node.textContent.trim() || !e.offsetParent || e.closest('svg, :disabled, script')) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5) found.push(node.textContent.trim().slice(0, 40));
      }
      return found;
    })()""")
    assert poor == []


def test_landmarks_headings_and_names_are_there_for_those_who_listen(chrome, page):
    chrome.open(page)
    assert chrome.run("document.querySelectorAll('main').length") == 1
    levels = chrome.run("[...document.querySelectorAll('h1, h2, h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    unnamed = chrome.run("""(() => {
      const kinds = 'button, select, input, svg[role=img], [role=region], [role=grid]';
      const named = (e) => e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length;
      return [...document.querySelectorAll(kinds)].filter(e => e.offsetParent && !named(e)).length;
    })()""")
    assert unnamed == 0
    assert chrome.run("document.querySelectorAll('#map-table td[tabindex=\"0\"]').length") == 1


def test_the_first_tab_skips_to_the_findings(chrome, page):
    chrome.open(page)
    chrome.press("Tab")
    assert focus_on(chrome) == "Skip to the findings"
    assert chrome.run("document.activeElement.getBoundingClientRect().left") >= 0
    assert chrome.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    chrome.press("Enter")
    assert chrome.run("document.activeElement.id") == "main"


def test_a_claim_unfolds_by_keyboard_and_shows_the_papers_words(chrome, page):
    chrome.open(page)
    chrome.run("document.querySelector('#claim-coverage summary').focus()")
    chrome.press("Enter")
    assert chrome.run("document.querySelector('#claim-coverage details').open")
    assert "moves a checkpoint along a frontier" in text_of(chrome, "#claim-coverage .more")


def test_the_theme_button_beats_the_system_and_comes_back_to_it(chrome, page):
    chrome.open(page, theme="dark")
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--paper')"
    dark = chrome.run(paper)
    chrome.click("#theme")
    assert text_of(chrome, "#theme") == "Theme: light"
    assert chrome.run(paper) != dark
    chrome.click("#theme")
    assert text_of(chrome, "#theme") == "Theme: dark"
    assert chrome.run(paper) == dark
    chrome.click("#theme")
    assert text_of(chrome, "#theme") == "Theme: system"
    chrome.media("light")
    assert chrome.run(paper) != dark


def test_the_map_has_a_row_for_each_problem_and_a_cell_for_each_member(chrome, page):
    chrome.open(page)
    assert len(rows(chrome)) == 26
    assert chrome.run("document.querySelectorAll('#map-table td').length") == 26 * (len(pages.ALPHAS) + 1)
    assert text_of(chrome, "#map-said") == "26 of 26 problems, by difficulty (hardest first)."
    head = chrome.run("[...document.querySelectorAll('#map-table thead th')].map(h => h.textContent)")
    assert head == ["problem", "−1", "−0.5", "0", "0.5", "1", "1.5", "2", "random 1.5"]


def test_a_columns_head_sorts_by_its_solve_rate_both_ways(chrome, page, samples):
    chrome.open(page)
    solved = {}
    for s in samples:
        if s.split == "hard" and s.alpha == 1.5:
            solved[s.problem_id] = solved.get(s.problem_id, 0) + (s.outcome is Outcome.CORRECT)
    ids = (
        "[...document.querySelectorAll('#map-table tbody th')].map(h => h.querySelector('small').textContent)"
    )
    chrome.click("#map-table thead th:nth-child(7) button")
    found = [solved[id_] for id_ in chrome.run(ids)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 2
    assert chrome.run("document.querySelector('#map-table [aria-sort=descending]').textContent") == "1.5"
    chrome.press("Enter")  # the head keeps the focus
    assert [solved[id_] for id_ in chrome.run(ids)] == sorted(found)


def test_the_map_sorts_by_id_finds_and_changes_the_split(chrome, page):
    chrome.open(page)
    pick = """(() => {{
      const s = document.querySelector('{}');
      s.value = '{}';
      s.dispatchEvent(new Event('change'));
    }})()"""
    chrome.run(pick.format("#map-sort", "id"))
    assert [r for r in rows(chrome) if r.startswith("Sum of p0")] == sorted(
        r for r in rows(chrome) if r.startswith("Sum of p0")
    )
    chrome.run("document.querySelector('#map-find').focus()")
    for key in "p01":
        chrome.press(key)
    assert len(rows(chrome)) == 10
    for key in "zz":
        chrome.press(key)
    assert rows(chrome) == []
    assert text_of(chrome, "#map-said").startswith("0 of 26 problems")
    chrome.run("document.querySelector('#map-find').value = ''")
    chrome.run(pick.format("#map-split", pages.EASY))
    assert len(rows(chrome)) == 6
    assert chrome.complaints == []


def test_arrows_move_in_the_map_and_the_focus_stays_in_sight(chrome, page):
    chrome.open(page, 360, 740)
    chrome.run("document.querySelector('#map-table td').focus()")
    assert focus_on(chrome).startswith("α = −1: ")
    for key, start in [
        ("ArrowRight", "α = −0.5: "), ("End", "random 1.5: "), ("ArrowRight", "random 1.5: "),
        ("ArrowDown", "random 1.5: "), ("Home", "α = −1: "), ("PageDown", "α = −1: "),
    ]:  # fmt: skip
        chrome.press(key)
        assert focus_on(chrome).startswith(start)
    assert chrome.run("document.activeElement.parentElement.rowIndex") == 12
    chrome.press("End")
    edges = "(b => [b.left, b.right])(%s.getBoundingClientRect())"
    cell = chrome.run(edges % "document.activeElement")
    frame = chrome.run(edges % "document.querySelector('#map-scroll')")
    assert frame[0] <= cell[0]
    assert cell[1] <= frame[1] + 1


def test_a_cell_opens_the_reader_and_escape_returns_to_the_cell(chrome, page):
    chrome.open(page)
    open_reader(chrome)
    cell = "document.querySelectorAll('#map-table td')[0]"
    title = text_of(chrome, "#reader-title")
    assert title in chrome.run(f"{cell}.parentElement.cells[0].textContent")
    chrome.press("Escape")
    assert not chrome.run("document.querySelector('#reader').open")
    assert chrome.run(f"document.activeElement === {cell}")
    chrome.click("#map-table tbody tr:nth-child(3) td:nth-child(4)")
    chrome.wait_for("document.querySelector('#reader').open")
    assert "α = 0, the low checkpoint" in text_of(chrome, "#reader")
    assert chrome.complaints == []


def find_cell(chrome, words):
    """Opens the reader at the first cell that has every one of some outcomes."""
    tests = " && ".join(f"c.getAttribute('aria-label').includes('{word}')" for word in words)
    chrome.run(f"[...document.querySelectorAll('#map-table td')].find(c => {tests}).focus()")
    chrome.press("Enter")
    chrome.wait_for("document.querySelector('#reader').open")


def test_the_reader_shows_program_verdicts_and_statement(chrome, page):
    chrome.open(page)
    find_cell(chrome, ["optimization failure"])
    chrome.click("[data-name='only-optimization failure']")
    assert (
        chrome.run("document.querySelector('[data-name=\"only-optimization failure\"]').ariaPressed")
        == "true"
    )
    text = text_of(chrome, "#reader")
    for part in (
        "best = max(best, sum(a[i:j + 1]) % k)",
        "✕ time limit",
        "1.200 s",
        "MiB",
        "tokens",
        "numbers",
    ):
        assert part in text
    words = chrome.run("[...document.querySelectorAll('#reader pre .word')].map(w => w.textContent)")
    assert {"import", "for", "in"} <= set(words)
    assert chrome.run("document.querySelector('#reader pre .remark').textContent") == "# two numbers"
    headers = chrome.run("[...document.querySelectorAll('#reader thead th')].map(h => h.textContent)")
    assert headers == ["test", "length", "verdict", "CPU", "memory", ""]


def test_keys_walk_through_answers_and_alphas(chrome, page):
    chrome.open(page)
    find_cell(chrome, ["correct,", "correctness failure"])
    status = lambda: text_of(chrome, "#reader [role=status]")  # noqa: E731
    many = int(status().split()[-1])
    assert many >= 2
    assert status() == f"answer 1 of {many}"
    chrome.press("ArrowRight")
    assert status() == f"answer 2 of {many}"
    for _ in range(many):
        chrome.press("ArrowRight")
    assert status() == f"answer {many} of {many}"
    chrome.press("ArrowLeft")
    assert status() == f"answer {many - 1} of {many}"
    before = text_of(chrome, "#reader .reader-head b")
    chrome.press("]")
    assert text_of(chrome, "#reader .reader-head b") != before
    chrome.press("[")
    assert text_of(chrome, "#reader .reader-head b") == before
    assert chrome.run("document.querySelector('#reader').contains(document.activeElement)")


def test_the_page_says_how_many_answers_it_holds(chrome, page, samples):
    chrome.open(page)
    digits = "".join(
        c if c.isdigit() else " " for c in text_of(chrome, "#held").replace("\u202f", "")
    ).split()
    assert int(digits[1]) == len(samples)
    assert int(digits[0]) < len(samples)


def test_hostile_texts_do_nothing_but_appear(chrome, page):
    chrome.open(page)
    assert chrome.run("document.querySelectorAll('body img, body iframe').length") == 0
    chrome.run("document.querySelector('#map-find').value = 'onerror'")
    chrome.run("document.querySelector('#map-find').dispatchEvent(new Event('input'))")
    (row,) = rows(chrome)
    assert pages.HOSTILE in row
    open_reader(chrome)
    assert pages.HOSTILE in text_of(chrome, "#reader")
    chrome.press("Escape")
    chrome.run("document.querySelector('#map-find').value = ''")
    chrome.run("document.querySelector('#map-find').dispatchEvent(new Event('input'))")
    find_cell(chrome, ["correctness failure"])
    chrome.click("[data-name='only-correctness failure']")
    assert text_of(chrome, "#reader pre").count("<script>alert(1)</script>") == 1
    assert text_of(chrome, "#reader .why").endswith(pages.HOSTILE)
    assert chrome.run("document.querySelectorAll('#reader img, #reader script').length") == 0
    # A script that got into the page in spite of all this is stopped by the policy.
    assert (
        chrome.run("""(() => { const s = document.createElement('div');
      try { s.innerHTML = '<img src=x onerror="window.hit = 1">'; } catch (e) { return e.name } })()""")
        == "TypeError"
    )
    dialogs = [e for e in chrome.events if e["method"] == "Page.javascriptDialogOpening"]
    assert dialogs == []


def test_print_has_the_findings_on_light_paper_without_controls(chrome, page):
    chrome.open(page, theme="dark")
    chrome.media("dark", "print")
    assert chrome.run("getComputedStyle(document.documentElement).getPropertyValue('--paper')") == "#fbfaf6"
    for selector in ("nav", "#theme", "section.screen"):
        assert chrome.run(f"document.querySelector('{selector}').offsetWidth") == 0
    assert chrome.run("document.querySelector('.claims').offsetWidth") > 0
    chrome.media("dark")


def test_without_answers_the_reader_says_so(chrome, samples, tmp_path):
    one_alpha = [s for s in samples if s.split != "hard" and s.alpha == 0]
    chrome.open(write_report(tmp_path, one_alpha))
    open_reader(chrome)
    assert "No answer of this cell is in this page." in text_of(chrome, "#reader")
    assert chrome.complaints == []


@pytest.fixture(scope="module")
def comparison(report_samples, tmp_path_factory):
    splits = analyse([s for s in report_samples if s.split != "hard"])
    results = [Result(f"run <{i}>", splits, {"seed": i}) for i in range(3)]
    return write_comparison(tmp_path_factory.mktemp("comparison"), results)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_comparison_is_quiet_and_fits_its_width(chrome, comparison, width, height):
    chrome.open(comparison, width, height)
    assert chrome.complaints == []
    chrome.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chrome.run("document.documentElement.scrollWidth") <= width
    assert chrome.run("document.querySelectorAll('figure').length") == 1
    assert "run <2>" in text_of(chrome, "table")
