"""Texts with values of roots in them, and how they are read.

The spelled values of `spelled_mentions.toml`, alone and beside each other: what a reader makes of
one often depends on what stands next to it. How each is read stands in `mentions.txt`, so that a
change of the readers shows as a change of that file: `python -m tests.support.mention_texts` writes
it anew. `[ast 23>182.5]` is a value of a root, in its own unit, with what is written in its place;
`{2023}` a number of nobody, `{!50}` one beside a private word.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rootguard.language.fold import Spans
from rootguard.reading.mentions import find_mentions, write
from rootguard.reading.ordinary import Surroundings
from rootguard.reading.page import read_page
from rootguard.template import Root, load_template
from rootguard.values import RootName

FOLDER = Path(__file__).parents[1] / "data"
RECORD = FOLDER / "mentions.txt"
SPELLED = [
    (template, text, expected)
    for template, rows in tomllib.loads(
        (FOLDER / "spelled_mentions.toml").read_text("utf-8")
    ).items()
    for text, expected in rows.items()
]
"""Template, text, and what is found in it: "root=number" in the root's own unit."""
ALL: dict[RootName, Root] = {
    name: root
    for template in (
        *("fib4", "homa", "nlr", "tyg", "aip", "anemia", "conicity", "vascular", "bmi"),
        *("debt_to_income", "loan_payment", "egfr", "qtc"),
    )
    for name, root in load_template(template).roots.items()
}
_MORE = (
    *("AST one", "AST ten", "AST two", "AST is one", "AST one U/L", "BP one over two"),
    *("I am AST 23", "I'm AST 23 and age 50", "I'm AST", "I am 50 mg AST 23", "AST 23 in total"),
    *("astU/L 23", "ast U/L 23", "glucoseMmol 5.9", "in 2023 AST was 23", "ast.value 23"),
    *("she is 50 years of age", "I am 50 yearsish", "I am 50, she is 5 ft 4", "e.g. AST 23"),
    *("23 or 24 and 30 for AST and ALT", "23, 30 AST", "1 2 3 4 5 6 7 8 9 10 11 12 AST"),
    *("my dose is 50", "patient 12345", "version 2.3", "1. Blood test", "see [3] on blood"),
    *("my blood test was 3 weeks ago", "cardBalance=500", "AST, as they told me, 23"),
    *("name | AST | ALT\nme | 23 | 30", "age\tast\n50\t23\n51\t24", "AST,unit\n23,U/L"),
    *("AST 23 (reference range 10-40)", "AST (10-40 U/L): 23", "normal AST: 10-40"),
    *("income: $85,000", "I earn 85k", "salary of $4,000 a month", "income 7000 USD monthly"),
    *("weekly-income: 900", "monthly income of 85,000", "annual income of 4000", "AST 1, 2 and 3"),
    *(
        "height 6'",
        "waist: 3'",
        "5 ft 11 inches tall",
        "height 5 feet, 3",
        "weight 11 stone 4 pounds",
    ),
    *("6 ft 1 in tall", "6'1\"", "height 6 feet", "11 st 4 lb", "weight 80.5 kilos"),
    *("height 5 ft 11.9", "height 5 ft 12", "height 1m78", "height 1 m 99", "height 5 feet 4in."),
    *("weight 11 st 13 lb", "weight 11 st 14 lb", "weight 80kg", "weight 80-kg", "weight 80 (kg)"),
    *("height 180", "height 1.80", "waist 3' 2"),
    *("income 1.5 million a year", "income 85 grand a year", "income $85k", "income 4.2k a month"),
    *(
        "income USD 4000",
        "income 4000 dollars",
        "income 4000-a-month",
        "income 85,000",
    ),
    *(
        "income 4000 eur",
        "income = 85000;",
        '"income": 85000',
        "income 5 kg",
    ),
    *('"ast": 23.5', '"ast": [23, 24]', "ast = 23;", "ast = 23.5", "ast = 23 U/L", "x['ast'] = 23"),
    *("AST ALT 23 30", "AST ALT\n23 30", "AST/ALT/PLT 23/30/220", "AST-ALT-PLT: 23-30-220"),
    *("AST ALT PLT age 23/30/220/50", "glucose 5.900", "platelets 220,000 /uL", "PLT 220 000 /uL"),
    *("PLT 220.000", "PLT 220k", "PLT 0.22 million/uL", "PLT 220 thousand", "AST 23-ish U/L"),
    *("AST ___ 23", "│ AST │ 23 │", "AST is23U/L", "my salaryis 5210", "total 214, HDL 47"),
    *("total 214", "LDL 120, total 214", "normal range 10-40, AST 23", "AST ref. range: 10 to 40"),
)
"""Numbers that are values only just, or not quite."""
_BESIDE = ("{0}, {1}", "{0}. {1}", "{1}\n{0}", "{0} ({1})", "{1} and {0}", "my {0} / {1}")


def released_of(root: Root) -> float:
    """A grid point that nobody would write."""
    return root.domain.value(root.domain.size * 2 // 3)


def texts() -> Iterator[str]:
    """The spelled values, each alone, in capitals and beside the next in some way."""
    every = [*(text for _, text, _ in SPELLED), *_MORE]
    for place, text in enumerate(every):
        yield text
        yield text.upper()
        for step in (1, 2, 3):
            yield _BESIDE[(place + step) % len(_BESIDE)].format(text, every[place - step])


def read_as(text: str) -> str:
    """A text with its values and its other numbers marked."""
    mentions = find_mentions(text, ALL)
    marks = [
        (m.start, m.end, f"[{m.root} {m.number:.6g}>{write(m, released_of(ALL[m.root]))}]")
        for m in mentions
    ]
    taken = [(m.start, m.end) for m in mentions]
    for (start, end), private in unbound_numbers(text, taken, ALL).items():
        marks.append((start, end, f"{{{'!' * private}{text[start:end]}}}"))
    for start, end, mark in sorted(marks, reverse=True):
        text = text[:start] + mark + text[end:]
    return text.replace("\n", "\\n")


def unbound_numbers(
    text: str,
    taken: Sequence[tuple[int, int]] = (),
    roots: Mapping[RootName, Root] | None = None,
) -> dict[tuple[int, int], bool]:
    """The numbers outside of what is taken, and whether each looks private where it stands."""
    page = read_page(text, roots or {})
    near, spoken_for = Surroundings(page), Spans(taken)
    found = {page.folded.span(n.start, n.end): n for n in page.numbers}
    return {
        place: not page.public.meet(number.start, number.end) and near.private(number)
        for place, number in found.items()
        if number.sort != "hole" and not near.idle(number) and not spoken_for.meet(*place)
    }


if __name__ == "__main__":
    RECORD.write_text("".join(f"{read_as(text)}\n" for text in texts()), "utf-8")
