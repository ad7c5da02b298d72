"""What an owner does on the pages, and every page in every state, in a browser with axe-core."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rootguard.errors import RootGuardError
from rootguard.session import Person, load_profile
from rootguard.session.session import speak_to
from rootguard.vault import open_store
from tests.support.consoles import (
    AXE,
    BLOCKED,
    FORGING,
    GOALS,
    NAME,
    RAW,
    RECORD,
    TELLING,
    World,
    console,
    opened,
    talked_world,
    violations,
    world,
    write_profile,
)
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

PATHS = {
    "known": "known",
    "boundary": "log",
    "values": "changes",
    "choose": "goals",
    "ledger": "ledger",
    "graph": "graph",
}
EMPTY = {
    "known": (
        {"sure": 0.9, "values": []},
        "Nobody was told anything about you yet.",
    ),
    "boundary": (
        {"entries": [], "first": 0, "latest": 0, "total": 0},
        "Nothing was asked yet.",
    ),
    "values": (
        {"allowed": False, "why": "This page can only read.", "unseen": False, "values": []},
        "This page can only read.",
    ),
    "ledger": (
        {"charges": [], "roots": [], "disclosures": [], "tiers": [], "total": {"spent": 0}},
        "Nothing has been noised yet",
    ),
}
SHIFT = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) sum += each.value;
  }).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum), 0)));
})"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, browser: "Browser") -> Iterator[World]:
    assert browser.is_connected()
    with talked_world(tmp_path_factory.mktemp("changes"), GOALS) as running:
        yield running


def judged(page: "Page") -> list[str]:
    """Everything that axe-core finds, in words; nothing where it is not installed."""
    return violations(page) if AXE.exists() else []


def holding(held: "list[Route]") -> "Callable[[Route], None]":
    """Takes requests and answers none of them."""
    return lambda route: held.append(route)


def answering(body: object) -> "Callable[[Route], None]":
    """Answers in the server's place."""
    return lambda route: route.fulfill(json=body)


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 390),
        ("dark", 1440),
        pytest.param("light", 1440, marks=pytest.mark.slow),
        pytest.param("dark", 390, marks=pytest.mark.slow),
    ],
)
def test_every_page_says_in_a_sentence_that_it_waits_is_empty_or_failed(
    browser: "Browser", there: World, theme: str, width: int
) -> None:
    size: Any = {"width": width, "height": 844}
    page = opened(browser, there.direct, color_scheme=theme, viewport=size)
    failing = json.dumps({"error": {"message": "the vault is not available just now"}})
    for view, path in PATHS.items():
        held: list[Route] = []
        pattern = f"**/api/{path}*"
        page.route(pattern, holding(held))
        page.goto("about:blank")
        page.goto(f"{there.direct}#/{view}")
        page.locator(".busy").first.wait_for()
        assert judged(page) == [], (view, "waiting")
        for route in held:
            route.fulfill(status=503, body=failing, content_type="application/json")
        page.get_by_role("alert").get_by_text("The vault is not available just now.").wait_for()
        assert judged(page) == [], (view, "failed")
        page.unroute(pattern)
        page.get_by_role("button", name="Try again").first.click()
        page.get_by_role("alert").first.wait_for(state="hidden")
    for view, (body, sentence) in EMPTY.items():
        page.route(f"**/api/{PATHS[view]}*", answering(body))
        page.route("**/api/live*", lambda route: route.abort())
        if view == "known":  # a service that only spoke is shown by its log
            page.route("**/api/log*", answering(EMPTY["boundary"][0]))
        page.goto("about:blank")
        page.goto(f"{there.direct}#/{view}")
        page.get_by_text(sentence).first.wait_for()
        assert judged(page) == [], (view, "empty")
        page.unroute_all()
    page.context.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_pages_fit_and_do_not_move_while_they_load(
    browser: "Browser", there: World, width: int
) -> None:
    page = opened(browser, there.direct, viewport={"width": width, "height": 844})
    for view in (*PATHS, "attack"):
        page.goto("about:blank")
        page.goto(f"{there.direct}#/{view}")
        page.locator(".busy").first.wait_for(state="detached")
        page.locator(".state[data-state=live]").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        current = page.locator("#tabs a[aria-current]").bounding_box()
        assert current is not None
        assert current["x"] >= 0, view
        assert current["x"] + current["width"] <= width, view
        assert page.evaluate(SHIFT) < 0.1, view  # what is painted stays where it is
    page.context.close()


def test_a_change_is_refused_or_approved_with_its_price_by_keyboard(
    browser: "Browser", there: World
) -> None:
    page = opened(browser, there.direct)
    page.goto(f"{there.direct}#/values")
    page.get_by_label("Platelets plt").fill("eight hundred")
    page.keyboard.press("Enter")
    page.get_by_text("This is not a number.").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert judged(page) == []
    before = dict(there.vault.ledger(there.person().principal).micro)

    page.get_by_label("Platelets plt").fill("233")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    assert "epsilon at most" in page.get_by_role("dialog").inner_text()
    assert "0.0379" in page.get_by_role("dialog").inner_text()
    assert "Platelets: draw 2 of at most 10" in page.get_by_role("dialog").inner_text()
    assert judged(page) == []
    assert page.evaluate("document.activeElement.textContent") == "Refuse: keep what is noised"
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert dict(there.vault.ledger(there.person().principal).micro) == before

    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name="Approve and noise").click()
    page.locator(".lead", has_text="Charged: Platelets: ε 0.0379.").wait_for()
    after = dict(there.vault.ledger(there.person().principal).micro)
    assert after == {**before, "plt": 2 * before["plt"]}
    assert page.get_by_label("Platelets plt").input_value() == ""
    page.goto(f"{there.direct}#/boundary")
    page.locator(".log-row[data-kind=noised]", has_text="Platelets").nth(1).wait_for()

    # What is attacked then is the value as it stands now, which nobody was told yet.
    page.goto(f"{there.direct}#/attack")
    page.get_by_role("button", name="Start the attack").click()
    page.get_by_role("button", name="Attack again").wait_for()
    assert "have not moved since their first answer" in page.locator("main").inner_text()
    assert page.get_by_role("alert").count() == 0
    page.context.close()


def test_goals_are_chosen_by_sliders_and_saved(browser: "Browser", there: World) -> None:
    page = opened(browser, there.direct)
    page.goto(f"{there.direct}#/choose")
    age = page.get_by_label("Age", exact=True)
    age.focus()
    page.keyboard.press("ArrowRight")
    far = page.locator(".hider[data-root=age] output").inner_text()
    assert float(far.removesuffix(" years")) > 5
    assert far in str(age.get_attribute("aria-valuetext"))
    page.locator(".said", has_text=f"Age within {far}").wait_for()
    page.get_by_role("button", name="Save in my profile").click()
    page.get_by_text("Saved. What is noised already stays as it is").wait_for()
    assert judged(page) == []
    saved = load_profile(there.profile)
    assert saved.hide["age"] == float(far.removesuffix(" years"))
    assert set(saved.values) == set(RAW)
    page.reload()
    page.locator(".said", has_text=f"Age within {far}").wait_for()
    page.context.close()


def test_no_page_ranks_noising_by_safety_without_adversary_and_questions(
    browser: "Browser", there: World
) -> None:
    page = opened(browser, there.direct)
    page.goto(f"{there.direct}#/choose")
    page.locator(".slider input").wait_for()
    ranked = page.locator("figure.panel", has_text="safer")
    assert ranked.count() == 1
    assert "Adversary (MAP), 9 questions" in ranked.inner_text()
    assert "one that zooms in finds values under independent noising" in ranked.inner_text()
    page.goto(f"{there.direct}#/attack")
    page.get_by_role("button", name="Start the attack").click()
    page.get_by_role("button", name="Attack again").wait_for()
    said = page.locator("main").inner_text()
    assert "MAP adversary that asks in ever smaller windows (zoom)" in said
    assert "8 turns about every value" in said
    assert "safer" not in said
    page.context.close()


def test_everything_is_exported_by_one_link(browser: "Browser", there: World) -> None:
    page = opened(browser, there.direct)
    for view in ("boundary", "ledger"):
        page.goto(f"{there.direct}#/{view}")
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Export").click()
        body = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
        assert body["principal"] == "patient-7"
        assert len(body["audit_log"]) >= 5
        assert not [raw for raw in RAW.values() if raw in json.dumps(body)]
    page.context.close()


def test_each_service_has_a_timeline_and_a_way_to_its_entries(
    browser: "Browser", there: World
) -> None:
    page = opened(browser, there.direct)
    card = page.locator(".known-by", has_text="unknown identifier in a reply").first
    card.wait_for()
    service = card.get_attribute("data-service")
    label = card.locator(".strip svg").get_attribute("aria-label")
    assert label is not None
    assert label.startswith(f"Timeline of {service}: ")
    assert "refusal" in label
    card.get_by_role("link", name="Every entry").click()
    page.locator(".log-row").first.wait_for()
    assert set(page.locator(".log-row .who b").all_inner_texts()) == {service}
    page.context.close()


def test_the_log_shows_what_was_replaced_refused_and_by_whom(
    browser: "Browser", tmp_path: Path
) -> None:
    with world(tmp_path, GOALS) as running:
        assert running.chat(TELLING) == 200
        assert running.chat(BLOCKED) >= 400
        person = running.person()
        speak_to("clinic", "MCP")
        with pytest.raises(RootGuardError):
            person.derive("log(0 - plt)")
        page = opened(browser, running.direct)
        page.goto(f"{running.direct}#/boundary?show=changed")
        replaced = page.locator(".log-row[data-kind=changed]").first
        replaced.wait_for()
        assert "2 identifiers of yours replaced; AST as released" in replaced.inner_text()
        replaced.click()
        told = page.get_by_role("dialog")
        assert "Written by\nyou" in told.inner_text()
        assert "messages[0].content" in told.inner_text()
        assert not [each for each in (*NAME.split(), RECORD) if each in page.content()]
        assert judged(page) == []
        page.keyboard.press("Escape")

        page.get_by_label("Show").select_option("stopped")
        asked = page.locator(".log-row[data-kind=refused] .asked").all_inner_texts()
        assert "Platelets\nthe formula has no value here" in asked
        assert any("a number stands beside a private word" in each for each in asked)
        assert page.locator(".alarm").count() == 0

        # One unknown identifier is no alarm; a service that tries them out is.
        running.upstream.says = lambda _: FORGING
        for _ in range(3):
            assert running.chat("What about my AST?") == 200
        page.locator(".alarm", has_text="3 replies of 127.0.0.1").wait_for()
        assert judged(page) == []
        page.context.close()


def test_a_slip_is_corrected_before_anybody_saw_it(browser: "Browser", tmp_path: Path) -> None:
    profile = write_profile(tmp_path, GOALS)
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    vault = open_store(store)
    person = Person.open(load_profile(profile), store=vault, on_clamp=lambda _: None)
    before = dict(vault.ledger(person.principal).micro)
    # As `init` leaves a profile: without the values.
    text = profile.read_text(encoding="utf-8")
    start, end = text.index("[values]"), text.index("[identifiers]")
    profile.write_text(text[:start] + text[end:], encoding="utf-8")
    with console(profile, store) as link:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(link)
        page.locator("#tabs a[data-view=attack]").click()
        page.get_by_role("button", name="Start the attack").click()
        page.get_by_text("Nothing was released yet, so there is nothing to attack.").wait_for()
        page.locator("#tabs a[data-view=values]").click()
        page.get_by_text("Nothing was released yet.").wait_for()
        page.get_by_label("Age age").fill("54")
        page.get_by_role("button", name="See the price").click()
        assert page.get_by_text("Enter this one again as well.").count() == 3
        for title, value in {"AST ast": "61", "ALT alt": "47", "Platelets plt": "188"}.items():
            page.get_by_label(title).fill(value)
        page.get_by_role("button", name="See the price").click()
        page.get_by_role("button", name="Approve and noise").click()
        page.locator(".lead", has_text="Done. Charged:").wait_for()
        context.close()
    assert dict(vault.ledger(person.principal).micro) == before
    assert vault.ledger(person.principal).draws == dict.fromkeys(RAW, 1)
    vault.close()
