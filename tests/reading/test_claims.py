"""Of each number on a page: whose it is, which quantity, why, and what becomes of it."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.reading.claims import (
    DECISIONS,
    NOTHING,
    Decision,
    Dialogue,
    Expectation,
    Source,
    Standing,
    TextReading,
    decide,
    read_claims,
)
from rootguard.reading.page import read_page
from rootguard.template import load_template
from rootguard.values import RootName
from tests.support import claim_texts
from tests.support.growth import grows_linearly

TEMPLATES = ("fib4", "homa", "eag", "aip", "bmi", "map", "debt_to_income", "emergency_fund")
ROOTS = {name: root for each in TEMPLATES for name, root in load_template(each).roots.items()}
FORMULAS = (("fib4", tuple(map(RootName, ("age", "ast", "alt", "plt")))),)
DOCUMENT = Path(__file__).parents[2] / "docs" / "text.md"


def reading(
    text: str, source: Source = "owner", expectation: Expectation = NOTHING, *names: str
) -> TextReading:
    page = read_page(text, ROOTS, FORMULAS)
    return read_claims(page, source=source, expectation=expectation, owner_names=names)


def said(text: str, source: Source = "owner", expectation: Expectation = NOTHING) -> list[str]:
    """Each number as "writing standing reason"."""
    found = reading(text, source, expectation).claims
    return [f"{text[each.start : each.end]} {each.standing} {each.reason}" for each in found]


def changed(text: str, source: Source = "owner", expectation: Expectation = NOTHING) -> list[str]:
    """The writings that do not leave as they are."""
    return [
        text[each.start : each.end]
        for each in reading(text, source, expectation).claims
        if decide(source, each, known=True) != "keep"
    ]


def test_every_conversation_is_read_as_it_was_recorded() -> None:
    recorded = list(claim_texts.lines())
    assert [claim_texts.marked(line) for line in recorded] == recorded


def test_the_recorded_conversations_have_numbers_of_every_standing() -> None:
    recorded = "\n".join(claim_texts.lines())
    marks = ("⟦ast 23⟧", "⟦ast? 23⟧", "⟦? 23⟧", "⟦! 480⟧", "⟨~ 48⟩", "⟨general 23⟩", "⟦=bmi 24.1⟧")
    assert [mark for mark in marks if mark not in recorded] == []


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("AST 23, ALT 30", ["23 owner named", "30 owner named"]),
        ("my father's AST is 48", ["48 other another_person"]),
        ("Normal AST is below 40", ["40 nobody general"]),
        ("54M here, 178 cm", ["54 owner named", "178 likely by_unit"]),
        ("H 178 W 83.5", ["178 likely named", "83.5 likely named"]),
        ("134/86 this morning", ["134 likely by_unit", "86 likely by_unit"]),
        (
            "I have 7083 a month income, debt 1875",
            ["7083 owner named", "1875 open private_word"],
        ),
        (
            "FIB-4 please: 54 23 30 220",
            ["4 nobody label", *(f"{n} owner formula" for n in (54, 23, 30, 220))],
        ),
        ("my FIB-4 is 1.03", ["4 nobody label", "1.03 owner formula"]),
        (
            "calc_bmi(weight=83.5, height=1.78) -> 26.35",
            ["83.5 owner named", "1.78 owner named", "26.35 owner formula"],
        ),
        (
            "Ignore the 6.7 from before. The repeat HbA1c is 6.1",
            ["6.7 likely spoken_of", "6.1 owner named"],
        ),
        ("Got a raise last year, my income is 7083", ["7083 owner named"]),
        ("User weighs 83.5 kg and is 54", ["83.5 owner named", "54 owner named"]),
        ("Wife 51, me 54", ["51 other another_person", "54 likely named"]),
        ("hubby's cholesterol 240, me 214", ["240 other another_person", "214 likely spoken_of"]),
        ("Both of us are 54.", ["54 owner named"]),
        ("let age: u8 = 54;", ["54 owner named"]),
        ("A1c....6.1 %  (H)", ["6.1 owner named"]),
        (
            "is 214 much over the 200 they want? total chol, my test",
            ["214 likely spoken_of", "200 nobody unbound"],
        ),
        (
            "HbA1c 43 mmol/mol. Is that the same as 6.1%?",
            ["43 owner named", "6.1 likely spoken_of"],
        ),
        (
            "AST 23 and ALT 30, so the ratio is 0.77",
            [*("23 owner named", "30 owner named"), "0.77 owner formula"],
        ),
        ("My trigs are 163, how do I get it to 150?", ["163 owner named", "150 nobody general"]),
        (
            "PLT 220 10*3/uL 150 - 450",
            ["220 owner named", "150 nobody range", "450 nobody range"],
        ),
    ],
)
def test_a_number_is_claimed_for_a_reason(text: str, claims: list[str]) -> None:
    assert said(text) == claims


@pytest.mark.parametrize(
    "text",
    [
        "The tower has a height of 324 m",
        "Baggage weight 23 kg in economy",
        "Gouda aged 12 months for a risotto",
        "Apple reported net income of 23.6 billion",
        "In my neural net the weight decay is 0.01",
        "My Arduino reads a pressure sensor that gives 1023",
        "Explain the ratio with an example: income 5000, debt payments 1500",
        'json: {"product":"kettle","weight":1.2,"height":24}',
        'df = {"age": [25, 31, 47], "income": [3200, 4100, 5000]}',
        "INSERT INTO staff (name, age, salary) VALUES ('Ann', 31, 5200)",
        "Implement a TypeScript guard for {age: 33, weight: 70}",
        "Our AST visitor walks 23 nodes",
        "Napoleon died at age 51",
        "def ship(box, weight=12.5): return box",
        "class Crate:\n    weight: float = 12.5\n    height: float = 40.0",
        "DEFAULT_WEIGHT = 400",
        "fetch('/people?minAge=21&maxAge=35')",
        "expect(calcBMI(61, 1.7)).toBeCloseTo(21.1)",
        "Camp for children ages 6 to 9, ten minutes from Lindenstraße 12",
        "Games for 6 and 8 year olds?",
        "What does an A1c of 8 mean in general?",
        "The 50/30/20 rule for an income, please",
        "Open 9-17. Normal AST is 10 to 40 U/L",
        "When will my index fund reach it if we want to save 90k?",
        "UPDATE members SET age = 30 WHERE id = 5;",
        "struct Animal { var weight: Double = 12.5 }",
        "enum Grade { A = 90, B = 80 }",
        "type Weight = 100 | 200 | 300",
        "Premium = 50 + 2 * (age - 18) for ages 18 to 70",
        "How do I write a unit test for bmi(61, 1.7)?",
        "Weight of 1 cup of flour?",
        "Wages rose 4.2 %, spending 0.5 %",
        "Income up 4 % in May",
        "Person A is 30 and earns 4000, person B is 50 and earns 7000",
        "The tenant earns 4200 a month. Is rent of 1400 ok?",
        "Our professor, aged 63, retires soon",
        "Neighbor earns 9k",
        "sister's platelets 180",
        "What salary does a nurse get in Graz, 50k?",
        "The hike has a height gain of 830 m",
        "A savings account with 4 % on 10,000",
        "How many words has a page of 12 lines?",
        "What did Queen Victoria weigh? I read 76 kg at 152 cm.",
        "Case: 58 yo woman, AST 88, ALT 102, platelets 143. Which stage?",
        "The patient next to me had platelets 90.",
        "Is 92 a good age for a tortoise?",
        "const s = { fontSize: 14, lineHeight: 1.5, retries: 3 };",
        "I bake at 1,800 m altitude.",
        "My cousin asks whether a BMI of 33 at age 29 is too high",
        "A customer of ours has savings of 9,000 and a monthly income of 2,700",
        "Crafts for kids aged 5 to 9, two tables",
        "homa = glucose * insulin / 405",
    ],
)
def test_what_is_no_persons_leaves_unchanged(text: str) -> None:
    assert changed(text) == []


@pytest.mark.parametrize(
    "text",
    [
        'Example: {"age": 45, "ast": 40}. Never reveal it.',
        "Assume an annual income of 60000 when the user gives none",
        "Weight must be between 30 and 250",
        'Few-shot:\nUser: I\'m 29 and weigh 68 kg\nAssistant: {"age": 29}',
        "Simulated patient: 66-year-old man, BP 158/94",
        "If the user's BMI is above 30, suggest a doctor",
        "Fasting glucose of 100 to 125 mg/dL counts as prediabetes.",
        "Stay in the persona. Age: 9 years in service. Weight: 41 kg.",
        "Build the form that the user wants, with age 0-120, weight_kg 1-400, systolic 60-250",
        "The resting need is 10 * weight + 6.25 * height - 5 * age",
    ],
)
def test_a_prompts_examples_and_limits_are_nobodys(text: str) -> None:
    assert changed(text, "developer") == []


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("He's 6'2\" and 210 lb, I'm 5'10\" and 184 lb", ["5'10", "184"]),
        ("AST - 23 * ALT - 30 * PLT - 220", ["23", "30", "220"]),
        ("My wife asks if my weight of 71.5 kg is fine", ["71.5"]),
        ("As an employee I earn 3100 a month", ["3100"]),
        ("CHOLESTEROL, TOTAL      214 H     <200 mg/dL", ["214"]),
        ("im 54 yeras old", ["54"]),
        ("$ 7,083 income, $ 1,875 monthly debt", ["7,083", "1,875"]),
        ("Mine was 6.3 in January", ["6.3"]),
        ("male 54 83.5 kg 178 cm desk job", ["54", "83.5", "178"]),
        ("my printout used 220 K/uL", ["220"]),
        ("AST 2 weeks ago: 23", ["23"]),
        ("total 187, hdl 52 since May", ["187", "52"]),
        ("my salaryis 5210", ["5210"]),
        ("savings = 12_400", ["12_400"]),
        ("my take-home: 3890", ["3890"]),
        ("He makes 9100 a month. I only get 6020.", ["6020"]),
        ("I hit 61 last month", ["61"]),
        ("Me: 61, retired", ["61"]),
        ("Age -> 61; AST -> 19", ["61", "19"]),
        ("Q: weight?\nA: 71.5\nQ: AST?\nA: 19", ["71.5", "19"]),
        ("AST/ALT ratio (19 / 28)", ["19", "28"]),
        ("6020 in, 3300 out", ["6020", "3300"]),
        ("He weighs 92 kg and I'm only 71.5", ["71.5"]),
        ("BP 128/79, pulse 64, temp 36.9", ["128", "79"]),
        ("| | Jan | Jun |\n|---|---|---|\n| AST | 19 | 21 |", ["19", "21"]),
        ("def risk(age=61, ast=19): pass", ["61", "19"]),
        ("my sugars run 98-104", ["98", "104"]),
        ("BP ranges 128-131 over 79-82", ["128", "131", "79", "82"]),
        ("goal weight 68, current weight 71.5", ["71.5"]),
        ("BP target below 125/75, mine is 128/79", ["128", "79"]),
        ("Started at 80 kg, now 71.5 kg", ["80", "71.5"]),
        ("at 61 I should know better", ["61"]),
        ("The nurse wrote 128 over 79 on a note", ["128", "79"]),
        ("I could last 5.1 months on savings", ["5.1"]),
        ("60 grand a year", ["60"]),
        ("My sister has more; I only get 3,890.", ["3,890"]),
        ("emergency fund of 9000 with spending of 3300: how many months?", ["9000", "3300"]),
        ("Action: bmi(weight=71.5, height=1.7).\nObservation: 24.7", ["71.5", "1.7", "24.7"]),
        ("Normal is 150 to 400, mine came out 241.", ["241"]),
        ("Date   AST   ALT\n03/01   19    28", ["19", "28"]),
        (
            "Emergency fund covers 4.2 months, since I've 18250 and burn 4320",
            ["4.2", "18250", "4320"],
        ),
    ],
)
def test_a_note_of_the_owners_values_is_replaced(text: str, secrets: list[str]) -> None:
    assert changed(text) == secrets


def test_a_record_under_the_owners_name_is_the_owners() -> None:
    text = "INSERT INTO staff (name, age) VALUES ('Jane Roe', 54)"
    (claim,) = reading(text, "owner", NOTHING, "Jane Roe").claims
    assert (claim.standing, claim.root) == ("owner", "age")


def test_an_answer_is_what_was_asked_for() -> None:
    asked = Expectation(asked=(RootName("age"), RootName("ast")))
    assert said("54 and 23", expectation=asked) == ["54 owner asked", "23 owner asked"]


def test_one_more_number_than_was_asked_for_is_one_of_several() -> None:
    asked = Expectation(asked=(RootName("income"), RootName("savings")))
    assert said("7083 / 1875 / 18250", expectation=asked)[-1] == "18250 likely one_of_several"


def test_a_model_that_says_a_value_again_is_heard() -> None:
    spoken = Expectation(topic=(RootName("wt"),))
    assert changed("You said 83.5 kg.", "model", spoken) == ["83.5"]
    assert changed("184 kg?", "model", spoken) == ["184"]
    assert changed("Thanks: 71.5 kg.", "model", spoken) == ["71.5"]
    high = Expectation(topic=(RootName("wt"), RootName("tg")), recent=(RootName("tg"),))
    assert changed("178 is slightly high. The limit is 150.", "model", high) == ["178"]
    assert changed("With 178, eat less sugar and walk 30 minutes.", "model", high) == ["178"]
    assert changed("150 or less is fine. 150 is the upper limit.", "model", high) == []


def test_a_model_that_says_one_of_several_values_again_says_none() -> None:
    spoken = Expectation(topic=(RootName("ast"), RootName("alt")))
    (claim,) = reading("19 is fine.", "model", spoken).claims
    assert decide("model", claim, known=True) == "redact"


# -- the table of decisions --------------------------------------------------------------------


def test_every_source_and_standing_has_its_decisions() -> None:
    assert set(DECISIONS) == set(get_args(Source))
    for row in DECISIONS.values():
        assert set(row) == set(get_args(Standing))
        assert {each for pair in row.values() for each in pair} <= set(get_args(Decision))


def test_nothing_of_others_or_of_nobody_is_touched() -> None:
    for row in DECISIONS.values():
        assert row["other"] == row["nobody"] == ("keep", "keep")


# -- laws --------------------------------------------------------------------------------------

NOTES = (
    "my AST is {} and my ALT {}",
    "I weigh {} kg, income {}",
    "BP {}/{} this morning",
    "{} U/L of AST; glucose {}",
    "54M, {} cm, {} kg",
    "The cake has {} eggs and weighs {} g",
)


@given(
    st.sampled_from(NOTES),
    st.integers(min_value=100, max_value=199),
    st.integers(min_value=50, max_value=99),
)
def test_places_that_change_do_not_depend_on_digits_of_one_size(
    note: str, first: int, second: int
) -> None:
    text, other = note.format(first, second), note.format(134, 86)
    places = [(each.start, each.end, each.standing) for each in reading(text).claims]
    if "BP" not in note or first > second:
        assert places == [(each.start, each.end, each.standing) for each in reading(other).claims]


@given(st.sampled_from(NOTES), st.integers(100, 199), st.integers(50, 99))
def test_a_text_with_holes_has_nothing_more_to_change(note: str, first: int, second: int) -> None:
    text = note.format(first, second)
    for each in reversed(reading(text).claims):
        if decide("owner", each, known=True) != "keep":
            text = f"{text[: each.start]}[number]{text[each.end :]}"
    assert changed(text) == []


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(["cake", "house", "12", "3.5", "blue", "and", "with", "seven", "river,"]),
        max_size=12,
    )
)
def test_a_text_without_names_leaves_as_it_is(words: list[str]) -> None:
    assert changed(" ".join(words)) == []


@pytest.mark.parametrize(
    "piece",
    ["my AST 23, ", "12 apples, ", "| 23 | 30 |\n", "54 23 30 220 ", "income 7083, debt 1875; "],
)
@pytest.mark.parametrize("length", [4_000, pytest.param(48_000, marks=pytest.mark.slow)])
def test_cost_is_linear(piece: str, length: int) -> None:
    header = "| AST | ALT |\n" if piece.startswith("|") else ""
    assert grows_linearly(lambda text: reading(header + text), piece, length)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("30. That's my ALT.", ["30 likely spoken_of"]),
        ("Tenho 54 anos e minha vida é boa", ["54 owner named"]),
        ("Jag har 220 i min kropp", ["220 open own_clause"]),
        ("my bp's around 134-ish over 86-ish", ["134 owner named", "86 owner named"]),
        ("I'm exactly 178 centimeters tall", ["178 owner named"]),
        ("The turkey weighs 6.5 kg, when do I start?", ["6.5 other another_person"]),
        ("How tall is Usain Bolt, 1.95 m?", ["1.95 other another_person"]),
        ("LeBron James is 39", ["39 other another_person"]),
        ("Final Answer inputs: AST 23", ["23 owner named"]),
        ("Patient 12 has AST 88", ["12 other another_person", "88 other another_person"]),
        ("Cholesterol 214 (desirable 200)", ["214 owner named", "200 nobody range"]),
        ("AST 23 U/L 10 - 40 U/L", ["23 owner named", "10 nobody range", "40 nobody range"]),
        ("1) Age 2) AST 3) ALT", ["1 nobody label", "2 nobody label", "3 nobody label"]),
        (
            "assert classify_bp(120, 80) == 1",
            ["120 nobody code", "80 nobody code", "1 nobody code"],
        ),
        ('print(f"{height:.2f} m")', [".2 nobody code"]),
    ],
)
def test_what_stands_around_a_number_tells_whose_it_is(text: str, claims: list[str]) -> None:
    assert said(text) == claims


def test_what_a_calculation_is_given_is_taken_out_but_its_exponents_stay() -> None:
    worked = Expectation(worked=True)
    assert changed("83.5/1.78**2", "model", worked) == ["83.5", "1.78"]
    assert changed("26.35", "tool", worked) == ["26.35"]
    assert changed("26.35", "tool") == []


@pytest.mark.parametrize(
    ("told", "answer"),
    [("my AST is 32", "no wait, swap the digits: 23"), ("Platelets 202", "220* sorry")],
)
def test_a_correction_is_heard_in_other_words(told: str, answer: str) -> None:
    talk = Dialogue()
    talk.heard("owner", reading(told).heard)
    talk.heard("model", reading("Noted.", "model").heard)
    assert len(changed(answer, "owner", talk.expectation("owner"))) == 1


@pytest.mark.parametrize(
    ("question", "answer", "secrets"),
    [
        ("What are your measurements?", "178 and 83.5", ["178", "83.5"]),
        ("I need some numbers from your last blood test.", "ok: 23 and 30", ["23", "30"]),
        ("How many results do you want?", "10", []),
    ],
)
def test_values_that_nobody_named_are_asked_for_too(
    question: str, answer: str, secrets: list[str]
) -> None:
    talk = Dialogue()
    talk.heard("model", reading(question, "model").heard)
    assert changed(answer, "owner", talk.expectation("owner")) == secrets


def test_a_question_whether_one_is_older_asks_for_the_age() -> None:
    talk = Dialogue()
    talk.heard("model", reading("Are you over 50?", "model").heard)
    assert changed("54 so yes", "owner", talk.expectation("owner")) == ["54"]


def test_a_question_about_kin_is_not_answered_by_the_owners_value() -> None:
    talk = Dialogue()
    talk.heard("owner", reading("I'm 54").heard)
    talk.heard("model", reading("And your partner?", "model").heard)
    assert changed("49", "owner", talk.expectation("owner")) == []


def test_who_asks_whether_a_number_is_high_asks_of_a_finding() -> None:
    assert said("Is 214 too high?") == ["214 open own_clause"]


def test_a_price_that_was_asked_for_is_no_income() -> None:
    talk = Dialogue()
    talk.heard("model", reading("Max price?", "model").heard)
    assert changed("2200 a month", "owner", talk.expectation("owner")) == []
    assert changed("2200 a month") == ["2200"]


def test_a_question_about_another_is_not_answered_by_the_owner() -> None:
    talk = Dialogue()
    talk.heard("model", reading("How old is your father?", "model", NOTHING).heard)
    assert changed("81", "owner", talk.expectation("owner")) == []
    talk.heard("owner", reading("81", "owner", NOTHING).heard)
    talk.heard("model", reading("And you?", "model", NOTHING).heard)
    assert changed("54", "owner", talk.expectation("owner")) == ["54"]


def test_what_was_told_of_another_is_asked_of_the_owner() -> None:
    talk = Dialogue()
    talk.heard("owner", reading("my brother weighs 92 kg", "owner", NOTHING).heard)
    talk.heard("model", reading("And how about you?", "model", NOTHING).heard)
    assert changed("71.5", "owner", talk.expectation("owner")) == ["71.5"]


def test_a_correction_of_an_age_that_no_word_named_is_heard() -> None:
    talk = Dialogue()
    talk.heard("owner", reading("I'm 16", "owner", NOTHING).heard)
    assert changed("Thanks, 16.", "model", talk.expectation("model")) == ["16"]
    assert changed("I meant 61 lol", "owner", talk.expectation("owner")) == ["61"]


def test_the_answer_to_a_question_about_a_count_is_no_value() -> None:
    talk = Dialogue()
    talk.heard("owner", reading("My age is 61", "owner", NOTHING).heard)
    talk.heard("model", reading("Number of children?", "model", NOTHING).heard)
    assert changed("3", "owner", talk.expectation("owner")) == []


def test_letters_of_a_list_do_not_hide_an_answer() -> None:
    talk = Dialogue()
    talk.heard("model", reading("Please answer:\na) age\nb) AST", "model", NOTHING).heard)
    assert changed("a) 61\nb) 19", "owner", talk.expectation("owner")) == ["61", "19"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Reply with your monthly spending.", "some 3300, rent included"),
        ("Quanti anni hai?", "61"),
        ("¿Cuánto pesas?", "71,5"),
        ("Wie alt sind Sie?", "61"),
        ("Combien gagnez-vous ?", "3890"),
        ("Quanto você pesa?", "71,5"),
    ],
)
def test_a_request_in_other_words_is_a_question(question: str, answer: str) -> None:
    talk = Dialogue()
    talk.heard("model", reading(question, "model", NOTHING).heard)
    number = answer.split(",")[0].split()[-1] if " " in answer else answer
    assert changed(answer, "owner", talk.expectation("owner")) == [number]


def test_a_prompt_that_lists_columns_binds_the_rows_that_follow() -> None:
    talk = Dialogue()
    said = "The user will paste rows: age,ast,alt,plt"
    talk.heard("developer", reading(said, "developer", NOTHING).heard)
    assert changed("54,23,30,220", "owner", talk.expectation("owner")) == ["54", "23", "30", "220"]
    assert changed("I have 3 questions", "owner", talk.expectation("owner")) == []


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("age, ast", True),
        ("age; ast", True),
        ("age ast", False),
        ("age, pulse", False),
        ("age, ast 2", False),
        ("age, one two three ast", True),
        ("age, one two three four ast", False),
        ("age, ast" + ", x" * 130, True),
        ("age, ast" + ", x" * 131, False),
    ],
)
def test_a_line_of_short_cells_that_names_two_quantities_waits_for_its_rows(
    line: str, header: bool
) -> None:
    assert reading(f"Here it comes:\n{line}\n").heard.header == (line if header else "")
