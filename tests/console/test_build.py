"""The committed page is what its sources build to, names no registry, and holds no inline code."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "console-ui"
STATIC = ROOT / "src" / "rootguard" / "console" / "static"
FILES = {"LICENSES.txt", "app.css", "app.js", "icon.svg", "index.html", "theme.js"}


def digests(folder: Path) -> dict[str, str]:
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}


@pytest.mark.slow
def test_building_the_sources_again_gives_the_committed_bytes(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    copy = tmp_path / "console-ui"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))
    environment = os.environ | {"npm_config_update_notifier": "false"}

    def npm(*arguments: str) -> int:
        return subprocess.run(
            ["npm", *arguments], cwd=copy, env=environment, capture_output=True, timeout=PATIENCE
        ).returncode

    if npm("ci") != 0:
        pytest.skip("the packages could not be had")
    out = tmp_path / "static"
    assert npm("run", "build", "--", f"--out={out}") == 0
    assert digests(out) == digests(STATIC)

    # The control: another source builds to other bytes.
    with (copy / "src" / "app.js").open("a", encoding="utf-8") as source:
        source.write("window.another = 1;\n")
    assert npm("run", "build", "--", f"--out={out}") == 0
    assert digests(out)["app.js"] != digests(STATIC)["app.js"]


def test_the_lock_file_pins_every_package_and_names_no_registry() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages
    assert all(each["integrity"].startswith("sha512-") for each in packages.values())
    assert not any("resolved" in each for each in packages.values())
    wanted = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())


def test_the_committed_page_is_whole_and_loads_nothing_from_elsewhere() -> None:
    assert {each.name for each in STATIC.iterdir()} == FILES
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert addresses
    assert all(each.startswith(("static/", "#")) for each in addresses)
    assert all(
        (STATIC / each.removeprefix("static/")).exists() for each in addresses if each[0] == "s"
    )
    assert re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page) is None
    style = (STATIC / "app.css").read_text(encoding="utf-8")
    assert re.search(r"url\(|@import", style) is None


def test_bundled_code_is_shipped_with_its_licences() -> None:
    text = (STATIC / "LICENSES.txt").read_text(encoding="utf-8")
    for name in ("uplot", "@dagrejs/dagre", "@dagrejs/graphlib"):
        assert re.search(rf"^{re.escape(name)} \d+\.\d+\.\d+ \(MIT\)$", text, re.MULTILINE)
    assert text.count("Permission is hereby granted") == 3
