"""What a number is when it is nobody's value, and that a quantity's own number stays one."""

import importlib.resources
import re
import tomllib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.language.names import LANGUAGES
from rootguard.reading import ordinary
from rootguard.reading.ordinary import OrdinarySort, sorts
from rootguard.reading.page import read_page
from rootguard.template import load_template
from tests.support.growth import grows_linearly

TEMPLATES = ("fib4", "homa", "eag", "aip", "bmi", "map", "debt_to_income", "emergency_fund")
ROOTS = {name: root for each in TEMPLATES for name, root in load_template(each).roots.items()}


def sorted_numbers(text: str) -> list[tuple[str, str]]:
    page = read_page(text, ROOTS)
    written = (page.folded.text[number.start : number.end] for number in page.numbers)
    return list(zip(written, sorts(page), strict=True))


def all_are(text: str, sort: str) -> None:
    found = sorted_numbers(text)
    assert found
    assert {each for _, each in found} == {sort}, found


VALUES = (
    "AST 23",
    "age: 54",
    "BP 134/86",
    "AST 23/40",
    "134/86",
    "54",
    "54.",
    "It was 23.",
    "It came back at 30.",
    "my AST came down to 23",
    "AST/ALT 23/30",
    "54, 23, 30 and 220",
    "AST: 23 U/L, ALT: 30 U/L",
    "AST\n23\nALT\n30",
    "AST (SGOT) ........ 23",
    "**AST:** 23",
    "| AST | 23 |",
    "<alt unit='U/L'>30</alt>",
    '{"ast": 23, "alt": [30]}',
    '{"args": [54, 23, 30, 220]}',
    "age=54",
    "ast: 23",
    "df = pd.DataFrame({'AST':[23],'ALT':[30]})",
    "def f(age=54, ast=23): pass",
    "INSERT INTO labs (age, ast) VALUES (54, 23)",
    "https://calculator.example/fib4?age=54&ast=23",
    "Calling fib4(54, 23, 30, 220).",
    "I'm 54, weigh 83.5 kg, 178 cm.",
    "I am a fifty four year old accountant",
    "54 years old",
    "54 y/o male",
    "54-year-old",
    "I'm 648 months old",
    "tengo 54 años",
    "Ich bin 54 Jahre alt",
    "I turned 54 in March",
    "my 54th birthday",
    "I turn 55",
    "HbA1c is 6.1%",
    "6.1%",
    "around 6.1 I think",
    "I gross $7,083 a month and pay $1,875 toward debts each month",
    "Gano 7083 dólares al mes y pago 1875 de deudas",
    "my hourly wage is $40.86",
    "I make 85k",
    "I earn 2000 a month",
    "savings of $18.25K",
    "platelets 220 x10^3/uL",
    "220 platelets",
    "platelets are 2.2 lakh",
    "height five foot ten, weight one eighty four",
    "my blood pressure was one thirty-four over eighty-six",
    "AST has been between 22 and 24",
    "my glucose runs 104–108 fasting",
    "my AST is above 56",
    "AST 23 looks fine",
    "labs (AST, ALT, PLT, age): 23, 30, 220, 54",
    "My age is `54`",
    "```\nAST 23\nALT 30\n```",
    "the nurse wrote down 134 over 86",
    "134 systolic over 86 diastolic",
    "AST > 40",
    "my sugar has been running 106 most mornings",
    "fasting sugar this week: 104, 106, 108",
    "numbers: 54/23/30/220",
    "born 54 years ago",
    "stage fifty-four",  # in words so large a number is hardly a label's, and may be a value
    "my debts cost me $1,875 per month",
    "My salary of $85,000 is fine",
    "As a 54 year old man",
    "6.1 percent was my last a1c",
    "Tengo la glucosa en 106",
    "my insulin was 11.4 units",
    "about 184 lbs",
    "```csv\nage,ast\n54,23\n```",
)


@pytest.mark.parametrize("text", VALUES)
def test_a_person_s_numbers_stay_values(text: str) -> None:
    all_are(text, "value")


ORDINARY = {
    "date": (
        "on 23 May",
        "the 3rd of June",
        "on March 3, 2024",
        "am 14. Februar",
        "el 5 de abril",
        "in 2023",
        "since 2019",
        "The 2024 guideline",
        "from 2019 to 2023",
        "born 1971-03-14",
        "seen 14.03.1971",
        "Q3 2024",
        "due on the 21st",
    ),
    "time": ("at 5:30 pm", "at 5 pm", "um 14 Uhr", "at 14h", "17:45"),
    "span": (
        "3 weeks ago",
        "in 6 months",
        "for 30 years",
        "for 10 minutes",
        "a 10 year plan",
        "a 30-year mortgage",
        "every 2 hours",
        "seit 3 Wochen",
        "pendant 10 jours",
        "hace 2 semanas",
        "the last 5 years",
        "2-3 weeks later",
    ),
    "count": (
        "I have 1 sister",
        "It costs 1 coin",
        "3 healthy foods",
        "There are 54 cards and 30 chips",
        "23 nodes",
        "Use 2 spaces",
        "the top 5 income funds",
        "In 1 sentence",
        "at least 3 reviewers",
        "no more than 500 words",
        "30 glucose tests",
        "12 different countries",
        "200 g sugar and 2 cups flour",
        "a 3-step plan",
        "5 miles",
        "16 GB",
        "tengo 2 hijos",
        "2-3 sentences",
        "350°F",
        "1.8 million cars",
    ),
    "label": (
        "room 220",
        "line 214",
        "on port 8080",
        "error 134",
        "chapter 5, page 3 and figure 2",
        "RFC 7231",
        "Section 8",
        "question 4",
        "see #12",
        "as shown [3].",
        "1. Buy eggs\n2. Buy milk\n3) Cook",
        "lines 10-20",
        "Zimmer 12",
        "página 7",
        '{"page": 3, "port": 8080}',
        "the 3rd floor",
        "flight 370 leaves",
        "a B-52",
        "my 401k",
        "open 24/7",
    ),
    "version": (
        "Python 3.11",
        "1.4.0",
        "iOS 17",
        "Python 3.11 and numpy 2.2",
        "node >= 18",
        "pandas 2.1",
    ),
    "address": (
        "192.168.10.54",
        "10.0.0.1",
        "https://example.org/issues/214",
        "/var/log/23/app.54",
    ),
    "code": (
        "```python\nx = 54\nfor i in range(10):\n    y[3] = 2\n```",
        "`x[3]` and `foo(2)`",
        "alt**0.5",
        "assert add(2, 3) == 5",
        "Fix this test: assert add(2, 3) == 5",
        "SELECT name FROM users WHERE age > 30 LIMIT 10",
        "if age >= 18: print('adult')",
        "    return age*ast/2",
        "width: 20px;",
        "int x = 30;",
        "git rebase HEAD~3",
        "const limit = 23",
    ),
    "range": (
        "(10-40)",
        "normal 10 to 40",
        "Ref 7-56",
        "cutoff of 1.3",
        "What does an ALT above 56 mean in general?",
        "the limit is lower under age 65",
        "<5.7 normal",
        "BMI over 30 is obese",
        "Normal AST is 10 to 40 U/L",
        "is 5.7 to 6.4 prediabetes?",
        "people over 65",
        "reference range: 150 - 400",
        "Grenzwert von 40",
    ),
    "share": (
        "dropped 40%",
        "20 % of people",
        "APR 6.1%",
        "a mortgage at 6.1%",
        "up 5%",
        "a 30% discount",
        "grew by 12 percent",
        "um 5 Prozent",
    ),
    "price": (
        "a loan on $400,000",
        "it costs $20",
        "a $5 coffee",
        "sold for €35",
        "revenue of $3.2 billion",
        "price is 12.99 EUR",
        "My house cost $400,000",
        "das kostet 20 Euro",
    ),
    "dose": ("metformin 500 mg", "5 mg daily", "2 tablets a day", "I inject 10 units at night"),
    "score": ("pain 3/10", "5 stars", "they won 3-1", "8 out of 10"),
    "key": ("Press ALT+30", "Ctrl+2", "press 1"),
    "arithmetic": ("2 + 2", "3x^2", "54*23=1242", "sqrt(30)", "2^10", "7 × 8"),
}


@pytest.mark.parametrize(
    ("text", "sort"), [(text, sort) for sort, texts in ORDINARY.items() for text in texts]
)
def test_a_number_that_is_nobody_s_has_its_sort(text: str, sort: str) -> None:
    all_are(text, sort)


def test_every_sort_has_examples() -> None:
    assert {*ORDINARY, "value"} == {*get_args(OrdinarySort)}


@pytest.mark.parametrize("module", ["ordinary", "subjects"])
def test_every_list_of_words_is_looked_at(module: str) -> None:
    folder = importlib.resources.files("rootguard.reading")
    source = (folder / f"{module}.py").read_text("utf-8")
    content = tomllib.loads((folder / f"{module}.toml").read_text("utf-8"))
    inner = [key for each in content.values() if isinstance(each, dict) for key in each]
    keys = {key for key in (*content, *inner) if key not in (*LANGUAGES, "nl", "any")}
    assert {key for key in keys if f'"{key}"' not in source} == set()


MIXED = {
    "My AST is 23 (normal 10-40), ALT 30 (7-56)": ("value", "range", "range") * 2,
    "Meet me on 23 May at 5:30 pm in room 220": ("date", "time", "label"),
    "A mortgage at 6.1% for 30 years on $400,000": ("share", "span", "price"),
    "Remind me to retest my AST (23) in 6 weeks": ("value", "span"),
    "AST 2 weeks ago was 23": ("span", "value"),
    "AST 23 on 5 March, 25 on 7 April": ("value", "date", "value", "date"),
    "1) 54 2) 23 3) 30": ("label", "value", "label", "value", "label", "value"),
    "income 2024: 85000": ("date", "value"),
    "def f(age=54, ast=23):\n    return age*ast/2": ("value", "value", "code"),
    '{"labs": {"AST": "23 U/L"}, "page": 3}': ("value", "label"),
    "my AST dropped 40% from 38 to 23": ("share", "value", "value"),
    "FIB-4 = 1.03": ("label", "value"),
    "UPDATE labs SET ast = 23 WHERE id = 4": ("value", "code"),
    "I have 2 kids and weigh 83.5 kg": ("count", "value"),
    "1. AST 23\n2. ALT 30": ("label", "value", "label", "value"),
    "Line height 1.5, my height 178 cm": ("count", "value"),
    "font-weight: 700; max page weight 2 MB": ("count", "count"),
    "MIN_AGE = 18": ("range",),
    "max weight 12 kg": ("range",),
    "my weight is 83 kg, the image is 83 px wide": ("value", "count"),
    ".card { height: 178px; }": ("count",),
    "if income <= 44725: return (income - 11000) * 0.12": ("code", "code", "code"),
    "takes 14 s on 3 million rows": ("span", "count"),
    "at 80 % humidity": ("share",),
    "I am 54 and walk 5 miles in 45 minutes": ("value", "count", "span"),
}


@pytest.mark.parametrize(("text", "expected"), MIXED.items())
def test_each_number_of_a_text_has_its_own_sort(text: str, expected: tuple[str, ...]) -> None:
    assert tuple(sort for _, sort in sorted_numbers(text)) == expected


@pytest.mark.parametrize("text", [*VALUES, *MIXED])
def test_other_digits_of_a_value_have_the_same_sorts(text: str) -> None:
    exchange = {"23": "47", "30": "58", "54": "62", "220": "340"}
    other = re.sub(r"(?<![\d.])(?:23|30|54|220)(?![\d%]| May)", lambda m: exchange[m[0]], text)
    sorts_of = [sort for _, sort in sorted_numbers(text)]
    assert [sort for _, sort in sorted_numbers(other)] == sorts_of


HOSTILE = (
    *("1", "1 ", "1,", "1.", "1. ", "1\n", "AST ", "AST 23 ", "twenty ", "one ", "(", "((1", "[1]"),
    *("`", "`1`", "```\n", "```py\n1\n", "/1", "/a", "http://", "a.b(", "a(b=1,", "select 1 ", ":"),
    *("1 to 2 ", "1-2 ", "$1 ", "1% of ", "1 year ", "May 1 ", "line 1 ", "<1 ", "> 1", "<td>1"),
    *("3 very good ", "a a a a a a 1 ", "=1;", "x=1", '{"a": 1', "1x", "#1 ", "AST\n1\n", "１ "),
)


@pytest.mark.parametrize("length", [4_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_text_takes_linear_time(unit: str, length: int) -> None:
    assert grows_linearly(sorted_numbers, unit, length)


CODE = (
    "x == 3",
    "a != b",
    "a && b",
    "n += 1",
    "2 ** 3",
    "std::max",
    "run() ;",
    "make().then(",
    "np.mean(",
    "please select age from people",
    "rows where p.age > 5",
    "age integer not null",
    "plt smallint check",
    "ast numeric(5)",
    "f1(['a'])",
    "call(age=3)",
    "if row.age >= 18",
)
DEFINITIONS = (
    "def f(age=30",
    "function weigh(kg=80",
    "function (age=30",
    "fn f(",
    "func f(",
    "fun f(",
    "constructor(age=30",
    "__init__(self, age=30",
    "export interface person {",
    "type person = {",
    "update people set age=",
)


@pytest.mark.parametrize("line", CODE)
def test_what_the_search_for_code_finds_has_a_sign_by_which_it_is_begun(line: str) -> None:
    assert ordinary._CODE_WITHIN.search(line)
    assert not ordinary._CODE_WITHIN.search("my age was 54 where i am, and i select nothing")
    assert any(sign in line for sign in ordinary._CODE_SIGNS)


@pytest.mark.parametrize("line", DEFINITIONS)
def test_what_the_search_for_definitions_finds_has_a_word_by_which_it_is_begun(line: str) -> None:
    assert ordinary._PARAMETERS.search(line)
    assert any(word in line for word in ordinary._DEFINING)


@given(st.from_regex(ordinary._TESTED))
def test_what_the_search_for_tests_finds_has_a_sign_by_which_it_is_begun(line: str) -> None:
    assert any(sign in line for sign in ordinary._TEST_SIGNS)


def test_each_number_is_judged_by_its_own_line() -> None:
    text = "unit tests: 3\nmy age 54 and ast 23\nassert 5"
    tested = ordinary.TestedLines(text)
    assert [tested.has(text.index(each)) for each in ("3", "54", "23", "ast 23", "3")] == [
        *(True, False, False, False, True)
    ]
    assert tested.has(len(text) - 1)
