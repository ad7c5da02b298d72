"""The console in a real browser, before a running gateway with a real vault."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from rootguard.cli.explain import command
from rootguard.cli.output import number
from tests.support.consoles import (
    KEY,
    READY,
    SENTINELS,
    TELLING,
    World,
    opened,
    talked_world,
    visit,
)
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
LATENCY = """
() => new Promise((resolve) => {
  const seen = new Set([...document.querySelectorAll(".log-row")].map((row) => row.dataset.id));
  const observer = new MutationObserver(() => {
    for (const row of document.querySelectorAll(".log-row")) {
      if (seen.has(row.dataset.id)) continue;
      observer.disconnect();
      resolve(Date.now() / 1000 - Number(row.dataset.at));
      return;
    }
  });
  observer.observe(document.querySelector(".log-rows"), { childList: true });
})
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, browser: "Browser") -> Iterator[World]:
    assert browser.is_connected()
    with talked_world(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def page(browser: "Browser", there: World) -> Iterator["Page"]:
    made = opened(browser, there.page)
    yield made
    made.context.close()


def show(page: "Page", there: World, view: str) -> None:
    visit(page, there.page, view)


def test_a_key_is_needed_and_a_wrong_one_is_told_apart_from_a_right_one(
    browser: "Browser", there: World
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(there.page)
    page.get_by_label("Key").wait_for()
    assert page.evaluate("fetch('api/log').then((answer) => answer.status)") == 401
    assert page.locator("#tabs").is_hidden()

    page.get_by_label("Key").fill("not-the-key")
    page.keyboard.press("Enter")
    page.get_by_text("That key is not known here.").wait_for()

    page.get_by_label("Key").fill(KEY)
    page.keyboard.press("Enter")
    page.locator(".known-by").first.wait_for()
    assert page.evaluate("fetch('api/log').then((answer) => answer.status)") == 200

    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You are signed out.").wait_for()
    assert page.evaluate("fetch('api/log').then((answer) => answer.status)") == 401
    context.close()


def test_a_key_in_the_address_opens_the_page_and_leaves_the_address(page: "Page") -> None:
    assert "key" not in page.url
    assert page.evaluate("history.length") <= 2
    assert KEY not in page.content()


def test_every_view_shows_what_it_is_for(page: "Page", there: World) -> None:
    show(page, there, "known")
    assert page.locator("h1").inner_text() == "What do they know about me?"
    assert "AST" in page.locator(".known-by").first.inner_text()
    assert page.locator(".known .scale .left").count() >= 1

    show(page, there, "boundary")
    assert page.locator("h1").inner_text() == "Audit log"
    assert page.locator(".log-row[data-kind=released]", has_text="AST").count() >= 1
    assert page.locator(".log-row[data-kind=noised]").count() == 4

    show(page, there, "graph")
    assert page.locator(".node.root").count() == 4
    assert page.locator(".edge").count() == 4
    page.locator(".node[data-node=ast]").hover()
    assert page.locator(".card h2").inner_text() == "AST"
    page.locator(".node[data-node=fib4]").focus()
    assert page.locator(".card h2").inner_text() == "fib4"
    assert "sqrt(alt)" in page.locator(".card").inner_text()
    assert page.get_by_role("table", name="Values").locator("tbody tr").count() == 5

    show(page, there, "ledger")
    assert page.locator(".figures").inner_text().split("\n")[:2] == ["epsilon spent", "0.9"]
    assert page.get_by_role("table", name="By value").locator("tbody tr").count() == 4
    page.locator(".plot canvas").wait_for()

    show(page, there, "choose")
    assert page.locator(".plot canvas").count() == 4
    page.locator(".hider input").first.wait_for()
    assert "Age within 5 years" in page.locator(".said").inner_text()
    page.get_by_label("Age", exact=True).focus()
    page.keyboard.press("End")
    page.locator(".said", has_text="Age within 62 years").wait_for()
    page.keyboard.press("Home")
    page.locator(".said", has_text="Age within 0.31 years").wait_for()
    assert "fib4" in page.locator(".sentence").inner_text()

    show(page, there, "attack")
    page.get_by_role("button", name="Start the attack").click()
    page.get_by_role("button", name="Attack again").wait_for()
    assert "have not moved" in page.locator(".sentence").inner_text()
    assert page.locator(".plot canvas").count() == 3


def test_the_wire_of_an_edge_is_as_wide_as_it_is_sensitive(page: "Page", there: World) -> None:
    show(page, there, "graph")
    found = page.evaluate("fetch('api/graph?template=fib4').then((answer) => answer.json())")
    widths = page.locator(".edge .line").evaluate_all(
        "(lines) => lines.map((line) => Number(line.getAttribute('stroke-width')))"
    )
    felt = [edge["sensitivity"] for edge in found["edges"]]
    assert sorted(range(4), key=felt.__getitem__) == sorted(range(4), key=widths.__getitem__)
    steps = page.locator(".edge").evaluate_all("(edges) => edges.map((edge) => edge.dataset.step)")
    assert [int(step) for step in steps] == [
        min(4, int(edge["share"] * 10)) for edge in found["edges"]
    ]


@pytest.mark.parametrize("by", ["the gateway", "another process"])
def test_a_release_is_on_the_page_within_a_second_of_it(
    page: "Page", there: World, by: str
) -> None:
    """By the page's own clock. The best of five, so that a busy machine does not fail it."""
    show(page, there, "boundary")
    page.locator(".state[data-state=live]").wait_for()
    person = there.person()
    waits: list[float] = []
    while len(waits) < 5 and (not waits or min(waits) >= 1.0):
        page.evaluate(f"() => {{ window.waiting = ({LATENCY})(); }}")
        if by == "the gateway":
            assert there.chat(TELLING) == 200
        else:
            person.release("fib4")
        waits.append(float(page.evaluate("() => window.waiting")))
    assert 0 <= min(waits) < 1.0


def test_refusals_and_unknown_identifiers_stand_out(page: "Page", there: World) -> None:
    show(page, there, "boundary")
    page.get_by_label("Show").select_option("stopped")
    assert "show=stopped" in page.url
    kinds = set(page.locator(".log-row").evaluate_all("(rows) => rows.map((r) => r.dataset.kind)"))
    assert kinds == {"refused", "unknown-identifier"}
    forged = page.locator(".log-row[data-kind=unknown-identifier]").first
    assert "Unknown identifier" in forged.inner_text()
    assert "never issued" in forged.inner_text()
    assert "212-555" not in page.content()
    assert "Refused" in page.locator(".log-row[data-kind=refused]").first.inner_text()


def test_entries_are_filtered_by_service_and_root(page: "Page", there: World) -> None:
    show(page, there, "boundary")
    everything = page.locator(".log-row").count()
    page.get_by_label("Value").select_option("ast")
    chips = page.locator(".log-row").evaluate_all(
        "(rows) => rows.map((row) => [...row.querySelectorAll('.chip')].map((c) => c.textContent))"
    )
    assert chips
    assert len(chips) < everything
    assert all("AST" in each for each in chips)
    assert not any("plt" in each or "Plt" in each for each in chips)
    service = page.get_by_label("Service").locator("option").nth(1).get_attribute("value")
    page.get_by_label("Service").select_option(service)
    told = page.locator(".log-row .who b").all_inner_texts()
    assert set(told) == {service}


def test_a_pause_holds_what_is_new_until_it_ends(page: "Page", there: World) -> None:
    show(page, there, "boundary")
    page.locator(".state[data-state=live]").wait_for()
    before = page.locator(".log-row").first.get_attribute("data-id")
    page.get_by_role("button", name="Pause").click()
    there.person().release("ast")
    page.get_by_role("button", name="Resume (1 new)").wait_for()
    assert page.locator(".log-row").first.get_attribute("data-id") == before
    page.get_by_role("button", name="Resume").click()
    page.wait_for_function(
        "(id) => Number(document.querySelector('.log-row').dataset.id) > Number(id)", arg=before
    )


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "turns"), [("geometric", "2k+1"), ("laplace", "3k+1")])
def test_the_sliders_say_what_the_command_line_says(
    page: "Page", there: World, mechanism: str, turns: str
) -> None:
    arguments = ["fib4", "--mechanism", mechanism, "--turns", turns]
    told = CliRunner().invoke(command, [*arguments, "--no-plan-for-population", "--json"])
    expected = {(row["config"], row["epsilon"]): row for row in json.loads(told.stdout)["outlooks"]}

    show(page, there, "choose")
    page.get_by_label("Mechanism").select_option(mechanism)
    page.locator(".slider input").wait_for()
    page.get_by_label(re.compile(rf"^{re.escape(turns)} = ")).check(force=True)
    page.locator(".slider input").wait_for()
    epsilons = sorted({epsilon for _, epsilon in expected})
    for config, label in (("roots", "Even"), ("opt", "Weighted"), ("calibrated", "Calibrated")):
        page.get_by_label(label, exact=True).check(force=True)
        slider = page.locator(".slider input")
        slider.focus()
        page.keyboard.press("Home")
        for epsilon in epsilons:
            independent, guarded = expected["all", epsilon], expected[config, epsilon]
            assert page.locator(".chosen b").inner_text() == number(guarded["budget"])
            for part in ("target_error", "wrong_class_rate", "risk_error", "adversary_error"):
                for name, row in (("all", independent), ("guard", guarded)):
                    shown = page.locator(f"[data-value='{name}.{part}']").inner_text()
                    assert shown == f"{number(row[part])}\u00a0%", (config, epsilon, part)
            assert f"{guarded['target_error']:.3g} % off" in page.locator(".sentence").inner_text()
            page.keyboard.press("ArrowRight")


def test_no_view_breaks_the_content_security_policy(browser: "Browser", there: World) -> None:
    context = browser.new_context()
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda problem: complaints.append(str(problem)))
    page.goto(f"{there.page}#key={KEY}")
    for view in READY:
        show(page, there, view)
    page.get_by_role("button", name="Start the attack").click()
    page.get_by_role("button", name="Attack again").wait_for()
    assert page.evaluate("window.violations") == []
    assert complaints == []

    # The control: a style attribute is a violation, and is noticed.
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    page.wait_for_function("() => window.violations.length === 1")
    context.close()


def test_no_raw_value_is_in_any_byte_that_the_browser_is_sent(
    browser: "Browser", there: World
) -> None:
    page = opened(browser, there.page)
    for view in READY:
        show(page, there, view)
    page.get_by_role("button", name="Start the attack").click()
    page.get_by_role("button", name="Attack again").wait_for()
    show(page, there, "boundary")
    page.locator(".state[data-state=live]").wait_for()
    there.chat(TELLING)
    released = there.person().release("fib4")
    page.locator(".log-row", has_text=f"{released:.3g}").first.wait_for()
    page.context.close()

    sent = there.wire.sent
    assert repr(released).encode() in sent  # the control: what was released is seen in these bytes
    assert b"event: entry" in sent
    assert b"gzip" not in sent.split(b"\r\n\r\n", 1)[0]
    assert [each for each in SENTINELS if each.lower().encode() in sent.lower()] == []


def test_a_lost_connection_is_told_and_mends_itself(page: "Page", there: World) -> None:
    show(page, there, "boundary")
    page.locator(".state[data-state=live]").wait_for()
    there.wire.cut()
    try:
        page.get_by_text("The connection is lost").wait_for()
        assert page.locator(".state").inner_text() == "Disconnected"
    finally:
        there.wire.mend()
    there.person().release("alt")
    page.locator(".state[data-state=live]").wait_for()
    page.locator(".log-row .asked", has_text="ALT").first.wait_for()
    assert page.get_by_text("The connection is lost").count() == 0
