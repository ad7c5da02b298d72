"""Texts with identifiers in them, and what the rules find there.

The labelled texts of `benchmarks.detection` that were written by hand and some that were made,
alone and beside each other. What is found in each stands in `finds.txt`, so that a change of the
rules shows as a change of that file: `python -m tests.support.finds` writes it anew. A find is
marked with the first letter of its kind: `[p:Maria Lopez]`. Phone numbers are not marked, as what
is found of them depends on what the installed library knows.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks import detection

from rootguard.channels.detection import Rules

RECORD = Path(__file__).parents[1] / "data" / "finds.txt"
_RULES = Rules(kinds=("person", "code", "date", "email"))
_MORE = (
    *(
        "I met John Smith Jr. today",
        "and MARIA LOPEZ MD",
        "Dr. John Smith Jr. said",
        "John III came",
    ),
    *("I told J. van Beek.", "I told J. de la Cruz and A. Smith", "J.Smith wrote a.smith.py"),
    *("Lopez, Maria came", "Paris, Maria said", "SMITH, JOHN", "Zarvon, John left", "lopez, maria"),
    *("Maria Lopez Hospital", "Smith syndrome", "Maria Smith's syndrome", "Smith's syndrome"),
    *("San Pedro", "Lake Maria", "New Jordan", "san pedro", "St. Maria", "Mount Maria Lopez"),
    *("When Maria came", "Ask Maria Lopez Garcia", "Will Maria come", "Rose Maria Lopez sang"),
    *("/home/maria", "maria_lopez", "Maria=5", "@Maria", "Maria.Lopez", "Smith-type", "li-ion"),
    *("al-Sayed said", "O'Brien said", "McKay", "Kowalska", "Metformin said", "A. B. C.", "J. Xyz"),
    *(
        "maria and li said",
        "maria lopez",
        "rose hill",
        "li wei",
        "MY AST WAS HIGH SAID MARIA LOPEZ",
    ),
)
"""Words that are names only just, or not quite."""
_BESIDE = ("{0} {1}", "{0}, {1}", "{1}\n{0}", "{0}'s {1}", "Dr. {0} ({1})", "my name is {0}; {1}")
_EVERY = 29  # of the made texts; those of one template come one after another


def texts() -> Iterator[str]:
    """The labelled texts, each alone, with all words capitalised, and beside the one before."""
    usual = [each for each in detection.negatives() if each.group.endswith("usual")]
    made = [each for each in detection.generated() if each.group.endswith("usual")][::_EVERY]
    every = [each.text for each in (*detection.handwritten(), *usual, *made)] + [*_MORE]
    for place, text in enumerate(every):
        yield text
        yield text.title()
        yield _BESIDE[place % len(_BESIDE)].format(text, every[place - 1])


def marked(text: str) -> str:
    """A text with what is found in it marked."""
    for find in reversed(_RULES.find(text)):
        mark = f"[{find.kind[0]}:{text[find.start : find.end]}]"
        text = text[: find.start] + mark + text[find.end :]
    return text.replace("\n", "\\n").replace("\r", "\\r")


if __name__ == "__main__":
    RECORD.write_text("".join(f"{marked(text)}\n" for text in texts()), "utf-8")
