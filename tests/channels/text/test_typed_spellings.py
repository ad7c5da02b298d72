"""Yes or no, a few words and days, however they are spelt: what leaves is the mechanism's.

Two checks. Of one person, each spelling is written once for every answer, and what leaves must be
the same text, whichever answer was written: then nothing of it leaves but what was drawn before.
Of fresh people, what leaves must be right as often as the mechanism says.
"""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.mcp.proxy.offers import Arguments, Offers
from rootguard.channels.mcp.proxy.rewriting import RequestRewriter
from rootguard.channels.text.channel import TextChannel
from rootguard.session.person import Person
from rootguard.session.profile import Profile, parse_profile
from rootguard.store import MemoryStore
from tests.support.typed_spellings import ANSWERS, DAYS, TEMPLATE, TypedSpelling, typed_spellings

SPELLINGS = typed_spellings()
EPSILON = 1
FALSE_ALARM = 1e-8


def declared(root: str, answer: str) -> str:
    return f"{root} = {answer}" if root in DAYS else f'{root} = "{answer}"'


def profile(folder: Path, answers: dict[str, str]) -> Profile:
    (folder / "visit.toml").write_text(TEMPLATE)
    values = "\n".join(declared(root, answer) for root, answer in answers.items())
    text = f"""
templates = ["./visit.toml"]
budget = "{EPSILON * len(ANSWERS)}"
allocation = "uniform"
[values]
{values}
"""
    return parse_profile(text, file=str(folder / "me.toml"))


def person(folder: Path, answers: dict[str, str]) -> Person:
    return Person.open(profile(folder, answers), store=MemoryStore(), on_clamp=lambda _roots: None)


def first_answers() -> dict[str, str]:
    return {root: answers[0] for root, answers in ANSWERS.items()}


def differing(channel: TextChannel, spellings: list[TypedSpelling]) -> list[object]:
    """Spellings of which what leaves tells one answer from another."""
    found: list[object] = []
    for each in spellings:
        left = {channel.sanitize(writing, source="owner").text for writing in each.writings}
        if len(left) > 1:
            found.append((each.writings, left))
    return found


def test_there_are_more_than_a_thousand_spellings() -> None:
    writings = {writing for each in SPELLINGS for writing in each.writings}
    assert len(SPELLINGS) > 1000
    assert len(writings) > 2000
    assert {each.root for each in SPELLINGS} == ANSWERS.keys()


@pytest.mark.parametrize("part", range(2))
def test_a_part_of_the_spellings_leaves_alike_whichever_answer_is_written(
    tmp_path: Path, part: int
) -> None:
    channel = TextChannel(person(tmp_path, first_answers()))
    assert not differing(channel, SPELLINGS[part::18])


@pytest.mark.slow
@pytest.mark.parametrize("detectors", [(), (Rules(),)], ids=["bare", "rules"])
def test_every_spelling_leaves_alike_whichever_answer_is_written(
    tmp_path: Path, detectors: tuple[Rules, ...]
) -> None:
    channel = TextChannel(person(tmp_path, first_answers()), detectors=detectors)
    assert not differing(channel, SPELLINGS)


# Pairs that told which was written when they were first tried.
TOLD_ONCE = [
    ("I live up north.", "I live down south.", "I live out far west."),
    ("I was born in the spring of 1980.", "I was born in the winter of 1991."),
    ("I just had a round birthday, my fiftieth.", "I just had a round birthday, my sixtieth."),
    ("pmh: none", "pmh: diabetes"),
    ("I'm neither a smoker nor a diabetic.", "I'm both a smoker and a diabetic."),
    ('{"social": {"tobacco": {"current": true}}}', '{"social": {"tobacco": {"current": false}}}'),
    ('{"smoker": "[x]"}', '{"smoker": "[ ]"}'),
    ("Geboren bin ich am dritten März 1980.", "Geboren bin ich am vierten Mai 1991."),
    ("Meine letzte Periode war am 4. Januar.", "Meine letzte Periode war am 19. Mai."),
    ("Je ne fume plus.", "Je fume encore."),
    ("I'm a northerner by region.", "I'm a southerner by region."),
    ("My region is northern-ish", "My region is southern-ish"),
    ("LMP 040126", "LMP 190526"),
    ("☒ diabetes ☐ smoker", "☐ diabetes ☐ smoker"),
    ("Smoker (circle one): YES / no", "Smoker (circle one): yes / NO"),
    ("Smoker: yep, unfortunately", "Smoker: nah, never"),
    ("Thankfully I was spared diabetes.", "Sadly I was not spared diabetes."),
    ("Leider rauche ich.", "Zum Glück rauche ich nicht."),
    ("Diabetes +", "Diabetes -"),
    ("diabetes (+)", "diabetes (-)"),
    ("smoker? 👍", "smoker? 👎"),
    ("Smoking: 20/day", "Smoking: 0/day"),
    ("Region code: NO", "Region code: SO"),
    ("no smoking, no diabetes", "smoking, diabetes"),
    (
        "I was born on the third of March nineteen eighty.",
        "I was born on the first of May nineteen ten.",
    ),
]


@pytest.mark.parametrize("writings", TOLD_ONCE, ids=lambda writings: writings[0])
def test_what_told_an_answer_once_does_so_no_more(
    tmp_path: Path, writings: tuple[str, ...]
) -> None:
    channel = TextChannel(person(tmp_path, first_answers()))
    left = {channel.sanitize(writing, source="owner").text for writing in writings}
    assert len(left) == 1


@pytest.mark.parametrize(
    ("question", "replies"),
    [
        ("Are you diabetic?", ("Fortunately not", "I'm afraid so")),
        ("Rauchen Sie?", ("Nicht mehr", "Jeden Tag")),
        ("Do you smoke?", ("Only on weekends", "Gave up years ago")),
        ("Do you smoke?", ("Yes, unfortunately.", "No, never.")),
        ("Which region do you live in?", ("The northern one", "The southern one")),
        ("When were you born?", ("The third of March", "The first of May")),
    ],
)
def test_a_reply_in_words_of_no_list_does_not_tell(
    tmp_path: Path, question: str, replies: tuple[str, str]
) -> None:
    from rootguard.reading.claims import Expectation

    channel = TextChannel(person(tmp_path, first_answers()))
    asked = Expectation(asked=channel.sanitize(question, source="model").heard.asked)
    made = {channel.sanitize(r, source="owner", expectation=asked).text for r in replies}
    assert len(made) == 1


def test_a_year_in_words_leaves_as_the_released_one(tmp_path: Path) -> None:
    one = person(tmp_path, first_answers())
    born = one.release("born")
    assert isinstance(born, date)
    left = TextChannel(one).sanitize("I was born in nineteen eighty.", source="owner").text
    assert left == f"I was born in {born.year}."


@pytest.mark.parametrize(
    "text",
    [
        "My niece's 5th birthday is in May.",
        "The fall of 1989 changed Europe.",
        "Unfortunately the build fails on node 18.",
        "Conditions: sunny, 20 degrees",
        "Problems: none of the tests pass",
        "[ ] write docs\n[x] add tests",
        '{"current": true, "name": "region"}',
    ],
)
def test_what_only_looks_like_an_answer_stays(tmp_path: Path, text: str) -> None:
    channel = TextChannel(person(tmp_path, first_answers()))
    assert channel.sanitize(text, source="owner").text == text


def test_a_data_centre_is_nobodys_region_unless_it_says_an_answer(tmp_path: Path) -> None:
    channel = TextChannel(person(tmp_path, first_answers()))
    for kept in ('{"region": "eu-west-1"}', "region: us-central1-a", '{"region": "westeurope"}'):
        assert channel.sanitize(kept, source="owner").text == kept
    for taken in ("eu-north-1", "nth", "zone-3", "southcentralus"):
        assert channel.sanitize_json({"region": taken}).value == {"region": "[answer]"}


def test_what_is_said_of_a_root_without_a_value_is_learnt_and_then_the_same(tmp_path: Path) -> None:
    """The owner's first words are noised once; what they say later of it changes nothing."""
    for root, writings in {
        "smoker": ("I never smoke.", "Smoker: yes"),
        "region": ("My region is south.", "region: far west"),
        "born": ("I was born on 3 March 1980.", "Date of birth: 1991-11-24"),
    }.items():
        one = person(tmp_path, {})
        channel = TextChannel(one)
        assert not one.known(root)
        channel.sanitize(writings[0], source="owner")
        assert one.known(root)
        kept = one.written(root)
        channel.sanitize(writings[1], source="owner")
        assert one.written(root) == kept


def test_a_text_of_somebody_else_teaches_nothing(tmp_path: Path) -> None:
    one = person(tmp_path, {})
    channel = TextChannel(one)
    made = channel.sanitize("Smoker: yes\nRegion: north\nDate of birth: 1980-03-03", source="tool")
    assert made.text == "Smoker: [answer]\nRegion: [answer]\nDate of birth: [date]"
    assert not any(map(one.known, ANSWERS))


def test_the_control_sees_a_channel_that_knows_no_types(tmp_path: Path) -> None:
    """A reader that does not look for answers lets nearly all of them through."""
    (tmp_path / "visit.toml").write_text(TEMPLATE)

    class Numbers(TextChannel):
        __slots__ = ()

        def _answer_edits(self, page: object, look: object, taken: object) -> list[object]:  # type: ignore[override]
            return []

    channel = Numbers(person(tmp_path, first_answers()))
    sample = SPELLINGS[::60]
    assert len(differing(channel, sample)) > len(sample) // 2


# -- the law ----------------------------------------------------------------------------------

RIGHT = {
    "smoker": np.e / (np.e + 1),
    "region": np.e / (np.e + 2),
    # Two-sided geometric noise far from its bounds: (1 - q) / (1 + q) with q = 1 / e.
    "born": (1 - np.exp(-1)) / (1 + np.exp(-1)),
}
DRAWN = {root: [s for s in SPELLINGS if s.root == root] for root in RIGHT}
_NOTHING_TOLD = ("[answer]", "[date]")


def told(root: str, spelling: TypedSpelling, left: str, folder: Person) -> bool | None:
    """Whether the text that left says the person's own answer; None if it says none."""
    if any(hole in left for hole in _NOTHING_TOLD):
        return None
    kept = folder.release(root)
    right = {
        "smoker": kept is True,
        "region": kept == ANSWERS["region"][0],
        "born": kept == DAYS["born"][0],
    }[root]
    said = TextChannel(folder).sanitize(spelling.writings[0], source="tool").text
    assert said == left  # what leaves is what was drawn for this person, and nothing else
    return right


def arguments(spelling: TypedSpelling, writing: str) -> dict[str, object]:
    content = json.loads(writing) if spelling.json else {"note": writing}
    return content if isinstance(content, dict) else {"items": content}


@pytest.mark.parametrize(
    ("way", "people"),
    [
        *(("text", 60), ("json", 30), ("mcp", 30)),
        *(pytest.param(way, 200, marks=pytest.mark.slow) for way in ("text", "json", "mcp")),
    ],
)
def test_of_fresh_people_answers_are_right_as_often_as_the_mechanism_says(
    tmp_path: Path, way: str, people: int
) -> None:
    """Each with a spelling of each root; false alarms: 2e-8 for each way and root."""
    rng = np.random.default_rng(21)
    right: dict[str, list[bool]] = {root: [] for root in RIGHT}
    for _ in range(people):
        one = person(tmp_path, first_answers())
        channel = TextChannel(one)
        offers = Offers()
        offers.learn("tools/list", {}, {"tools": [{"name": "visit", "inputSchema": {}}]})
        rewriter = RequestRewriter(Arguments(one), offers)
        for root in RIGHT:
            drawn = [s for s in DRAWN[root] if s.json or way != "json"]
            spelling = drawn[int(rng.integers(len(drawn)))]
            writing = spelling.writings[0]
            if way == "text":
                left = channel.sanitize(writing, source="owner").text
                said = told(root, spelling, left, one)
            elif way == "json":
                values = [json.loads(each) for each in spelling.writings]
                (made, *others) = (channel.sanitize_json(each).value for each in values)
                assert all(each == made for each in others)
                said = one.release(root) in (True, ANSWERS["region"][0], DAYS["born"][0])
            else:
                asked = {"name": "visit", "arguments": arguments(spelling, writing)}
                made = rewriter.params("tools/call", asked)["arguments"]
                other = {"name": "visit", "arguments": arguments(spelling, spelling.writings[1])}
                # The other answer, written by the same person, leaves as the same.
                assert made == rewriter.params("tools/call", other)["arguments"]
                said = one.release(root) in (True, ANSWERS["region"][0], DAYS["born"][0])
            if said is not None:
                right[root].append(said)
    from scipy.stats import binom  # half a second, which this test alone needs

    for root, share in RIGHT.items():
        among = len(right[root])
        assert among > people * 0.8, root
        low, high = (binom.ppf(q, among, share) for q in (FALSE_ALARM, 1 - FALSE_ALARM))
        assert low <= sum(right[root]) <= high, root
        # The control: were they let through, all would be right.
        assert people < 200 or among > high


def test_days_are_written_as_days_of_the_same_form(tmp_path: Path) -> None:
    one = person(tmp_path, first_answers())
    channel = TextChannel(one)
    born = one.release("born")
    assert isinstance(born, date)
    for written, left in {
        "I was born on 3 March 1980": f"I was born on {born.day} {born:%B} {born.year}",
        "dob: 1980-03-03": f"dob: {born.isoformat()}",
        "dob 03.03.1980": f"dob {born:%d.%m.%Y}",
        "date of birth: 03/04/1980": f"date of birth: {born.isoformat()}",
        "I was born in March 1980": f"I was born in {born:%B %Y}",
        "I was born in 1980": f"I was born in {born.year}",
        "My last period was three weeks ago": "My last period was [date]",
        "My father was born on 3 March 1950": "My father was born on 3 March 1950",
    }.items():
        assert channel.sanitize(written, source="owner").text == left


def test_a_computed_day_leaves_as_computed_from_what_was_drawn() -> None:
    text = """
templates = ["due_date"]
budget = "1"
[values]
last_period = 2026-01-04
cycle_days = 28
"""
    one = Person.open(parse_profile(text, file="me.toml"), store=MemoryStore())
    due = one.release("due_date")
    assert isinstance(due, date)
    left = TextChannel(one).sanitize("My due date is 2026-10-11.", source="owner").text
    assert left == f"My due date is {due.isoformat()}."


def test_a_question_before_it_says_what_an_answer_answers(tmp_path: Path) -> None:
    from rootguard.reading.claims import Expectation

    one = person(tmp_path, first_answers())
    channel = TextChannel(one)
    heard = channel.sanitize("Do you smoke?", source="model").heard
    assert heard.asked == ("smoker",)
    kept = one.written("smoker")
    for said in ("Yes.", "No."):
        expected = Expectation(asked=heard.asked)
        left = channel.sanitize(said, source="owner", expectation=expected).text
        assert left == f"{kept.title()}."
