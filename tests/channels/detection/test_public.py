"""The measurement on a labelled set that is not part of the repository."""

import json
from pathlib import Path

import pytest
from benchmarks.detection import public
from rich.console import Console

from rootguard.channels.detection import Found, Rules

TEXTS = (
    {"text": "I am Ann Lee.", "spans": [{"start": 5, "end": 12, "type": "PERSON"}]},
    {"text": "on Sunday", "spans": [{"start": 3, "end": 9, "type": "DATE_TIME"}]},
    {"text": "saw 01/02/2024", "spans": [{"start": 4, "end": 14, "type": "DATE_TIME"}]},
    {"text": "in Leeds", "spans": [{"start": 3, "end": 8, "type": "LOCATION"}]},
)


def write(folder: Path) -> Path:
    file = folder / "set.jsonl"
    file.write_text("\n".join(map(json.dumps, TEXTS)), "utf-8")
    return file


def test_a_label_counts_as_covered_to_its_last_letter_and_a_weekday_is_not_judged(
    tmp_path: Path,
) -> None:
    texts = public.load(write(tmp_path))
    full = public.judge(texts, Rules().find)
    assert (full["person"].present, full["person"].covered) == (1, 1)
    assert (full["date"].present, full["date"].covered, full["date"].right) == (1, 1, 1)
    assert "address" not in full
    part = public.judge(texts, lambda text: [Found(5, 8, "person")] if "Ann" in text else [])
    assert (part["person"].covered, part["person"].right) == (0, 1)
    assert part["date"].covered == 0


def test_the_halves_are_fixed_and_both_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path)
    assert [each.half for each in public.load(file)] == [each.half for each in public.load(file)]
    console = Console(record=True, width=160)
    contenders = [("Rules", Rules()), ("Presidio", "not installed")]
    monkeypatch.setattr(public, "contenders", lambda: iter(contenders))
    public.report(file, console)
    shown = console.export_text()
    assert "developing half" in shown
    assert "unseen half" in shown
    assert "Presidio left out" in shown
