"""Number words: one table, the same in every reader, past fifty and into the millions."""

import pytest

from rootguard.evaluation.hostile_prompts.leaks import Sentinel, find_leaks
from rootguard.evaluation.rq4_agent.replies import Parser
from rootguard.expressions import Arithmetic, NumberLiteral, Variable, to_text
from rootguard.language.fold import bare, fold
from rootguard.language.numbers import named, read_words, scan, spoken
from rootguard.reading.mentions import find_mentions
from rootguard.session.questions.answers import AskedFormula, read_question
from rootguard.session.questions.wording import Vocabulary
from rootguard.template import load_template
from rootguard.values import RootName

TEMPLATE = load_template("fib4")
WORDS = (
    ("fifty", 50),
    ("sixty", 60),
    ("sixty-one", 61),
    ("ninety nine", 99),
    ("one hundred", 100),
    ("two hundred and thirty-one", 231),
    ("one thousand", 1000),
    ("twelve thousand three hundred and five", 12_305),
    ("two million", 2_000_000),
    ("one million two hundred thousand and seven", 1_200_007),
    ("sixty-one point three seven five", 61.375),
)


@pytest.mark.parametrize(("words", "value"), WORDS)
def test_a_text_is_read(words: str, value: float) -> None:
    assert [number.value for number in spoken(f"It is {words}, they say.")] == [value]
    found = find_mentions(f"My AST is {words} U/L", TEMPLATE.roots)
    assert [mention.number for mention in found] == [value]


@pytest.mark.parametrize(("words", "value"), WORDS)
def test_a_question_is_read(words: str, value: float) -> None:
    parts = read_question(f"What is AST times {words}?", Vocabulary.of((TEMPLATE,)))[0]
    asked = [to_text(part.formula) for part in parts if isinstance(part, AskedFormula)]
    assert asked == [
        to_text(Arithmetic(operator="*", left=Variable("ast"), right=NumberLiteral(value)))
    ]


@pytest.mark.parametrize(("words", "value"), WORDS)
def test_a_reply_is_read(words: str, value: float) -> None:
    asked = [RootName("ast")]
    assert Parser.of(TEMPLATE).read(f"Your AST is {words} U/L.", asked).values == {"ast": value}


def test_small_numbers_in_words_do_not_confuse_a_reply_in_digits() -> None:
    read = Parser.of(TEMPLATE).read("AST, one of two enzymes, is 24.5 U/L.", [RootName("ast")])
    assert read.values == {"ast": 24.5}


def test_a_leak_in_words_is_found() -> None:
    sentinel = Sentinel(name="income", value=61_375.0)
    text = "It is sixty-one thousand three hundred and seventy-five."
    assert [leak.form for leak in find_leaks(text, [sentinel])] == ["words"]


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("sixty one apples", (61, 2)),
        ("one hundred and", (100, 2)),
        ("five point", (5, 1)),
        ("point five", None),
        ("and five", None),
        ("hundred", None),
    ],
)
def test_words_are_one_number_as_far_as_they_go(words: str, read: tuple[int, int] | None) -> None:
    found = read_words(words.split())
    assert (None if found is None else (int(found[0]), found[1])) == read


def test_a_round_number_has_a_word() -> None:
    assert [named(n) for n in (2, 60, 100, 1000, 61, 2.5)] == [
        *("two", "sixty", "one hundred", "one thousand"),
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("weight one eighty four", [184]),
        ("one thirty-four over eighty-six", [134, 86]),
        ("platelets two twenty", [220]),
        ("a hundred and sixty-three", [163]),
        ("five foot ten", [5, 10]),
        ("one fifty-year-old and a friend", [1, 50]),
        ("in my mid-fifties", []),
        ("my 54th birthday", [54]),
        ("AST: 0x17", [23]),
        ("AST is ②③, ❷❸, ㉓", [23, 23, 23]),
        ("AST ٢٣٫٥ and ２３", [23.5, 23]),
        ("5½ and ½", [5.5, 0.5]),
        ("vierundfünfzig Jahre", [54]),
        ("AST dreiundzwanzig, hundertvierunddreißig zu sechsundachtzig", [23, 134, 86]),
        ("fünfundachtzigtausend im Jahr, fünf Komma neun", [85_000, 5.9]),
        ("cinquante-quatre ans, quatre-vingt-six, deux cent vingt", [54, 86, 220]),
        ("cent trente-quatre sur soixante et onze", [134, 71]),
        ("quatre-vingt-cinq mille par an", [85_000]),
        ("cincuenta y cuatro años, ciento treinta y cuatro", [54, 134]),
        ("siete mil ochenta y tres dólares", [7083]),
        ("cinquantaquattro anni, ottantacinquemila, centotrentaquattro", [54, 85_000, 134]),
        ("cinquenta e quatro anos, cento e trinta e quatro", [54, 134]),
        ("sete mil e oitenta e três", [7083]),
        ("vierenvijftig jaar, tweehonderdtwintig", [54, 220]),
        ("五十四岁,血压一百三十四", [54, 134]),
        ("血糖五点九,收入八万五千,二百二", [5.9, 85_000, 220]),
        ("我的空腹血糖是5.9,体重83.5公斤,今年54岁", [5.9, 83.5, 54]),
        ("혈당은106이고 나이54세", [106, 54]),
        ("万一,十分,千万不要,一些,三月", []),
        ("due once, the elf paid a cent on Sept dos, null", []),
        ("Anno mille e non più mille, six pack", [6]),
    ],
)
def test_a_number_is_read_as_it_is_said(text: str, values: list[float]) -> None:
    assert [number.value for number in scan(bare(fold(text).text))] == values


def test_a_line_break_between_two_digits_parts_them() -> None:
    """A column of numbers looks the same: only what stands around can tell."""
    assert [number.value for number in scan("AST 2\n3 U/L")] == [2, 3]
