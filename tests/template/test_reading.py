"""What is read from a file, from the catalog, and what is no template at all."""

import os
from pathlib import Path

import pytest

from rootguard.errors import TemplateError, UnknownNameError
from rootguard.template import MAX_BYTES, catalog, load_template, parse_template
from tests.support.liver_template import BASE, refusal


def test_a_catalog_template_is_read_once() -> None:
    assert load_template("fib4") is load_template("fib4")


def test_a_path_is_read_as_a_file_and_a_bare_name_from_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fib4"
    file.write_text(BASE, "utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_template("fib4").name == "fib4"
    assert load_template(Path("fib4")).name == "liver"
    assert load_template(f".{os.sep}fib4").name == "liver"
    assert load_template("own.toml").digest == load_template(file).digest


@pytest.mark.parametrize("name", ["fib5", "../pyproject", "", "FIB4", "zzzz"])
def test_a_name_that_is_not_in_the_catalog_is_refused(name: str) -> None:
    if "/" in name:
        with pytest.raises(TemplateError):
            load_template(name)
        return
    with pytest.raises(UnknownNameError) as caught:
        load_template(name)
    assert caught.value.kind == "template"
    assert set(caught.value.known) <= set(catalog())
    assert caught.value.known


def test_a_near_miss_of_a_catalog_name_is_told_the_near_name() -> None:
    with pytest.raises(UnknownNameError, match="no template is called 'cockroft_gault'") as caught:
        load_template("cockroft_gault")
    assert caught.value.known[0] == "cockcroft_gault"


@pytest.mark.parametrize("path", ["absent.toml", ".", "a\x00b.toml"])
def test_an_unreadable_file_is_told_with_its_path(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TemplateError, match="cannot be read") as caught:
        load_template(Path(path))
    assert (caught.value.file, caught.value.key) == (path, "file")
    assert "check the path" in caught.value.remedy


def test_a_file_that_is_not_utf8_is_told_the_byte(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes('title = "\xe4"'.encode("latin-1"))
    with pytest.raises(TemplateError, match="byte 10 is not UTF-8; save it as UTF-8"):
        load_template(file)


def test_a_file_over_the_limit_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text(BASE + "#" + "é" * MAX_BYTES, "utf-8")
    with pytest.raises(TemplateError, match="over 256 KiB") as caught:
        load_template(file)
    assert (caught.value.file, caught.value.key) == (str(file), "file")
    assert "256 KiB" in refusal("[" * (MAX_BYTES + 1)).problem
    exact = BASE + "#" * (MAX_BYTES - len(BASE))
    assert parse_template(exact, file="f").name == "liver"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('name = "a"\ntitle = \n', "line 2"),
        ('name = "a"\nname = "b"\n', "line 2"),
        ("\n\n[roots", "line 3"),
        (f"x = {'9' * 5000}", "file"),
        ("x = " + "[" * 5000, "file"),
        ('name = "\ud800"', "file"),
    ],
)
def test_what_is_not_toml_is_told_with_its_line(text: str, key: str) -> None:
    error = refusal(text)
    assert (error.file, error.key) == ("liver.toml", key)
