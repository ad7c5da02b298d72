"""The examples of docs/text.md: what is replaced is, what is blocked is, what passes passes."""

import re
from pathlib import Path

import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.text.channel import TextChannel
from rootguard.errors import TextBlockedError
from rootguard.reading.mentions import find_mentions
from rootguard.session import Person, parse_profile
from rootguard.vault import open_store

PAGE = (Path(__file__).parents[3] / "docs" / "text.md").read_text(encoding="utf-8")
PROFILE = """
templates = ["fib4", "homa", "bmi", "map", "debt_to_income"]
budget = "0.9"

[identifiers]
name = "Jane Roe"
"""


def examples(kind: str) -> list[str]:
    blocks = re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def person() -> Person:
    profile = parse_profile(PROFILE, file="me.toml")
    return Person.open(profile, store=open_store("memory:"), on_clamp=lambda roots: None)


@pytest.fixture(scope="module")
def channel(person: Person) -> TextChannel:
    return TextChannel(person, detectors=[Rules()])


@pytest.mark.parametrize("text", examples("replaced"))
def test_what_the_page_says_is_found_is_found(
    person: Person, channel: TextChannel, text: str
) -> None:
    assert find_mentions(text, person.roots)
    channel.sanitize(text)


@pytest.mark.parametrize("text", examples("blocked"))
def test_what_the_page_says_is_blocked_is_blocked(channel: TextChannel, text: str) -> None:
    with pytest.raises(TextBlockedError):
        channel.sanitize(text)


@pytest.mark.parametrize("text", examples("unchanged"))
def test_what_the_page_says_is_not_protected_is_not(channel: TextChannel, text: str) -> None:
    assert channel.sanitize(text).text == text


def test_the_program_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("me.toml").write_text(PROFILE)
    (program,) = examples_of_python()
    names: dict[str, str] = {}
    exec(compile(program, "docs/text.md", "exec"), names)
    assert "Roe" not in names["sent"]
    assert "Jane Roe" in names["shown"]


def examples_of_python() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
