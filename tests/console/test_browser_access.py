"""The console for everybody: axe-core, keyboard, phones, paper, broken servers, long lists."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rootguard.session import Person, load_profile
from rootguard.session.session import speak_to
from rootguard.vault import open_store
from tests.support.consoles import (
    AXE,
    READY,
    World,
    console,
    opened,
    talked_world,
    violations,
    visit,
    write_profile,
)
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

MANY = 10_000
FIRST_VIEW = 150_000
"""Bytes, compressed: the page, its script and style, and the data of the first view."""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, browser: "Browser") -> Iterator[World]:
    assert browser.is_connected()
    with talked_world(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def page(browser: "Browser", there: World) -> Iterator["Page"]:
    made = opened(browser, there.direct)
    yield made
    made.context.close()


def show(page: "Page", there: World, view: str) -> None:
    visit(page, there.direct, view)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm ci in console-ui")
@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 1440),
        ("dark", 390),
        pytest.param("dark", 1440, marks=pytest.mark.slow),
        pytest.param("light", 390, marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing_in_any_view(
    browser: "Browser", there: World, theme: str, width: int
) -> None:
    settings: Any = {"color_scheme": theme, "viewport": {"width": width, "height": 800}}
    stranger = browser.new_context(**settings)
    page = stranger.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(there.direct)
    page.get_by_label("Key").wait_for()
    assert violations(page) == []
    stranger.close()

    page = opened(browser, there.direct, **settings)
    for view in READY:
        show(page, there, view)
        if view == "attack":
            assert violations(page) == [], (view, "idle")
            page.get_by_role("button", name="Start the attack").click()
            page.get_by_role("button", name="Attack again").wait_for()
        for summary in page.locator("summary").all():
            summary.click()
        assert violations(page) == [], view
    show(page, there, "boundary")
    page.locator(".log-row[data-kind=unknown-identifier]").first.click()
    page.locator("dialog[open]").wait_for()
    assert violations(page) == []

    # The control: a button without a name is found.
    page.evaluate("document.querySelector('dialog').append(document.createElement('button'))")
    assert any("button-name" in each for each in violations(page))
    page.context.close()


@pytest.mark.parametrize("width", [360, 768])
def test_no_view_is_wider_than_the_screen(browser: "Browser", there: World, width: int) -> None:
    page = opened(browser, there.direct, viewport={"width": width, "height": 740})
    for view in READY:
        show(page, there, view)
        if view == "attack":
            page.get_by_role("button", name="Start the attack").click()
            page.get_by_role("button", name="Attack again").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
    page.context.close()


def test_everything_can_be_done_with_a_keyboard(page: "Page", there: World) -> None:
    show(page, there, "boundary")
    page.reload()
    page.locator(".log-row").first.wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    page.locator(".log-row[tabindex='0']").focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.id") == "1"
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.id") == "2"
    page.keyboard.press("Enter")
    assert page.locator("dialog[open]").get_by_text("epsilon").count() >= 1
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.dataset.id") == "2"

    show(page, there, "choose")
    page.locator(".slider input").focus()
    page.keyboard.press("Home")
    assert "epsilon 0.005" in str(page.locator(".slider input").get_attribute("aria-valuetext"))
    page.get_by_label("2k+1 = 9", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('turns=3k%2B1')")

    page.locator("#tabs a", has_text="Graph").focus()
    page.keyboard.press("Enter")
    page.locator(".node.root").first.wait_for()
    page.locator(".edge").first.focus()
    assert page.locator(".card .kind").inner_text() == "Edge"


def test_colours_follow_the_system_until_a_person_chooses(browser: "Browser", there: World) -> None:
    page = opened(browser, there.direct, color_scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Switch to light colours").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    page.get_by_role("button", name="Switch to dark colours").wait_for()
    assert page.evaluate(ground) == light
    page.context.close()


def test_nothing_moves_for_who_wants_less_motion(browser: "Browser", there: World) -> None:
    moving = "getComputedStyle(document.querySelector('.busy p'), '::before').animationName"
    for reduced, expected in (("reduce", "none"), ("no-preference", "turn")):
        page = opened(browser, there.direct, reduced_motion=reduced)
        page.route("**/api/graph*", lambda route: None)  # never answered
        page.goto(f"{there.direct}#/graph")
        page.locator(".busy").wait_for()
        assert page.evaluate(moving) == expected
        page.context.close()


def test_a_view_is_printed_in_full_and_without_its_controls(page: "Page", there: World) -> None:
    show(page, there, "boundary")
    many = page.evaluate("fetch('api/log').then((a) => a.json()).then((a) => a.total)")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".log-row").count() == many
    assert page.locator("#tabs").is_hidden()
    assert page.get_by_role("button", name="Pause").is_hidden()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("#tabs").is_visible()
    assert page.evaluate("document.documentElement.dataset.theme") is None
    assert page.pdf().startswith(b"%PDF")


def test_waiting_emptiness_and_failure_are_said_in_a_sentence(page: "Page", there: World) -> None:
    nothing = json.dumps({"entries": [], "first": 0, "latest": 0, "total": 0})
    failing = json.dumps({"error": {"message": "the vault is not available just now"}})
    held: list[Route] = []

    page.route("**/api/ledger", lambda route: held.append(route))
    page.goto(f"{there.direct}#/ledger")
    page.get_by_text("Reading the ledger…").wait_for()
    held[0].fulfill(status=503, body=failing, content_type="application/json")
    page.get_by_role("alert").get_by_text("The vault is not available just now.").wait_for()
    page.unroute("**/api/ledger")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("table", name="By value").wait_for()

    page.route("**/api/live*", lambda route: route.abort())
    page.route("**/api/log*", lambda route: route.fulfill(body=nothing))
    page.goto(f"{there.direct}#/boundary")
    page.reload()
    page.get_by_text("Nothing was asked yet.").wait_for()
    page.get_by_text("The connection is lost").wait_for()
    page.route("**/api/log*", lambda route: route.abort())
    page.reload()
    page.get_by_role("alert").get_by_text("The console does not answer.").wait_for()


def test_the_first_view_is_small(browser: "Browser", there: World) -> None:
    page = opened(browser, there.direct)
    page.locator(".known-by").first.wait_for()
    loaded: Any = page.evaluate(
        """() => [...performance.getEntriesByType("navigation"),
                  ...performance.getEntriesByType("resource")].map(
             (each) => [each.name, each.encodedBodySize, each.decodedBodySize])"""
    )
    assert any(re.search(r"app\.js$", name) for name, *_ in loaded)
    script = next(each for each in loaded if each[0].endswith("app.js"))
    assert 0 < script[1] < script[2]  # compressed on the way
    assert sum(size for _, size, _ in loaded) < FIRST_VIEW
    page.context.close()


@pytest.mark.slow
def test_ten_thousand_entries_are_few_rows_and_both_ends_are_reached(
    browser: "Browser", tmp_path: Path
) -> None:
    profile = write_profile(tmp_path)
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    vault = open_store(store)
    person = Person.open(load_profile(profile), store=vault, on_clamp=lambda _: None)
    for place in range(MANY):
        speak_to(f"service {place % 5}", "a test")
        person.release("fib4" if place % 2 else "ast")
    vault.close()

    with console(profile, store) as link:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(link)
        page.locator("#tabs a[data-view=boundary]").click()
        page.wait_for_function(
            "(many) => document.querySelector('.timeline')?.ariaRowCount === String(many + 1)",
            arg=MANY,
        )
        rows = "document.querySelectorAll('.log-row').length"
        ids = "[...document.querySelectorAll('.log-row')].map((row) => Number(row.dataset.id))"
        newest = max(page.evaluate(ids))
        most = page.evaluate(rows)
        for part in range(21):
            page.evaluate(
                """(part) => new Promise((done) => {
                     scrollTo(0, document.documentElement.scrollHeight * part);
                     requestAnimationFrame(() => requestAnimationFrame(done));
                   })""",
                part / 20,
            )
            most = max(most, page.evaluate(rows))
            top = page.evaluate(
                "document.elementFromPoint(200, innerHeight - 80).closest('.log-row') !== null"
            )
            assert top, "there is a row where one looks"
        assert most < 80
        assert min(page.evaluate(ids)) == newest - MANY + 1
        page.locator(".log-row").last.click()
        page.keyboard.press("Escape")
        page.keyboard.press("Home")
        assert page.evaluate("Number(document.activeElement.dataset.id)") == newest
        page.keyboard.press("End")
        assert page.evaluate("Number(document.activeElement.dataset.id)") == newest - MANY + 1
        page.get_by_label("Service").select_option("service 3")
        assert page.locator(".timeline").get_attribute("aria-rowcount") == str(MANY // 5 + 1)
        context.close()
