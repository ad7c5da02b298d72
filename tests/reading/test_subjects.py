"""Whose a clause is, where clauses part, and which of them ask for values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.reading.page import read_page
from rootguard.reading.subjects import clause_at, clauses
from rootguard.template import load_template
from tests.support.growth import grows_linearly

TEMPLATES = ("fib4", "homa", "eag", "aip", "bmi", "map", "debt_to_income", "emergency_fund")
ROOTS = {name: root for each in TEMPLATES for name, root in load_template(each).roots.items()}


def read(text: str, *names: str) -> list[tuple[str, str]]:
    page = read_page(text, ROOTS)
    found = clauses(page, names)
    return [(page.folded.text[each.start : each.end].strip(), each.subject) for each in found]


def subjects(text: str, *names: str) -> list[str]:
    return [subject for clause, subject in read(text, *names) if clause]


def of_numbers(text: str, *names: str) -> list[str]:
    page = read_page(text, ROOTS)
    found = clauses(page, names)
    return [clause_at(found, number.start).subject for number in page.numbers]


SINGLE = {
    "owner": (
        "I'm 54",
        "I weigh 83.5 kg at 178 cm.",
        "my AST is 23",
        "Our income is 7083",
        "My wife and I earn 7083",
        "The patient is 54",
        "user (54, male) has AST 23",
        "Mi AST es 23 y mi ALT es 30",
        "Ich wiege 83,5 kg",
        "Mein AST ist 23",
        "Ma glycémie à jeun est de 5,9",
        "Il mio peso è 83 e la mia AST è 23",
        "Minha idade é 54",
        "Mijn AST is 23 en ik ben 54 jaar oud",
        "Мне 54 года, АСТ 23",
        "我的空腹血糖是5.9",
        "The doc told me my AST came down to 23",
        "My doctor says my AST of 23 is fine",
        "I am a fifty four year old accountant whose ALT was 30.",
        "I am a father of two with an AST of 23",
        "My AST is 23, like my father",
        "My wife says my weight of 83.5 is fine",
        "As a 54 year old man, my AST is 23",
    ),
    "other": (
        "My father is 81",
        "my 81 year old father takes aspirin",
        "My boss makes 200k",
        "his AST is 40",
        "She is 50",
        "Her ALT was 60",
        "Alice is 42 years old",
        "Alice (42) and her ALT of 60",
        "Mr. Smith is 70",
        "Usain Bolt ran 9.58 at 23",
        "A friend of mine has an ALT of 120",
        "Mon fils pèse 30 kg",
        "Mia madre ha 78 anni e pesa 62 kg",
        "Minha mãe tem 78 anos e pesa 62 kg",
        "Mijn moeder is 78 en weegt 62 kg",
        "Grandma's blood pressure was 160/95 yesterday.",
        "the 45-year-old driver",
        "A colleague has an AST of 60",
        "my mom weighs 62 kg and dad 90 kg",
        "Dad is 81",
        "My father's AST is 40",
        "My mother-in-law is 77",
        "Mein Vater ist 81 und hat AST 40",
        "Mi padre tiene 81 años y su AST es 40",
        "Mon père a 81 ans et il est diabétique",
        "我父亲81岁",
        "Моему отцу 81 год",
        "The doctor is 45",
        "Is a 30 kg weight ok for him?",
        "At 81, my father has an AST of 40",
    ),
    "nobody": (
        "Normal AST is 10 to 40",
        "What does an ALT above 56 mean in general?",
        "Adults need 7 hours of sleep",
        "People over 65 are at risk",
        "Explain cholesterol to a 10 year old",
        "The average income is 5000",
        "The guideline recommends a cutoff of 1.3",
        "If someone earns 5000",
        "If a person earns 5000 and pays 2000 in debts",
        "In the study, mean age was 54 and mean BMI 27",
        "A BMI over 30 is obese",
        "Suppose AST is 40 and ALT is 30",
        "The normal range for AST is 10 to 40",
    ),
    "unsaid": (
        "AST 23",
        "BP this morning 134/86",
        "54",
        "woke up with a blood sugar of 106.2",
        "AST 23 (normal 10-40), ALT 30 (7-56)",
        "| Jan | Feb |",
        "Average BP 134/86",
        "Tool result: AST=23",
        "They measured an AST of 23",
        "Height 178",
        "AST 23 U/L, normal range 10-40",
        "Your AST of 23 is within normal range (10-40)",
        "AST 23, what does the guideline say?",
        "People say 54 is old",
        "Fasting Glucose was 106",
        "Total Cholesterol is 214",
    ),
}


@pytest.mark.parametrize(
    ("text", "subject"), [(text, subject) for subject, texts in SINGLE.items() for text in texts]
)
def test_a_sentence_says_whose_it_is(text: str, subject: str) -> None:
    assert set(subjects(text)) == {subject}, read(text)


NUMBERS = {
    "My father is 81 and takes aspirin. My AST is 23.": ["other", "owner"],
    "My boss makes 200k, I make 85k": ["other", "owner"],
    "My son is 7. Is a 30 kg weight ok for him?": ["other", "other"],
    "I'm 54 and my father is 81": ["owner", "other"],
    "I'm 54, my wife is 50 and my AST is 23": ["owner", "other", "owner"],
    "My sister, who is 40, has ALT 60, but mine is 30": ["other", "other", "owner"],
    "AST 23 and my father is 81": ["unsaid", "other"],
    "AST 23, ALT 30, should my wife worry?": ["unsaid", "unsaid"],
    "My father's labs:\nAST 40\nALT 50\n\nAST 23": ["other", "other", "unsaid"],
    "Normal ranges:\n- AST 10-40\n- ALT 7-56": ["nobody"] * 4,
    "My mother: age 77; AST 40; ALT 50": ["other"] * 3,
    "Mom is 62. Weighs 70 kg.": ["other", "other"],
    "The patient is 54. Her AST is 23.": ["owner", "owner"],
    "People over 65 are at risk, but I am 54": ["nobody", "owner"],
    "My doctor, Dr. Lee, said AST 23 is fine.": ["unsaid"],
    "I told her my AST is 23": ["owner"],
    "Mein Chef verdient 9000, ich verdiene 7083": ["other", "owner"],
    "I pay my landlord 1500 and my debts are 1875": ["owner", "owner"],
    "Normal AST is below 40, mine is 23": ["nobody", "owner"],
    "My dad had diabetes so I'm worried: glucose 106, A1c 6.1": ["owner", "owner"],
    "Is AST 23 normal for a 54 year old man?": ["unsaid", "unsaid"],
    "Is 23 a normal AST for someone aged 54?": ["unsaid", "unsaid"],
    "For people like me, my AST of 23 is fine": ["owner"],
    "My AST is 23.5. His is 40.": ["owner", "other"],
    "My AST was approx. 23 in May": ["owner"],
}


@pytest.mark.parametrize(("text", "expected"), NUMBERS.items())
def test_each_number_has_the_subject_of_its_clause(text: str, expected: list[str]) -> None:
    assert of_numbers(text) == expected, read(text)


def test_the_owner_s_own_names_are_the_owner() -> None:
    text = "Alice is 42 years old. Her AST is 23."
    assert of_numbers(text) == ["other", "other"]
    assert of_numbers(text, "Alice Miller") == ["owner", "owner"]


ASKS = (
    "Your age?",
    "AST?",
    "Height and weight?",
    "How old are you?",
    "What's your HbA1c?",
    "Please give me your age, AST, ALT and platelets.",
    "What is your gross monthly income?",
    "And what do you pay toward debts each month?",
    "What was your last ALT?",
    "Your AST, please?",
    "Could you tell me your weight?",
    "¿Cuál es su edad?",
    "Was ist Ihr Gewicht?",
)
TELLS = (
    "My AST is 23.",
    "Is 23 normal?",
    "Should I worry about fibrosis?",
    "What is insulin resistance?",
    "What does an ALT above 56 mean?",
    "Can you check my liver?",
    "54",
    "Your AST of 23 is fine.",
    "Thanks!",
    "What do you think?",
)


@pytest.mark.parametrize("text", ASKS)
def test_a_question_for_values_is_addressed(text: str) -> None:
    assert any(clause.addressed for clause in clauses(read_page(text, ROOTS)))


@pytest.mark.parametrize("text", TELLS)
def test_what_tells_or_asks_for_advice_is_not_addressed(text: str) -> None:
    assert not any(clause.addressed for clause in clauses(read_page(text, ROOTS)))


PIECES = st.sampled_from(
    [
        "my ",
        "I ",
        "father ",
        "his ",
        "AST ",
        "23 ",
        ". ",
        ", ",
        "\n",
        "; ",
        "and ",
        "? ",
        "people ",
        "é",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=30))
def test_clauses_cover_a_text_without_gaps(text: str) -> None:
    page = read_page(text, ROOTS)
    found = clauses(page)
    reached = 0
    for clause in found:
        assert clause.start == reached
        assert clause.end > clause.start
        reached = clause.end
    assert reached == len(page.plain)


HOSTILE = (
    *(
        "I ",
        "my ",
        "my my ",
        "he ",
        "my father ",
        "the ",
        "a 1 year old ",
        "a a a ",
        ". ",
        ".",
        "\n",
    ),
    *(
        "Mr. ",
        "Alice ",
        "normal ",
        "normal AST ",
        "an AST above ",
        "? ",
        "(",
        "AST? ",
        "your AST, ",
    ),
    *("and ", ", ", "people ", ":\n", "# a\n", "我", "i.e. ", "1. ", "a", "my aaaaaaaaaaaaaaaa"),
)


@pytest.mark.parametrize("length", [4_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_text_takes_linear_time(unit: str, length: int) -> None:
    assert grows_linearly(read, unit, length)
