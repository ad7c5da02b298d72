"""Which answer was written does not show: any word for it leaves the same text."""

import json
import tomllib
from importlib.resources import files
from itertools import chain, count
from pathlib import Path

import pytest
from benchmarks.told import channel, leaves

from rootguard.channels.text.channel import TextChannel
from rootguard.template import catalog, load_template
from tests.support.growth import grows_linearly

DEVELOPING = Path(__file__).parents[2] / "data" / "plain" / "developing"
LISTS = tomllib.loads((files("rootguard.reading") / "answers.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def one() -> TextChannel:
    return channel()


TELLING = {
    "answers": "",
    "answers2": "u-153 v-050 v-062 v-069 v-072 v-120 w-003 w-004 w-010",
    "answers3": "u-044 u-072 u-095 u-102 u-136",
    "answers4": "u-014",
    "answers5": (
        "m-001 m-019 m-024 m-039 m-045 m-046 m-052 m-053 m-074 m-085 m-093 "
        "n-008 n-013 n-020 n-028 n-042 n-062 n-064"
    ),
}
"""The groups that are known to tell: none may join them, and whoever mends one strikes it out."""


@pytest.mark.parametrize("file", TELLING)
def test_no_group_of_the_developed_texts_tells_that_is_not_known_to(
    one: TextChannel, file: str
) -> None:
    groups = map(json.loads, (DEVELOPING / f"{file}.jsonl").read_text("utf-8").splitlines())
    told = {each["id"] for each in groups if len({leaves(one, w) for w in each["writings"]}) > 1}
    assert told <= set(TELLING[file].split())


def test_what_only_speaks_of_the_topics_stays(one: TextChannel) -> None:
    texts = (DEVELOPING / "spoken_of.txt").read_text("utf-8").splitlines()
    assert [text for text in texts if leaves(one, text) != text] == []


@pytest.mark.parametrize(
    "form", ["Smoker: {}\nPets: none", "smoker={}", "Do you smoke? {}\nPets? Two", "Diabetes - {}"]
)
def test_every_word_for_yes_or_no_leaves_as_one(one: TextChannel, form: str) -> None:
    words = {word for key, pair in LISTS["pairs"][0].items() if key[:2] == "en" for word in pair}
    assert len({leaves(one, form.format(word)) for word in words}) == 1


@pytest.mark.parametrize("form", ["I'm a {} of 44.", "I am a {}, what should I eat?"])
def test_every_word_for_a_woman_or_a_man_leaves_as_one(one: TextChannel, form: str) -> None:
    named = next(each for each in LISTS["sexes"] if each.get("en") == ["woman", "man"])
    words = set(chain.from_iterable(pair for key, pair in named.items() if key[:2] == "en"))
    assert len({leaves(one, form.format(word)) for word in words}) == 1


@pytest.mark.parametrize(
    ("form", "answers"),
    [
        ("Can a {} like me have figs?", ("diabetic", "non-diabetic", "type 2 diabetic")),
        ("My brother smokes, {}. Who pays more?", ("so do I", "but I don't", "and I do too")),
        ("The form asks about smoking and I ticked {}.", ("yes", "no")),
        ("{} on ramipril. Can I eat grapefruit?", ("Currently", "Not", "Never", "Still")),
        ("{} heart failure, is altitude bad for me?", ("With", "Without")),
        ("| Alcohol | {} |", ("never", "monthly", "daily", "2-3x/week")),
        ("I {} drink, is a test worthwhile?", ("don't", "hardly", "often", "never")),
        ("I'm {} and need his papers.", ("his wife", "her husband")),
        ("FH: {}. SH: teacher.", ("nil of note", "T2DM in grandmother", "T2DM in mother")),
        ("I'm a {} mum of two.", ("single", "married", "divorced", "widowed", "separated")),
        ("My boy {}.", ("was born on 14 May", "was born on Sunday 2 November")),
        ("{}, walk the dog daily, what else can I do?", ("Still smoking", "Never touched tobacco")),
        ("Off to the clinic. {}, feet checked.", ("T2DM since 2015", "T2DM never diagnosed")),
        ("My test for diabetes came back {}.", ("positive", "negative", "clear")),
        ("I {}.", ("was told I'm diabetic", "was told I'm in the clear, not diabetic")),
        ("Do you have diabetes? {}. Age? 54", ("Yes I do", "No I don't", "Guilty, since May")),
        ("Circle one. Hypertension?   {}", ("(YES)   no", "yes   (NO)", "~~yes~~ no", "YES / no")),
        ("Stroke ......... {}\nGout .... Y / [N]", ("[Y] / N", "Y / [N]")),
        ("Diagnoses: {}. Write to the insurer.", ("gout, HTN", "HTN, gout", "gout", "gout only")),
        (
            "Meds: {}. Interactions?",
            ("metformin, ramipril, D3", "ramipril, D3", "D3", "D3, no insulin"),
        ),
        ("There's a field 'drinks'. Mine says {}.", ("never", "a few times a week", "daily")),
        ("{} I want to take up tennis.", ("Two years after my stroke", "With no stroke behind me")),
        ("INSERT INTO t (id, prior_stroke) VALUES (7, {});", ("TRUE", "FALSE")),
        ("A bio in the third person about me: {} is a plumber.", ("she", "he")),
        (
            "Relatives with diabetes: {}. What now?",
            ("zero", "one, a great-uncle", "one, my own son"),
        ),
    ],
)
def test_a_statement_leaves_alike_whatever_it_says(
    one: TextChannel, form: str, answers: tuple[str, ...]
) -> None:
    assert len({leaves(one, form.format(answer)) for answer in answers}) == 1


def test_every_typed_root_of_the_catalogue_has_words() -> None:
    called = {word for fact in LISTS["facts"].values() for word in fact["called"]}
    for name in catalog():
        for root in load_template(name).roots.values():
            if root.type.name in ("boolean", "category", "date"):
                words = {str(root.name).replace("_", " "), (root.title or "").lower()}
                assert called & {*words, *map(str.lower, root.aliases)}, (name, root.name)


@pytest.mark.parametrize(
    "text",
    [
        "Diabetes is a chronic disease. Explain it to me.",
        "I drink two litres of water a day. Is that enough?",
        "My neighbour smokes on the balcony. What can I do?",
        "How often should I water my plants? Every day seems too much.",
        "I need a shopping list with fruit and vegetables for a week.",
        "The trial period started on 3 March 2025. When can I cancel?",
        "I'm looking for a man who repairs bikes.",
        "My husband wants to quit smoking. Any tips for him?",
        "My article says that exercise every day keeps the heart young.",
        "In my country smoking is banned in restaurants.",
        "I'm a nurse on the stroke ward and need a handover template.",
        "I have to give a talk on heart failure next week. Outline it.",
        "I read that one in ten adults has diabetes. Is that true?",
        "Two adults and three kids need a tent. Which one?",
        "The chimney smokes when the wind is from the west.",
        "My library books are due on 3 March 2026.",
        "What does hx of CVA mean?",
    ],
)
def test_what_is_only_spoken_of_stays(one: TextChannel, text: str) -> None:
    assert leaves(one, text) == text


def test_a_nested_answer_leaves_alike_where_it_is_the_released_one(one: TextChannel) -> None:
    texts = [f'{{"family": {{"diabetes": "{word}"}}}}' for word in ("none", "distant", "close")]
    assert len({leaves(one, text) for text in texts}) == 1


@pytest.mark.parametrize("length", [8_000, pytest.param(40_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "smoker ",
            "i have diabetes and ",
            "i smoke, ",
            "do you smoke? ",
            "woman ",
            "my history: ",
        ),
        *(
            "smoker: [ ] yes [x] no ",
            "smoker (yes) no ",
            "born 3 March 1980 ",
            "| smoker | yes |\n",
        ),
    ],
)
def test_a_hostile_text_takes_linear_time(one: TextChannel, unit: str, length: int) -> None:
    fresh = count()  # a text that was read before is not read again
    assert grows_linearly(lambda text: leaves(one, f"No {next(fresh)}\n{text}"), unit, length)
