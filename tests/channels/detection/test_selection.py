"""The detectors that a profile or an option names, and Presidio beside the rules."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from rootguard.channels.detection import Found, PresidioEntities, Rules, make_detectors, selection
from rootguard.channels.detection.selection import Selected
from rootguard.channels.text.channel import TextChannel
from rootguard.cli.gateway import _detectors, command
from rootguard.errors import ProfileError, UnknownNameError
from rootguard.session.person import Person
from rootguard.session.profile import DetectionChoice, parse_profile
from rootguard.store import MemoryStore

PROFILE = """
templates = ["fib4"]
budget = "0.9"
{}
"""


def profile(table: str = "") -> DetectionChoice:
    return parse_profile(PROFILE.format(table), file="me.toml").detection


class Engine:
    """Presidio's engine, as far as it is used."""

    def __init__(self, **_: object) -> None:
        pass

    def get_supported_entities(self, language: str) -> list[str]:
        assert language == "en"
        return ["PERSON", "EMAIL_ADDRESS", "DATE_TIME", "US_SSN", "URL"]

    def analyze(
        self, text: str, language: str, entities: list[str], score_threshold: float
    ) -> Iterator[SimpleNamespace]:
        assert (language, score_threshold) == ("en", 0.4)
        assert entities == ["PERSON", "US_SSN"]
        for word, entity in (("Zarvon's", "PERSON"), ("078-05-1120", "US_SSN")):
            place = text.find(word)
            if place >= 0:
                yield SimpleNamespace(entity_type=entity, start=place, end=place + len(word))


@pytest.fixture
def presidio(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> str:
        if name == "missing":
            raise OSError(name)
        return name

    analyzer = SimpleNamespace(AnalyzerEngine=Engine)
    monkeypatch.setitem(sys.modules, "presidio_analyzer", analyzer)
    engines = SimpleNamespace(SpacyNlpEngine=lambda models: SimpleNamespace(nlp=models))
    monkeypatch.setitem(sys.modules, "presidio_analyzer.nlp_engine", engines)
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    selection._model.cache_clear()


@pytest.mark.usefixtures("presidio")
def test_presidio_gives_persons_and_numbers_at_their_places() -> None:
    text = "x " * 15_000 + "Zarvon's number is 078-05-1120"
    start = text.index("Zarvon")
    number = text.index("078")
    assert PresidioEntities("any").find(text) == [
        Found(start, start + 6, "person"),
        Found(number, number + 11, "code"),
    ]
    with pytest.raises(UnknownNameError, match="missing"):
        PresidioEntities("missing")


def test_a_missing_presidio_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(UnknownNameError, match="presidio"):
        PresidioEntities("en_core_web_md")


@pytest.mark.usefixtures("presidio")
def test_kinds_and_allowed_words_hold_for_every_detector() -> None:
    text = "Zarvon's number is 078-05-1120; Maria Lopez"
    rules, model = make_detectors(("rules", "presidio"), kinds=("person",), allow=("zarvon",))
    assert isinstance(rules, Rules)
    assert isinstance(model, Selected)
    assert model.find(text) == []
    assert [text[f.start : f.end] for f in rules.find(text)] == ["Maria Lopez"]
    assert make_detectors(("presidio",))[0].find(text)[0].kind == "person"


def test_an_unknown_detector_or_kind_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="detector"):
        make_detectors(("oracle",))
    with pytest.raises(UnknownNameError, match="kind"):
        make_detectors(kinds=("colour",))
    assert make_detectors(()) == ()


def test_a_profile_chooses_detectors_kinds_and_words() -> None:
    chosen = profile(
        '[detection]\ndetectors = ["rules"]\nkinds = ["person"]\nallow = ["Ada Lovelace"]'
    )
    assert chosen.detectors == ("rules",)
    assert chosen.kinds == ("person",)
    assert chosen.allow == ("Ada Lovelace",)
    assert "Ada" not in repr(chosen)
    assert profile() == DetectionChoice()


@pytest.mark.parametrize("table", ["[detection]\nkind = []", "[detection]\nallow = 'Ada'"])
def test_a_mistake_in_the_table_is_told_with_its_key(table: str) -> None:
    with pytest.raises(ProfileError, match="detection"):
        profile(table)


def test_an_option_goes_before_the_profile() -> None:
    chosen = DetectionChoice(detectors=(), allow=("Maria Lopez",))
    assert _detectors(None, chosen) == ()
    assert _detectors("none", DetectionChoice()) == ()
    (rules,) = _detectors("rules", chosen)
    assert rules.find("Maria Lopez and Jane Miller") == [Found(16, 27, "person")]
    assert "presidio" in CliRunner().invoke(command, ["--help"]).output


def test_what_has_no_token_becomes_a_placeholder_and_the_rest_comes_back() -> None:
    person = Person.open(
        parse_profile(PROFILE.format(""), file="me.toml"), store=MemoryStore(), on_clamp=print
    )
    channel = TextChannel(person, detectors=make_detectors())
    text = "I live at 12 Baker Street, my zip code is 29687, from 69.196.0.85 on 2024-03-05 19:28."
    made = channel.sanitize(text).text
    assert "[address]" in made
    for raw in ("Baker", "29687", "69.196.0.85", "2024-03-05"):
        assert raw not in made
    assert channel.sanitize(made).text == made
    assert channel.restore(made) == text.replace("12 Baker Street", "[address]")
