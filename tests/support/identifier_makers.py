"""Random identifiers of every kind, each with a predicate for tokens written as it is.

The predicates are written from the specification, not from the implementation.
"""

import datetime
import random
import re
import string
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources

from rootguard.identifiers import Identifiers, Kind

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))


def fresh() -> Identifiers:
    return Identifiers(KEY)


Make = Callable[[random.Random], tuple[str, Callable[[str], bool]]]


def same_classes(text: str, token: str, kept: set[int] = frozenset()) -> bool:  # type: ignore[assignment]
    if len(text) != len(token):
        return False
    for place, (old, new) in enumerate(zip(text, token, strict=True)):
        classes = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
        own = next((letters for letters in classes if old in letters), old)
        if new not in own or (place in kept and new != old):
            return False
    return True


CODES = ["####-####", "AA-#####", "A#A#-##a", "MRN: ######", "#####", "aa#", "(AA/##)", "#A",
         "aAaA_####.#", "é##-##-ß##", "AAAAAAAA", "###-##-####", "a" * 40, "####" * 10]  # fmt: skip


def fill(template: str, random_: random.Random) -> str:
    classes = {"#": string.digits, "A": string.ascii_uppercase, "a": string.ascii_lowercase}
    return "".join(random_.choice(classes.get(mark, mark)) for mark in template)


def make_code(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    text = fill(random_.choice(CODES), random_)
    return text, lambda token: same_classes(text, token)


PHONES = [("+1 (", "N", "##) ###-####"), ("+49 ", "N", "# #######"), ("+358 ", "N", "# ### ####"),
          ("+44 (0", "", ")## #### ####"), ("0", "", "## ########"), ("(", "N", "##) ###-####"),
          ("", "N", "##.###.####"), ("1-", "", "###-###-####"), ("+7", "N", "#########"),
          ("+86 ", "N", "## #### #### ext. ##"), ("", "N", "##-####")]  # fmt: skip


def make_phone(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    kept, first, rest = random_.choice(PHONES)
    lead = random_.choice("23456789") if first else ""
    text = kept + lead + fill(rest.replace("ext", "\0"), random_).replace("\0", "ext")

    def well_formed(token: str) -> bool:
        if len(token) != len(text) or not token.startswith(kept):
            return False
        if first and token[len(kept)] not in "23456789":
            return False
        return re.sub("[0-9]", "#", token) == re.sub("[0-9]", "#", text)

    return text, well_formed


MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December"]  # fmt: skip
Render = Callable[[datetime.date], str]
DATES: list[Render] = [
    lambda d: f"{d.year}-{d.month:02}-{d.day:02}",
    lambda d: f"{d.year}/{d.month:02}/{d.day:02}",
    lambda d: f"{d.day:02}.{d.month:02}.{d.year}",
    lambda d: f"{d.month:02}/{d.day:02}/{d.year}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
    lambda d: f"{d.month}/{d.day}/{d.year}",
    lambda d: f"{d.day} {MONTHS[d.month - 1]} {d.year}",
    lambda d: f"{d.day:02} {MONTHS[d.month - 1]} {d.year}",
    lambda d: f"{MONTHS[d.month - 1]} {d.day}, {d.year}",
    lambda d: f"{d.day} {MONTHS[d.month - 1][:3].upper()} {d.year}",
    lambda d: f"{MONTHS[d.month - 1][:3]}. {d.day:02}, {d.year}",
    lambda d: f"{MONTHS[d.month - 1].lower()} {d.day} {d.year}",
    lambda d: f"{d.day} {MONTHS[d.month - 1].upper()} {d.year}",
    lambda d: f"{MONTHS[d.month - 1][:3]}. {d.day}, {d.year}",
]
ALL_DAYS = [datetime.date(1900, 1, 1) + datetime.timedelta(days=n) for n in range(73_049)]


@cache
def written_dates() -> list[set[str]]:
    """Every day in every form: a million texts, made where a test asks for them."""
    return [{render(day) for day in ALL_DAYS} for render in DATES]


def make_date(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    """ "12 May 2024" is written in several forms at once; its token is written in one of them."""
    text = random_.choice(DATES)(random_.choice(ALL_DAYS))
    forms = [written for written in written_dates() if text in written]
    return text, lambda token: any(token in written for written in forms)


EMAILS = ["aaa.aaaa@aaaaaa.com", "aa##@aaa.aaaaa.co.uk", "AaaAaa_##+aa@aaa-aa#.example",
          "a@aaaa.org", "###@a.museum"]  # fmt: skip


def make_email(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    shape, last = random_.choice(EMAILS).rsplit(".", 1)
    text = f"{fill(shape, random_)}.{last}"
    kept = set(range(text.rindex("."), len(text)))
    return text, lambda token: same_classes(text, token, kept)


NAME_DATA = tomllib.loads(
    resources.files("rootguard.identifiers").joinpath("names.toml").read_text("utf-8")
)
GIVEN, SURNAMES = NAME_DATA["given"].split(), NAME_DATA["surnames"].split()
UNLISTED = ["Zyxwv", "McDonald", "Béla", "Øystein", "Truong", "Quillfeather", "DeShawn", "Smith",
            "Young", "王伟", "Иван", "Straße"]  # fmt: skip
NAME_SHAPES = ["{g} {s}", "Dr. {g} {i}. {s}", "{s}", "{s}, {g}", "{g}-{g} {s}", "{g} O'{s}",
               "{g} van der {s}", "Mrs. {g} {s}-{s}, MD", "{i}.{i}. {s}", "{g}  {s}\u2019s",
               "{G} {S}", "{l}", "{g} De {s} Jr."]  # fmt: skip


def make_person(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    shape = random_.choice(NAME_SHAPES)
    text, pattern = "", ""
    for part in re.split(r"(\{.\})", shape):
        given = random_.choice(GIVEN + UNLISTED)
        surname = random_.choice(SURNAMES + UNLISTED)
        spelled = fill("Aaaaa", random_)
        match part:
            case "{g}":
                text, pattern = text + given, pattern + "[A-Z][a-z]{2,}"
            case "{s}":
                word = random_.choice([surname, surname, surname, spelled])
                text, pattern = text + word, pattern + "[A-Z][a-z]{2,}"
            case "{i}":
                text, pattern = text + fill("A", random_), pattern + "[A-Z]"
            case "{G}" | "{S}":
                text, pattern = text + random_.choice(SURNAMES).upper(), pattern + "[A-Z]{3,}"
            case "{l}":
                text, pattern = text + random_.choice(GIVEN).lower(), pattern + "[a-z]{3,}"
            case kept:
                text, pattern = text + kept, pattern + re.escape(kept)
    return text, lambda token: re.fullmatch(pattern, token) is not None


MAKERS: dict[Kind, Make] = {
    "code": make_code,
    "phone": make_phone,
    "date": make_date,
    "email": make_email,
    "person": make_person,
}
