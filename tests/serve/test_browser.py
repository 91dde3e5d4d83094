"""The page in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import EXAMPLES, KEY, Program

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install 'vsplade[dev]'"
)
BROWSERS = ("chromium", "google-chrome", "chromium-browser", "google-chrome-stable")
EXECUTABLE = os.environ.get("CHROMIUM") or next(
    (found for name in BROWSERS if (found := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(
    EXECUTABLE is None,
    reason="no Chrome or Chromium is installed: apt-get install chromium, or set CHROMIUM to one",
)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
SLOW = 30_000
"""Milliseconds to wait for anything, on a busy machine."""


def wait_until(page: Any, expression: str) -> None:
    """Playwright's own way would evaluate text inside the page, which the page's policy forbids."""
    until = time.monotonic() + 2 * SLOW / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < until, expression
        page.wait_for_timeout(50)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A server on a copy of the index; tests that change it put it back."""
    folder = tmp_path_factory.mktemp("browser")
    shutil.copytree(made, folder / "pages.vsplade")
    server = Program(folder / "pages.vsplade").ready()
    yield server
    server.end()


class Visit:
    """A page of the browser, which notes what went wrong and who was asked."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(SLOW)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: str = "") -> Any:
        self.page.goto(self.url + path)
        return self.page

    def search(self, words: str) -> Any:
        page = self.open()
        page.fill("#q", words)
        page.wait_for_selector(".hit")
        return page


@pytest.fixture
def visit(browser: Any, served: Program) -> Iterator[Visit]:
    one = Visit(browser, served.url)
    yield one
    one.context.close()
    assert one.errors == []
    assert [url for url in one.asked if not url.startswith((served.url, "data:", "blob:"))] == []


def test_results_come_as_one_types_and_tell_where_and_why(visit: Visit) -> None:
    page = visit.search("maintenance of the turbine")
    first = page.locator(".hit").first
    assert first.locator(".open").inner_text() == "report.pdf"
    assert "Page 2 of 3" in first.inner_text()
    first.locator(".snippet mark").first.wait_for()
    assert first.locator(".snippet mark").first.inner_text() == "Maintenance"
    first.locator(".why-toggle").click()
    assert first.locator(".why tbody tr").first.locator("td").first.inner_text() in ("turbine", "maintenance")
    assert "turbine" in page.url  # a link to this search
    assert re.match(r"\d+ pages for “maintenance of the turbine” in [\d.]+ ms", page.inner_text("#summary"))


def test_words_typed_before_the_script_runs_are_searched_for(browser: Any, served: Program) -> None:
    early = Visit(browser, served.url)
    held: list[Any] = []
    page = early.page
    page.route("**/static/app.js", lambda route: held.append(route))
    page.goto(served.url, wait_until="commit")
    page.wait_for_selector("#q")
    page.fill("#q", "rings of saturn")
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    page.wait_for_selector(".hit")
    assert page.input_value("#q") == "rings of saturn"
    assert page.locator(".hit .open").first.inner_text() == "slides.pdf"
    early.context.close()
    assert early.errors == []


def test_words_typed_while_the_status_is_on_its_way_stay(browser: Any, served: Program) -> None:
    early = Visit(browser, served.url)
    held: list[Any] = []
    page = early.page
    page.route("**/v1/status", lambda route: held.append(route))
    page.goto(served.url)
    while not held:
        page.wait_for_timeout(20)
    page.fill("#q", "rings of saturn")
    held[0].continue_()
    page.wait_for_selector(".hit")
    page.wait_for_timeout(200)
    assert page.input_value("#q") == "rings of saturn"
    assert page.locator(".hit .open").first.inner_text() == "slides.pdf"
    early.context.close()


def test_the_page_says_which_words_were_found(visit: Visit) -> None:
    page = visit.search("turbine zyxwvut NOT")
    assert "No page holds" in page.inner_text("#summary")
    words = {one.inner_text() for one in page.locator("#summary .words li").all()}
    assert words == {"turbine", "zyxwvut not found", "NOT"}
    assert page.locator(".hit .words .not-found").first.inner_text().startswith("zyxwvut")
    assert "NOT is searched for as a word" in page.inner_text("#notes")
    page.fill("#q", "zyxwvut")
    wait_until(page, "document.getElementById('summary').textContent.includes('Nothing found')")
    assert page.locator(".hit").count() == 0
    assert not page.locator("#notes").is_visible()


@contextmanager
def visiting(browser: Any, index: Path) -> Iterator[Visit]:
    """A visit to a server of its own, at the end of which nothing must have gone wrong."""
    server = Program(index, "--read-only").ready()
    try:
        visit = Visit(browser, server.url)
        yield visit
        visit.context.close()
        assert visit.errors == []
    finally:
        server.end()


def test_a_word_that_is_meant_and_the_switch_that_leaves_it_out(browser: Any, tmp_path: Path) -> None:
    """With the reader, which also finds pages by what they are about."""
    from vsplade import index_paths

    index = tmp_path / "meant.vsplade"
    index_paths([EXAMPLES / "report.pdf", EXAMPLES / "slides.pdf"], index, "reader")
    with visiting(browser, index) as one:
        page = one.search("repair of the turbine")
        first = page.locator(".hit").first
        first.locator(".why-toggle").click()
        assert "what the page is about" in first.inner_text()
        assert re.search(r"repair, meant by: .*maintenance", first.locator(".meant").inner_text())
        first.locator(".open").click()
        page.wait_for_selector("#view-why .meant")
        assert re.search(r"repair, meant by: .*maintenance", page.inner_text("#view-why"))
        page.keyboard.press("Escape")
        page.locator("#words-only-box").click()
        wait_until(page, "location.search.includes('words_only=true')")
        page.wait_for_selector("#results:not(.stale) .hit")
        page.locator(".why-toggle").first.click()
        assert "what the page is about" not in page.inner_text("#results")
        page.reload()
        page.wait_for_selector(".hit")
        assert page.locator("#words-only").is_checked()


def test_fusion_is_a_switch_that_explains_itself(browser: Any, tmp_path: Path) -> None:
    from vsplade import index_paths

    index = tmp_path / "both.vsplade"
    index_paths([EXAMPLES / "table.pdf", EXAMPLES / "slides.pdf"], index, "reader+text")
    with visiting(browser, index) as one:
        page = one.search("rings of saturn")
        assert "Joins what was read from the picture" in page.inner_text("#fuse-box")
        page.locator("#fuse-box").click()
        wait_until(page, "location.search.includes('fuse=true')")
        page.wait_for_selector("#results:not(.stale) .hit")
        assert page.locator(".hit .open").first.inner_text() == "slides.pdf"
        page.reload()
        page.wait_for_selector(".hit")
        assert page.locator("#fuse").is_checked()


def test_marks_lie_where_the_words_stand(visit: Visit) -> None:
    page = visit.search("turbine maintenance")
    page.locator(".hit .open").first.click()
    box = page.locator("#view-boxes i[data-word=Maintenance]").first
    box.wait_for()
    wait_until(page, "document.getElementById('view-image').complete")
    place, sheet = box.bounding_box(), page.locator("#view-sheet").bounding_box()
    left, top = (place["x"] - sheet["x"]) / sheet["width"], (place["y"] - sheet["y"]) / sheet["height"]
    assert left == pytest.approx(0.129, abs=0.01)  # the heading of that page begins there
    assert top == pytest.approx(0.095, abs=0.01)
    picture = page.locator("#view-image").bounding_box()
    assert picture["width"] == pytest.approx(sheet["width"], abs=1)
    assert picture["height"] == pytest.approx(sheet["height"], abs=1)
    assert picture["height"] / picture["width"] == pytest.approx(841.9 / 595.3, rel=0.01)


def test_the_large_view_steps_and_jumps(visit: Visit) -> None:
    page = visit.search("turbine maintenance")
    page.locator(".hit .open").first.click()
    page.wait_for_selector("text=(2 of 3)")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=(3 of 3)")
    assert page.locator("#view-next").is_disabled()
    page.keyboard.press("n")
    page.wait_for_selector("text=(1 of 3)")
    page.keyboard.press("n")
    page.wait_for_selector("text=(2 of 3)")
    assert page.get_attribute("#view-original", "href").endswith("/v1/documents/report/file#page=2")
    page.keyboard.press("m")
    assert not page.locator("#view-boxes").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()


def test_filters_and_the_link_to_a_search(visit: Visit) -> None:
    page = visit.search("the harbour tide")
    before = page.locator(".hit").count()
    page.locator("#facets summary", has_text="kind").click()
    page.locator("#facets label", has_text="prose").click()
    wait_until(page, f"document.querySelectorAll('.hit').length < {before}")
    link = page.url
    names = page.locator(".hit .open").all_inner_texts()
    assert set(names) <= {"report.pdf", "paper.pdf"}
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".hit")
    assert page.locator(".hit .open").all_inner_texts() == names
    assert page.input_value("#q") == "the harbour tide"


def test_keyboard_alone_is_enough(visit: Visit) -> None:
    page = visit.open()
    page.wait_for_selector("#start")
    page.keyboard.press("Tab")
    page.locator("body").click(position={"x": 5, "y": 400})
    page.keyboard.press("/")
    page.keyboard.type("turbine maintenance")
    page.wait_for_selector(".hit")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "report.pdf"
    page.keyboard.press("w")
    page.wait_for_selector(".why")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer[open]")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "q"


def test_add_and_remove_with_a_name_that_is_an_attack(visit: Visit, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>.pdf"
    evil = tmp_path / name
    shutil.copy(EXAMPLES / "slides.pdf", evil)
    page = visit.open()
    opened: list[str] = []
    page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    page.wait_for_selector("#start")
    page.set_input_files("#files", str(evil))
    page.wait_for_selector("#jobs .done", timeout=2 * SLOW)
    assert "4 pages added" in page.inner_text("#jobs")
    row = page.locator("#documents li", has_text="onerror")
    assert row.locator("a").inner_text() == name
    page.keyboard.press("Escape")
    page.fill("#q", "rings of saturn")
    page.wait_for_selector(".hit")
    wait_until(
        page,
        "[...document.querySelectorAll('.hit .open')].some((one) => one.textContent.includes('onerror'))",
    )
    assert page.locator(".hit img[src=x]").count() == 0
    page.click("#open-library")
    row.locator(".danger").click()
    page.click("#confirm-yes")
    row.wait_for(state="detached")
    assert opened == []


def test_dropping_a_file_that_cannot_be_read_tells_why(visit: Visit) -> None:
    page = visit.open()
    page.wait_for_selector("#start")
    page.evaluate(
        """() => {
        const data = new DataTransfer();
        data.items.add(new File(["%PDF-1.7 and then nothing"], "broken.pdf"));
        data.items.add(new File(["hello"], "notes.txt"));
        document.dispatchEvent(new DragEvent("dragenter", { dataTransfer: data, bubbles: true }));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    }"""
    )
    wait_until(page, "document.querySelectorAll('#jobs .failed').length === 2")
    text = page.inner_text("#jobs")
    assert "Not added" in text
    assert "not a page format" in text
    page.wait_for_selector("#problems:not([hidden])")
    assert "broken.pdf" in page.text_content("#problems")
    # The browser itself reports the refused upload; that is no fault of the page.
    visit.errors[:] = [error for error in visit.errors if "415" not in error]


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Any, served: Program) -> None:
    phone = Visit(
        browser, served.url, viewport={"width": 375, "height": 740}, has_touch=True, color_scheme="dark"
    )
    page = phone.search("turbine maintenance")
    page.locator(".hit .snippet mark").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(20, 25, 27)"  # dark, as the phone asks
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#viewer[open]")
    assert page.locator("#view-sheet").bounding_box()["width"] <= 375
    phone.context.close()
    assert phone.errors == []


def test_a_slow_network_shows_the_last_search_only(browser: Any, served: Program) -> None:
    slow = Visit(browser, served.url)
    held: list[Any] = []

    def hold(route: Any) -> None:
        if "q=tide" in route.request.url and not held:
            held.append(route)  # the first answer comes last
        else:
            route.continue_()

    page = slow.open()
    page.wait_for_selector("#start")
    page.route("**/v1/search*", hold)
    page.fill("#q", "tide")
    page.wait_for_timeout(300)
    page.fill("#q", "rings of saturn")
    page.wait_for_selector(".hit")
    if held:
        with suppress(sync_api.Error):  # the page has given that request up
            held[0].continue_()
    page.wait_for_timeout(300)
    assert "saturn" in page.inner_text("#summary")
    assert page.locator(".hit .open").first.inner_text() == "slides.pdf"
    slow.context.close()


def test_errors_say_what_happened(browser: Any, served: Program) -> None:
    cut = Visit(browser, served.url)
    page = cut.open()
    page.wait_for_selector("#start")
    page.route("**/v1/search*", lambda route: route.abort())
    page.fill("#q", "turbine")
    page.wait_for_selector("#error:not([hidden])")
    assert "cannot be reached" in page.inner_text("#error")
    cut.context.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, served: Program, colours: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe-playwright-python is not installed: pip install 'vsplade[dev]'",
    )
    look = Visit(browser, served.url, color_scheme=colours)

    def findings() -> list[str]:
        found = axe.Axe().run(look.page).response["violations"]
        return [
            f"{one['id']}: {one['help']} {[node['html'][:120] for node in one['nodes']][:3]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    page = look.open()
    page.wait_for_selector("#start")
    assert findings() == []
    page.fill("#q", "turbine maintenance")
    page.locator(".hit .snippet mark").first.wait_for()
    page.locator(".why-toggle").first.click()
    assert findings() == []
    page.locator(".hit .open").first.click()
    page.locator("#view-boxes i").first.wait_for()
    page.wait_for_selector("#view-why table")
    assert findings() == []
    page.keyboard.press("Escape")
    page.click("#open-library")
    page.wait_for_selector("#documents li")
    assert findings() == []
    look.context.close()


def test_an_empty_index_shows_how_to_begin_and_a_key_is_asked_for(browser: Any, tmp_path: Path) -> None:
    server = Program(tmp_path / "new.vsplade", "--encoder", "text", env={"VSPLADE_KEY": KEY})
    try:
        server.ready()
        first = Visit(browser, server.url)
        page = first.open()
        page.wait_for_selector("#login[open]")
        page.fill("#key", "wrong, and long enough")
        page.keyboard.press("Enter")
        wait_until(page, "document.getElementById('login-error').textContent.includes('not a key')")
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#empty:not([hidden])")
        assert "Drop PDFs" in page.inner_text("#empty")
        page.set_input_files("#files", str(EXAMPLES / "table.pdf"))
        page.wait_for_selector("#jobs .done", timeout=2 * SLOW)
        page.keyboard.press("Escape")
        page.wait_for_selector("#start:not([hidden])")
        assert "1 page of 1 document" in page.inner_text("#start-text")
        first.context.close()
    finally:
        server.end()
