"""Answers to what is yes or no in texts and JSON: released, taken out, or another's."""

from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from rootguard import Guard
from rootguard.channels.text.channel import TextChannel
from rootguard.events import ValueReleased
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore

PROFILE = """
templates = ["ascvd"]
budget = "0.01"
[values]
smoker = {smoker}
female = true
"""


def channel(smoker: str = "false") -> TextChannel:
    profile = parse_profile(PROFILE.format(smoker=smoker), file="profile.toml")
    return TextChannel(Person.open(profile, store=MemoryStore(), on_clamp=lambda _roots: None))


@pytest.mark.parametrize(
    ("text", "may_leave"),
    [
        ("Smoker: no", {"Smoker: no", "Smoker: yes"}),
        ("current smoker = TRUE", {"current smoker = TRUE", "current smoker = FALSE"}),
        ("Sex: female", {"Sex: female", "Sex: male"}),
        ('{"smoker": false}', {'{"smoker": false}', '{"smoker": true}'}),
        ("I am a non-smoker", {"[Smoker: yes]", "[Smoker: no]"}),
        ("I'm a smoker.", {"[Smoker: yes].", "[Smoker: no]."}),
        ("Smoker: only at parties", {"Smoker: yes", "Smoker: no"}),
        ("Conditions: smoker", {"Conditions: [Smoker: yes]", "Conditions: [Smoker: no]"}),
        ("My risk of diabetes", {"My risk of diabetes"}),
        ("My pressure at work is high", {"My pressure at work is high"}),
        ("I do the household chores", {"I do the household chores"}),
        ("Is smoking bad for lungs?", {"Is smoking bad for lungs?"}),
        ("My father is a smoker: yes", {"My father is a smoker: yes"}),
        ("A smoker coughs 3 times", {"A smoker coughs 3 times"}),
    ],
)
def test_an_answer_is_released_in_its_own_form(text: str, may_leave: set[str]) -> None:
    made = [channel(smoker).sanitize(text, source="owner").text for smoker in ("true", "false")]
    assert set(made) <= may_leave


def test_an_answer_is_the_same_wherever_it_stands_and_when_it_is_read_again() -> None:
    one = channel()
    first = one.sanitize("Smoker: no", source="owner").text
    assert one.sanitize(first, source="owner").text == first
    truth = {"Smoker: yes": True, "Smoker: no": False}[first]
    assert one.sanitize_json({"smoker": False, "flag": False}).value == {
        "smoker": truth,
        "flag": False,
    }


def test_answers_of_many_people_do_not_tell_who_smokes() -> None:
    """With a small budget both answers come out; all alike has odds below 1e-10."""
    made = {channel().sanitize("Smoker: no", source="owner").text for _ in range(40)}
    assert made == {"Smoker: yes", "Smoker: no"}


def test_what_a_tool_says_of_a_root_without_a_value_is_taken_out() -> None:
    said = "diagnosed with diabetes: yes"
    assert channel().sanitize(said, source="tool").text == "diagnosed with diabetes: [answer]"


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("Diabetes: Type 2", "Diabetes: none"),
        ("smoking_history: current", "smoking_history: never"),
        ("I am a mother of two", "I am a father of two"),
        ("Ich bin Nichtraucher", "Ich bin Raucher"),
        ("non fumeur", "fumeur"),
        ("I smoke about a pack a day", "I don't smoke at all"),
        ("I’ve never smoked", "I’ve always smoked"),
        ("Medical history: diabetes, gout.", "Medical history: no diabetes, gout."),
        ("Q: Do you smoke?\nA: yes", "Q: Do you smoke?\nA: no"),
        ("Smoking? Yep.", "Smoking? Nope."),
        ("Fumas? Sí", "Fumas? No"),
        ('{"smoking": {"status": "current"}}', '{"smoking": {"status": "never"}}'),
        ("smoker\tdiabetes\nyes\tno", "smoker\tdiabetes\nno\tno"),
        ('{"habits": ["smoking"]}', '{"habits": ["no smoking"]}'),
        (
            '{"found": [{"name": "smoker", "present": true}]}',
            '{"found": [{"name": "smoker", "present": false}]}',
        ),
    ],
)
def test_what_people_write_leaves_as_the_same_words_whichever_it_is(yes: str, no: str) -> None:
    one = channel()
    made = {one.sanitize(text, source="owner").text for text in (yes, no)}
    assert len(made) == 1


def test_yes_to_what_is_denied_is_no() -> None:
    one = channel()
    smoker = one.sanitize("Smoker: no", source="owner").text == "Smoker: yes"
    left = one.sanitize("Non-smoker: yes", source="owner").text
    assert left == ("Non-smoker: no" if smoker else "Non-smoker: yes")


SUGAR = """
name = "sugar"
title = "Sugar"
[roots.glu]
lower = 40
upper = 400
unit = "mg/dL"
aliases = ["glucose"]
series = true
[roots.ast]
lower = 7
upper = 272
unit = "U/L"
[target]
name = "points"
formula = "glu + ast"
"""


def measured(folder: Path, store: MemoryStore, glucose: float, day: date, how: str) -> None:
    """One reading of a day, noised by its owner's own program."""
    (folder / "sugar.toml").write_text(SUGAR)
    Guard.open(
        str(folder / "sugar.toml"),
        values={"glu": glucose, "ast": 23},
        budget=1,
        when=day,
        on_change=how,  # type: ignore[arg-type]
        store=store,
    )


def read_by_day(folder: Path, how: str) -> tuple[TextChannel, Person, date]:
    today = datetime.now().astimezone().date()
    store = MemoryStore()
    for days, glucose in ((7, 150.0), (1, 140.0), (0, 131.0)):
        measured(folder, store, glucose, today - timedelta(days=days), how)
    text = f'templates = ["./sugar.toml"]\nbudget = "1"\non_change = "{how}"\n'
    profile = parse_profile(text, file=str(folder / "me.toml"))
    person = Person.open(profile, store=store)
    return TextChannel(person, near_private="redact"), person, today


def test_a_past_value_is_answered_from_the_draw_of_its_day(tmp_path: Path) -> None:
    channel, person, today = read_by_day(tmp_path, "daily")
    spent = person._view.store.ledger(person.principal).micro["glu"]
    week = today - timedelta(days=7)
    now = person.number("glu")
    then, yesterday = (person.number_on("glu", today - timedelta(days=d)) for d in (7, 1))
    assert then is not None
    assert yesterday is not None
    for said, left in {
        f"My glucose was 150 on {week}": f"My glucose was {then:.1f} on {week}",
        f"{week}: glucose 150": f"{week}: glucose {then:.1f}",
        "My glucose was 140 yesterday, now 131": f"My glucose was {yesterday:.1f} yesterday, now "
        f"{now:.1f}",
        "Glucose was 150 last week, now 131": f"Glucose was [number] last week, now {now:.1f}",
        "My glucose was 99 on 2020-01-01": "My glucose was [number] on 2020-01-01",
        "previous glucose 150, current glucose 131": f"previous glucose [number], current glucose "
        f"{now:.1f}",
    }.items():
        assert channel.sanitize(said, source="owner").text == left
    # Never by another draw.
    assert person._view.store.ledger(person.principal).micro["glu"] == spent
    assert any(event.name == f"glu on {week}" for event in released(person))


def test_without_dates_in_the_store_a_past_value_is_taken_out(tmp_path: Path) -> None:
    channel, person, today = read_by_day(tmp_path, "draw")
    week = today - timedelta(days=7)
    now = f"{person.number('glu'):.1f}"
    said = f"My glucose was 150 on {week}, now 131"
    assert channel.sanitize(said).text == f"My glucose was [number] on {week}, now {now}"
    # A root that is no series has one value, whenever it was told.
    ast = f"{person.number('ast'):.1f}"
    assert channel.sanitize("My AST was 23 last week").text == f"My AST was {ast} last week"


def released(person: Person) -> list[ValueReleased]:
    return [event for event in person.transcript() if isinstance(event, ValueReleased)]


def test_an_answer_in_json_that_is_taken_out_is_one_change() -> None:
    made = channel().sanitize_json({"diabetes": True}, source="tool")
    assert made.value == {"diabetes": "[answer]"}
    assert [(each.path, each.times) for each in made.changes] == [(("diabetes",), 1)]
