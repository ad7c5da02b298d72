"""The documentation site builds without a warning, and its links lead somewhere."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tools.site import (
    ENDPOINTS,
    PAGES,
    broken_links,
    cli_page,
    formats_page,
    http_page,
    http_routes,
    loaded_from_elsewhere,
)

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    for package in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; `make docs` installs it")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert "WARNING -" not in run.stderr
    assert broken_links(site) == []
    assert loaded_from_elsewhere(site) == []
    assert (site / "search").is_dir()
    assert all((site / path).with_suffix(".html").exists() for path in PAGES)


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">b</a><a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<p id="here"></p><script src="https://a.example/x.js">')
    assert broken_links(tmp_path) == ["a.html: b.html#there", "a.html: c.html"]
    assert len(loaded_from_elsewhere(tmp_path)) == 1


def test_every_path_of_the_servers_is_described_and_no_other() -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    routes = http_routes()
    assert {server: set(paths) for server, paths in routes.items()} == {
        server: set(paths) for server, paths in ENDPOINTS.items()
    }
    assert routes["Gateway"]["/v1/chat/completions"] == ["POST"]
    assert routes["Gateway"]["/readyz"] == ["GET"]
    assert "| `/v1/messages` | POST |" in http_page()


def test_pages_are_made_from_the_program() -> None:
    assert "## rootguard gateway" in cli_page()
    assert "--upstream" in cli_page()
    assert 'identifiers = "restore"' in formats_page()
