"""Take the pictures of the console in the documentation: python -m tests.support.console_pictures.

Each page at two widths and in both themes, from a gateway that a synthetic person talks through.
Needs Playwright and Chromium.
"""

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from rootguard.errors import RootGuardError
from rootguard.session.session import speak_to
from tests.support.consoles import FORGING, GOALS, READY, TELLING, chromium, opened, visit, world

FOLDER = Path(__file__).parents[2] / "docs" / "images"
SIZES = {"wide": (1280, 860), "phone": (390, 844)}


def main(folder: Path) -> None:
    """Write console-PAGE-WIDTH-THEME.png for each."""
    with (
        chromium() as browser,
        tempfile.TemporaryDirectory() as place,
        world(Path(place), GOALS) as running,
    ):
        running.chat(TELLING)
        running.upstream.says = lambda _: FORGING
        running.chat("And what about my platelets, they were 180?")
        person = running.person()
        speak_to("liver-clinic", "MCP")
        for name in ("age", "ast", "fib4"):
            person.release(name)
        person.derive("ast / alt")
        speak_to("insurer", "MCP")
        person.release("age")
        with suppress(RootGuardError):
            person.derive("log(0 - age)")
        for theme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                page = opened(
                    browser,
                    running.direct,
                    color_scheme=theme,
                    viewport={"width": width, "height": height},
                )
                for view in READY:
                    visit(page, running.direct, view)
                    if view == "choose":
                        page.locator(".hider input").first.wait_for()
                    if view == "attack":
                        page.get_by_role("button", name="Start the attack").click()
                        page.get_by_role("button", name="Attack again").wait_for()
                    page.locator(".state[data-state=live]").wait_for()
                    page.screenshot(path=folder / f"console-{view}-{size}-{theme}.png")
                page.context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
