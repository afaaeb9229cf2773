"""Outputs by runner on the pages as built: whole as text, and in the hands of a reader."""

import shutil
from pathlib import Path

import pytest
from browsing import doctor, opened
from bs4 import BeautifulSoup
from helpers import CARD, CHAPTERS, RECORDED, ROOT, build_site, dress

from tools.book.book import Book
from tools.site.merge import chapter_page

PAGE = "notebooks/computing-devices.html"  # a page with tabs
OTHER = "notebooks/tensors-on-gpus.html"  # and another


def parsed(site, name):
    return BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")


def tab_faults(page, fewest=2):
    """What is wrong with the tabs of a page; [] if each has its label, its facts and its panel."""
    faults = []
    for tabs in page.select("div.runner-outputs"):
        panels = tabs.select("[role=tabpanel]")
        buttons = tabs.select("[role=tablist] > button[role=tab]")
        if len(buttons) < fewest:
            faults.append(f"fewer tabs than {fewest}")
        if [tab.get("aria-controls") for tab in buttons] != [panel.get("id") for panel in panels]:
            faults.append("tabs and panels are not the same")
            continue
        chosen = [(tab.get("aria-selected"), tab.get("tabindex")) for tab in buttons]
        if chosen != [("true", "0")] + [("false", "-1")] * (len(buttons) - 1):
            faults.append("not the first tab is chosen")
        for tab, panel in zip(buttons, panels, strict=True):
            name = panel.select_one(".runner-name")
            around = [name, *panel.select(".runner-times")]
            printed = [box for box in panel.find_all(recursive=False) if box not in around]
            printed = "".join(box.get_text(strip=True) for box in printed)
            wrong = {
                "no label": not tab.get_text(strip=True),
                "no facts": not tab.get("title"),
                "another name over the panel": name.get_text() != tab.get_text(),
                "not labelled by its tab": panel.get("aria-labelledby") != tab.get("id"),
                "another runner": panel.get("data-runner") != tab.get("data-runner"),
                "an empty panel": not (printed or panel.select("img, svg")),
            }
            faults += [f"{tab.get('id')}: {fault}" for fault, found in wrong.items() if found]
    ids = [tag["id"] for tag in page.select(".runner-outputs [id]")]
    return faults + [f"{id}: twice" for id in set(ids) if ids.count(id) > 1]


def runners_by_cell(name):
    """The runners of each cell of a chapter that has tabs, in their order."""
    tabs = {}
    book = Book(ROOT)
    for cell in chapter_page(book.chapters[name], book).cells:
        if "runner" in cell.metadata:
            about = cell.metadata["runner"]
            tabs.setdefault(about["cell"], []).append(about["name"])
    return tabs


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_set_of_tabs_is_on_its_page_and_whole(site, name):
    page = parsed(site, f"notebooks/{name}.html")
    runners = {runner for runner, recorded in RECORDED if recorded == name}
    assert tab_faults(page, fewest=min(2, len(runners))) == []
    shown = [
        [tab["data-runner"] for tab in tabs.select("[role=tab]")]
        for tabs in page.select("div.cell > div.runner-outputs, details.covered > .runner-outputs")
    ]
    assert shown == list(runners_by_cell(name).values())
    assert bool(shown) == ("What the tabs show" in page.get_text())
    assert shown or f"notebooks/{name}.html" not in (PAGE, OTHER)


def shown_times(page):
    """What each tab says of the times above it: by set of tabs, None where it says nothing."""
    lines = []
    for tabs in page.select("div.runner-outputs"):
        panels = tabs.select("[role=tabpanel]")
        ends = [panel.find_all(recursive=False)[-1] for panel in panels]
        lines.append(
            [end.get_text() if end.get("class") == ["runner-times"] else None for end in ends]
        )
    return lines


def expected_times(name):
    """The same, by the tags of the chapter, its runners and the provenance of its recordings."""
    book = Book(ROOT)
    cells = book.chapters[name].code_cells
    tagged = {cell.id for cell in cells if "times" in cell.metadata.get("tags", [])}
    lines = []
    for id, runners in runners_by_cell(name).items():
        times = [f"Times {book.recording(each, name).times}." for each in runners]
        lines.append(times if id in tagged else [None] * len(runners))
    return lines


@pytest.mark.parametrize("name", CHAPTERS)
def test_under_times_and_nowhere_else_each_tab_says_what_they_are(site, name):
    page, expected = parsed(site, f"notebooks/{name}.html"), expected_times(name)
    assert shown_times(page) == expected
    for line in page.select(".runner-times"):
        panel = line.parent
        line.extract()
        assert shown_times(page) != expected
        panel.append(line)
    assert shown_times(page) == expected


def test_this_book_shows_times_that_are_modelled_beside_times_that_are_measured():
    lines = expected_times("copying-between-devices")
    modelled, measured, *_ = next(line for line in lines if line[0])
    assert modelled == "Times modelled for a T4." and measured.startswith("Times measured on ")


def second(tabs, role):
    return tabs.select(f"[role={role}]")[1]


def swap_runner(tabs):
    second(tabs, "tab")["data-runner"] = tabs.select("[role=tab]")[0]["data-runner"]


BREAKS = {  # what is done to a set of tabs: how, and what is then wrong
    "no tab": (lambda tabs: second(tabs, "tab").decompose(), "not the same"),
    "no label": (lambda tabs: second(tabs, "tab").string.replace_with(" "), "no label"),
    "no output": (
        lambda tabs: second(tabs, "tabpanel").select_one("div.cell_output").decompose(),
        "an empty panel",
    ),
    "no panel": (lambda tabs: second(tabs, "tabpanel").decompose(), "not the same"),
    "swapped": (swap_runner, "another runner"),
}


@pytest.mark.parametrize(("change", "fault"), BREAKS.values(), ids=BREAKS)
def test_a_doctored_page_is_noticed(site, change, fault):
    page = parsed(site, PAGE)
    change(page.select("div.runner-outputs")[-1])
    assert any(fault in found for found in tab_faults(page))


# A card beside the other runners: the book that was recorded on simulated GPUs for real ones.


@pytest.fixture(scope="module")
def gpu_page(recorded_on_gpus, tmp_path_factory):
    root = shutil.copytree(recorded_on_gpus, tmp_path_factory.mktemp("site") / "book")
    dress(root)
    return parsed(build_site(root), "notebooks/first.html")


def test_a_card_has_its_tab_with_the_facts_on_hover(gpu_page):
    assert tab_faults(gpu_page) == []
    (tabs,) = gpu_page.select("div.runner-outputs")
    cpu, card = tabs.select("[role=tab]")
    assert (cpu.get_text(), card.get_text()) == ("No GPU", "2 x Simulated GPU (T4)")
    assert card["data-runner"] == CARD
    for fact in ("Simulated GPU (T4), Simulated GPU (T4)", "PyTorch", "driver 0.0.0"):
        assert fact in card["title"]
    on_cpu, on_card = (panel.get_text() for panel in tabs.select("[role=tabpanel]"))
    assert "device(type='cpu')" in on_cpu
    assert "device(type='cuda', index=0)" in on_card and "x is 1" in on_card


# In the hands of a reader.

STATE = """() => [...document.querySelectorAll('.runner-outputs')].map(set => ({
  tabs: [...set.querySelectorAll('[role=tab]')].map(tab => ({
    runner: tab.dataset.runner,
    label: tab.textContent.trim(),
    chosen: tab.getAttribute('aria-selected') === 'true',
    stop: tab.tabIndex === 0,
    seen: tab.checkVisibility(),
  })),
  panels: [...set.querySelectorAll('[role=tabpanel]')].map(panel => ({
    runner: panel.dataset.runner,
    seen: panel.checkVisibility(),
    named: panel.querySelector('.runner-name').checkVisibility(),
    printed: [...panel.children].slice(1).filter(child => !child.matches('.runner-times')).some(
      child => child.innerText.trim() || child.querySelector('img, svg')),
  })),
}))"""


def choice_faults(page, runner):
    """What is wrong where `runner` should be chosen in every set of the page."""
    faults = []
    for state in page.evaluate(STATE):
        runners = [tab["runner"] for tab in state["tabs"]]
        chosen = runner if runner in runners else runners[0] if runners else None
        for tab in state["tabs"]:
            if not (tab["seen"] and tab["label"]):
                faults.append(f"the tab of {tab['runner']} is not seen")
            if tab["chosen"] != tab["stop"] or tab["chosen"] != (tab["runner"] == chosen):
                faults.append(f"the tab of {tab['runner']} is {tab}")
        if [panel["runner"] for panel in state["panels"]] != runners:
            faults.append("tabs and panels are not the same")
        for panel in state["panels"]:
            if panel["seen"] != (panel["runner"] == chosen) or panel["named"]:
                faults.append(f"the outputs of {panel['runner']} are {panel}")
            if panel["seen"] and not panel["printed"]:
                faults.append(f"the outputs of {panel['runner']} are empty")
    return faults


def stacked_faults(page):
    """What is wrong where all outputs should be seen, each under the name of its runner."""
    faults = []
    for state in page.evaluate(STATE):
        faults += [f"the tab of {tab['runner']} is seen" for tab in state["tabs"] if tab["seen"]]
        for panel in state["panels"]:
            if not (panel["seen"] and panel["named"] and panel["printed"]):
                faults.append(f"the outputs of {panel['runner']} are {panel}")
    return faults


def tab(page, runner, number=-1):
    return page.locator(f".runner-outputs [role=tab][data-runner={runner}]").nth(number)


def test_a_click_switches_every_set_and_the_choice_is_kept(browser, site):
    with opened(browser, site, PAGE, uncovered=True) as (page, faults):
        assert choice_faults(page, "simulated") == []  # who has chosen none
        for runner in ("cpu", "simulated", "cpu"):
            tab(page, runner).click()
            assert choice_faults(page, runner) == []
        page.reload(wait_until="networkidle")  # the icon comes last
        assert choice_faults(page, "cpu") == []
        page.goto(page.url.replace(PAGE, OTHER), wait_until="networkidle")
        assert choice_faults(page, "cpu") == []
        another = page.context.new_page()  # another window
        another.goto(page.url)
        tab(another, "simulated").click()
        page.wait_for_selector(".runner-output.shown[data-runner=simulated]")
        assert choice_faults(page, "simulated") == [] == faults


def test_a_choice_that_a_page_does_not_have_shows_the_first(browser, site):
    with opened(browser, site, PAGE, uncovered=True) as (page, faults):
        page.evaluate("localStorage.setItem('runner', 'gone')")
        page.reload(wait_until="networkidle")
        assert choice_faults(page, "gone") == [] == faults


def test_tabs_are_reached_and_switched_by_keyboard(browser, site):
    with opened(browser, site, PAGE, uncovered=True) as (page, faults):
        place = page.url

        def focused():
            return page.evaluate("document.activeElement.dataset.runner")

        # By the Tab key, from what stands before the tabs: one stop for the whole set.
        first = tab(page, "simulated", 0)
        first.focus()
        page.keyboard.press("Shift+Tab")
        assert focused() is None
        page.keyboard.press("Tab")
        assert first.evaluate("tab => tab === document.activeElement")
        outline = first.evaluate("tab => getComputedStyle(tab).outline")
        assert "solid" in outline and "0px" not in outline, outline
        runners = [each["runner"] for each in page.evaluate(STATE)[0]["tabs"]]
        for key, runner in [
            ("ArrowRight", runners[1]),
            ("ArrowLeft", runners[0]),
            ("ArrowLeft", runners[-1]),  # around the end
            ("ArrowRight", runners[0]),
            ("End", runners[-1]),
            ("Home", runners[0]),
        ]:
            page.keyboard.press(key)
            assert (focused(), choice_faults(page, runner)) == (runner, []), key
        page.keyboard.press("Tab")
        assert focused() is None
        assert (page.url, faults) == (place, [])  # the theme turns pages with arrow keys


def test_the_tab_that_is_clicked_keeps_its_place_on_the_screen(browser, site):
    with opened(browser, site, PAGE, uncovered=True, width=900, height=500) as (page, _):
        # Above it, outputs that take more room for one runner than for the other. Not every
        # browser anchors what is seen by itself; the script has to do without.
        page.add_style_tag(
            content="[data-runner=simulated].runner-output { min-height: 300px }"
            "html { overflow-anchor: none }"
        )
        for runner in ("cpu", "simulated"):
            wanted = tab(page, runner)
            wanted.scroll_into_view_if_needed()
            before = wanted.bounding_box()["y"], page.evaluate("scrollY")
            wanted.click()
            after = wanted.bounding_box()["y"], page.evaluate("scrollY")
            assert abs(after[0] - before[0]) <= 1
            assert abs(after[1] - before[1]) > 100  # else there was nothing to keep


@pytest.mark.parametrize("name", [PAGE, OTHER])
def test_without_javascript_all_outputs_are_seen_under_their_names(browser, site, name):
    with opened(browser, site, name, java_script_enabled=False) as (page, faults):
        assert page.locator(".runner-outputs").count()
        for cover in page.locator("details.covered > summary").all():
            cover.click()
        assert stacked_faults(page) == [] == faults


def test_in_print_all_outputs_are_seen_under_their_names(browser, site):
    with opened(browser, site, PAGE, uncovered=True) as (page, faults):
        assert stacked_faults(page) != []
        page.emulate_media(media="print")
        assert stacked_faults(page) == [] == faults


def test_screen_readers_are_told_of_tabs_and_panels(browser, site):
    with opened(browser, site, PAGE, uncovered=True) as (page, _):
        lists = page.get_by_role("tablist", name="Outputs by runner")
        assert lists.count() == len(page.evaluate(STATE))
        last = lists.last
        assert last.get_by_role("tab", selected=True).inner_text() == "2 GPUs, simulated"
        assert last.get_by_role("tab", selected=False).first.inner_text() == "No GPU"
        panels = page.get_by_role("tabpanel", name="2 GPUs, simulated", exact=True)
        assert panels.count() == lists.count()


def test_a_reader_notices_a_doctored_page(browser, site, doctored):
    changes = {
        name: lambda page, change=change: change(page.select("div.runner-outputs")[-1])
        for name, (change, _) in BREAKS.items()
    }
    changes["no script"] = lambda page: page.select_one("script[src*='tabs.js']").decompose()
    changes["no style"] = lambda page: page.select_one("link[href*='tabs.css']").decompose()
    unnoticed = []
    with opened(browser, doctored, PAGE, uncovered=True) as (page, _):
        assert choice_faults(page, "simulated") == []
        whole = page.url
        for name, change in changes.items():
            html, found = parsed(site, PAGE), []
            change(html)
            # A name of its own: browsers keep what they know.
            (doctored / PAGE).with_name(f"{name}.html").write_text(str(html), encoding="utf-8")
            for runner in ("simulated", "cpu"):
                page.evaluate(f"localStorage.setItem('runner', '{runner}')")
                page.goto(whole.replace(Path(PAGE).name, f"{name}.html"))
                found += choice_faults(page, runner)
            if not found:
                unnoticed.append(name)
    assert unnoticed == []


def test_a_tab_that_jumps_away_is_noticed(browser, doctored):
    """The line of the script that keeps it in place, taken out."""
    doctor(doctored, "_static/tabs.js", "window.scrollBy(", "void (")
    with pytest.raises(AssertionError):
        test_the_tab_that_is_clicked_keeps_its_place_on_the_screen(browser, doctored)
