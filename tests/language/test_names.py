"""One index of names: what it says, and that every reader knows every spelling of it."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.text.channel import TextChannel
from rootguard.channels.text.documents import TextLook
from rootguard.channels.tools.words import Meanings, match, several, text_words, words_of
from rootguard.evaluation.rq4_agent.replies import Aliases
from rootguard.graph import Graph
from rootguard.language import names
from rootguard.language.fold import Runs, bare
from rootguard.language.names import Group, Spelling
from rootguard.language.numbers import scan
from rootguard.reading.mentions import find_mentions
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.session.questions.answers import AskedName, read_question
from rootguard.session.questions.wording import Vocabulary
from rootguard.store import MemoryStore
from rootguard.template import Root, Template, catalog, load_template
from rootguard.values import RootName

SYNONYMS = Path(__file__).parents[3] / "shared" / "cases" / "synonyms.jsonl"
TEMPLATES: tuple[Template, ...] = tuple(load_template(name) for name in catalog())
# Every number; of other types those that the index has: their answers are words, which the index
# of names does not read.
ROOTS: dict[RootName, Root] = {
    root: each.roots[root]
    for each in reversed(TEMPLATES)
    for root in Graph.of(each).roots
    if each.roots[root].type.plain or root in names.concepts()
}
COMPUTED = {
    node.name for each in TEMPLATES for node in Graph.of(each).order if node.formula is not None
} - {str(root) for root in ROOTS}
# Of one template only, so that a target that another template takes as a root is computed here.
OWNERS: dict[str, Template] = {
    **{each.target.name: each for each in TEMPLATES},
    **{name: each for each in TEMPLATES for name in each.derived},
    **{str(root): each for each in TEMPLATES for root in each.roots},
}


# What people tell an assistant about themselves, whatever their language.
USUAL = frozenset(
    (
        *("age", "wt", "ht", "waist", "sbp", "dbp", "hr"),
        *("ast", "alt", "ggt", "plt", "scr", "glu", "ins", "a1c", "tc", "hdl", "tg", "hb"),
        *("income", "net_income", "spending", "housing_cost", "debt_payment", "savings"),
    )
)


def _spellings() -> Iterator[tuple[str, Spelling]]:
    for name, concept in names.concepts().items():
        yield from ((name, spelling) for spelling in concept.spellings)


def _groups() -> Iterator[tuple[Group, Spelling]]:
    for group in (*names.together(), *names.general()):
        yield from ((group, spelling) for spelling in group.spellings)


def _value(name: str) -> str:
    root = ROOTS[RootName(name)]
    if root.domain.size == 2:
        return "1"
    return f"{round(root.domain.lower + root.domain.width * 0.617, 3):g}"


def _sentence(name: str, spelling: Spelling) -> str:
    # An abbreviation is written as it is meant.
    written = spelling.text.upper() if spelling.capitals else spelling.text
    return f"My {written} is {_value(name)}"


def test_every_spelling_is_of_a_value_of_the_catalog() -> None:
    known = {str(root) for root in ROOTS} | COMPUTED
    assert set(names.concepts()) <= known
    assert {str(root) for root in ROOTS} <= set(names.concepts())
    groups = {name for group, _ in _groups() for name in group.names}
    assert groups <= known


def test_a_spelling_means_one_value_only() -> None:
    meant: dict[str, set[str]] = {}
    for name, spelling in _spellings():
        meant.setdefault(spelling.key, set()).add(name)
    for group, spelling in _groups():
        meant.setdefault(spelling.key, set()).add("+".join(group.names))
    assert [key for key, values in meant.items() if len(values) > 1] == []


def test_every_root_has_names_in_six_languages_and_the_usual_ones_in_all() -> None:
    for root in ROOTS:
        spoken = {lang for s in names.concepts()[root].spellings for lang in s.languages}
        wanted = names.LANGUAGES if root in USUAL else ("en", "de", "fr", "es", "it", "pt")
        assert set(wanted) <= spoken, root
    for group in names.together():
        assert {lang for s in group.spellings for lang in s.languages} == set(names.LANGUAGES)


def test_the_text_channel_knows_every_spelling() -> None:
    missed = []
    for name, spelling in _spellings():
        if name in ROOTS:
            found = find_mentions(_sentence(name, spelling), ROOTS)
            if [mention.root for mention in found] != [name]:
                missed.append((name, spelling.text))
    for group, spelling in _groups():
        together = group in names.together()
        wanted = list(group.names) if together else [group.names[0]]
        number = "131/79" if together else _value(group.names[0])
        written = spelling.text.upper() if spelling.capitals else spelling.text
        found = find_mentions(f"My {written} is {number}", ROOTS)
        if [mention.root for mention in found] != wanted:
            missed.append((group.names[0], spelling.text))
    assert missed == [], missed


def test_questions_know_every_spelling() -> None:
    missed = []
    for name, spelling in _spellings():
        if spelling.text in ("emergency fund", "mortgage"):  # a template, and so its target
            continue
        if spelling.languages == {"hi"}:  # questions are cut at the vowel signs of Devanagari
            continue
        vocabulary = Vocabulary.of((OWNERS[name],))
        if _asked(spelling, vocabulary) != [name]:
            missed.append((name, spelling.text))
    for group, spelling in _groups():
        owners = tuple(dict.fromkeys(OWNERS[name] for name in group.names))
        wanted = list(group.names) if group in names.together() else [group.names[0]]
        if spelling.languages != {"hi"} and _asked(spelling, Vocabulary.of(owners)) != wanted:
            missed.append((group.names[0], spelling.text))
    assert missed == [], missed


def _asked(spelling: Spelling, vocabulary: Vocabulary) -> list[str]:
    written = spelling.text.upper() if spelling.capitals else spelling.text
    parts = [
        part
        for sentence in read_question(f"What is my {written}?", vocabulary)
        for part in sentence
    ]
    return [part.name for part in parts if isinstance(part, AskedName)]


def test_the_schema_reader_knows_every_spelling() -> None:
    known = Meanings(ROOTS, TEMPLATES)
    missed = []
    for name, spelling in _spellings():
        found = match(words_of(spelling.text.replace("+", " ").lower()), known.by_name[name])
        if found is None or found.extra:
            missed.append((name, spelling.text))
        elif spelling.weak and not found.weak and not _listed_strongly(name, spelling):
            missed.append((name, f"{spelling.text} is weak"))
    for group, spelling in _groups():
        if several().get("".join(text_words(spelling.text))) != group.names:
            missed.append((group.names[0], spelling.text))
    assert missed == [], missed


def _listed_strongly(name: str, spelling: Spelling) -> bool:
    return any(
        other.key == spelling.key and not other.weak for other in names.concepts()[name].spellings
    )


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_agent_parser_knows_every_spelling(every: int) -> None:
    missed = []
    for name, spelling in list(_spellings())[::every]:
        if _mentioned(spelling, (OWNERS[name],)) != [name]:
            missed.append((name, spelling.text))
    for group, spelling in _groups():
        owners = tuple(dict.fromkeys(OWNERS[name] for name in group.names))
        wanted = list(group.names) if group in names.together() else [group.names[0]]
        if _mentioned(spelling, owners) != wanted:
            missed.append((group.names[0], spelling.text))
    assert missed == [], missed


@cache
def _aliases(templates: tuple[Template, ...]) -> Aliases:
    named: dict[str, tuple[str, ...]] = {}
    for template in templates:
        named |= dict.fromkeys((*template.derived, template.target.name), ())
        named |= {str(root.name): root.aliases for root in template.roots.values()}
    return Aliases(named)


def _mentioned(spelling: Spelling, templates: tuple[Template, ...]) -> list[str]:
    written = spelling.text.upper() if spelling.capitals else spelling.text
    return [mention.name for mention in _aliases(templates).find(f"The {written} is 5.")]


@pytest.mark.parametrize("title", ["name", "mrn", "phone", "email", "dob", "ssn", "account"])
def test_questions_and_schemas_know_every_name_of_an_identifier(title: str) -> None:
    vocabulary = Vocabulary.of((load_template("fib4"),), (title,))
    known = Meanings({}, (), (title,)).by_name[title]
    listed = names.identifier_called(title)
    assert listed is not None
    for text in (*listed.plain, *listed.loose):
        assert _asked(Spelling(text=text), vocabulary) == [title], text
        found = match(words_of(text), known)
        assert found is not None, text
        assert not found.extra, text
        assert found.weak == (text in listed.loose), text


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_no_spelling_leaves_the_text_channel_raw(every: int) -> None:
    """For a person with every root; each spelling that the file lists, variants aside."""
    profile = f"templates = {json.dumps(sorted(catalog()))}\nbudget = '1'\n"
    person = Person.open(
        parse_profile(profile, file="profile.toml"), store=MemoryStore(), on_clamp=lambda _: None
    )
    channel = TextChannel(person, detectors=[Rules()], near_private="redact")
    raw = []
    for name, spelling in list(_spellings())[::every]:
        if name in ROOTS and not spelling.text.startswith(("serum", "plasma", "blut")):
            # Not what came of it: a released value may be written as the one that stood there.
            look = TextLook(source="owner")
            read = channel.read(_sentence(name, spelling), "", look)
            made = Counter(edit.kind for edit in read)
            # Of the words of a name none is taken for a person's.
            if made["root"] != 1 or (len(made) > 1 and not spelling.said):
                raw.append((name, spelling.text))
    assert raw == [], raw


@pytest.mark.skipif(not SYNONYMS.exists(), reason="the cases of the development set are not here")
def test_the_names_of_the_development_set_are_read() -> None:
    for line in SYNONYMS.read_text("utf-8").splitlines():
        case = json.loads(line)
        found = find_mentions(case["text"], ROOTS)
        assert [mention.root for mention in found] == [case["root"]], case["text"]
        assert case["text"][found[0].start : found[0].end] == case["value"]


@pytest.mark.parametrize(
    "text",
    [
        "I got 23 emails and the tag 17 fell off.",
        "Rate 5 movies from 1 to 10, I paid attention.",
        "Iron 3 shirts, then alter 2 dresses.",
        "That is 200 pesos, or 10 pesos each.",
        "Our ETA 15, the term 3 paper is due.",
        "In the long-term: 3 options, in the short term 2.",
        "Take 12 pas de deux and 4 pads.",
        "The new pad: 3, the tan is 5, his hk: 8",
        "Philadelphia, PA 19103 and Hong Kong HK 5000",
        "The tension 5 sheets, economies 20.",
        "I'm female, 54",
    ],
)
def test_an_everyday_word_is_no_name(text: str) -> None:
    roots = {name: root for name, root in ROOTS.items() if name != "age"}
    assert find_mentions(text, roots) == []


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("Meine Werte: Alter 57. Was bedeutet das?", "age"),
        ("Mis resultados: peso 87. ¿Qué significa?", "wt"),
        ("Mes résultats : taille 173. Que faut-il en penser ?", "ht"),
        ("Mes résultats : fer 93. Que faut-il en penser ?", "iron"),
        ("I miei valori: eta\u0300 57. Cosa significa?", "age"),
        ("Meine Kreatininwerte sind 1,27 und mehr", "scr"),
        ("S-Kreatinin 1.27, fP-Glukose 113", "scr"),
        ("Serumkreatininspiegel: 1.27", "scr"),
        ("koerpergroesse: 178 cm", "ht"),
        ("KÖRPERGRÖSSE 178 cm", "ht"),
        ("Platelet 220", "plt"),
        ("haemoglobin a1c 6.7 %", "a1c"),
        ("My cholesterol is 214", "tc"),
    ],
)
def test_a_name_is_read_in_every_form(text: str, root: str) -> None:
    assert next(iter(find_mentions(text, ROOTS))).root == root


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("我的空腹血糖是5.9，体重83.5公斤", ["glu:空腹血糖", "wt:体重"]),
        ("今年54岁,血小板220", ["age:岁", "plt:血小板"]),
        ("我的AST是23,ALT是30", ["ast:AST", "alt:ALT"]),
        ("總膽固醇214、高密度脂蛋白膽固醇47", ["tc:總膽固醇", "hdl:高密度脂蛋白膽固醇"]),
        ("ASTは23、HbA1cは6.1%、体重は83.5kgです", ["ast:AST", "a1c:HbA1c", "wt:体重"]),
        ("HDLコレステロールが47", ["hdl:HDLコレステロール"]),
        ("제 몸무게는 83.5kg이고 키는 178cm입니다", ["wt:몸무게는", "ht:키는"]),
        ("공복혈당이 106, 혈소판 수치는 220", ["glu:공복혈당이", "plt:혈소판"]),
        ("54세입니다", ["age:세입니다"]),
        ("나이키 신발 5, 키보드 3", []),
        ("Мне 54 года, АСТ 23, АЛТ 30", ["ast:АСТ", "alt:АЛТ"]),
        ("мой ВЕС 83 кг, рост 178", ["wt:ВЕС", "ht:рост"]),
        ("kilom 83, yaşım 54, KAN ŞEKERİM 106", ["wt:kilom", "age:yaşım", "glu:KAN ŞEKERİM"]),
        ("vücut ağırlığım 83,5", ["wt:vücut ağırlığım"]),
        ("plytki krwi 220, płytki krwi 220", ["plt:plytki krwi", "plt:płytki krwi"]),
        ("ik weeg 83,5 kg, bloeddruk 134/86", ["wt:weeg", "sbp:bloeddruk", "dbp:bloeddruk"]),
        ("मेरा वजन 83 किलो, रक्त शर्करा 106", ["wt:वजन", "glu:रक्त शर्करा"]),
        ("وزني 83 كغ وضغط الدم 134", ["wt:وزني"]),
        ("my 54th birthday", ["age:th birthday"]),
    ],
)
def test_a_name_is_found_in_every_script(text: str, found: list[str]) -> None:
    finder = names.Finder(
        [
            *(((name,), names.spellings_of(name)) for name in names.concepts()),
            *((group.names, group.spellings) for group in names.together()),
        ]
    )
    flat = bare(text)
    hits = list(finder.find(flat, text, Runs(flat)))
    assert [f"{name}:{text[hit.start : hit.end]}" for hit in hits for name in hit.names] == found


def _slips(text: str) -> list[str]:
    finder = names.Finder(
        [
            *(((name,), names.spellings_of(name)) for name in names.concepts()),
            *((group.names[:1], group.spellings) for group in names.general()),
        ]
    )
    runs = Runs(text)
    places = [number.start for number in scan(text, runs)]
    found = [(hit.start, hit.end) for hit in finder.find(text, text, runs)]
    hits = finder.slips(text, runs, places, found)
    return [f"{name}:{text[hit.start : hit.end]}" for hit in hits for name in hit.names]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("my platlets were 220", ["plt:platlets"]),
        ("cholestrol 214, total cholesterl 214", ["tc:cholestrol", "tc:total cholesterl"]),
        ("Tryglycerides 163", ["tg:Tryglycerides"]),
        ("haemoglobn A1c 6.1", ["a1c:haemoglobn A1c"]),
        ("systloic 134, creatinne 1.1", ["sbp:systloic", "scr:creatinne"]),
        ("A.S.T. 23", ["ast:A.S.T."]),
        ("Triglyzerode 163", ["tg:Triglyzerode"]),
        ("platelets 220", []),
        ("my platlets, and nothing else", []),
        ("platlets" + " and so on" * 9 + " 220", []),
        ("statute 5, 3 earrings, sending 20, the coolest 5, weighted 3, outlaws 7", []),
        ("Gesicht 3, defense 4, warnings 5, latelets 6, e.g. 5, U.S. 50", []),
    ],
)
def test_a_slip_is_read_near_a_number(text: str, found: list[str]) -> None:
    assert _slips(text) == found


def test_the_cost_of_looking_does_not_grow_with_the_spellings() -> None:
    """At most two looks for each word of a text in letters of ASCII, however many are known."""
    one = names.Finder([(("wt",), names.concepts()["wt"].spellings)])
    every = names.Finder([((n,), c.spellings) for n, c in names.concepts().items()])
    text = "Nobody here says anything of the kind, as far as anybody knows. " * 50
    runs = Runs(text)
    assert list(one.find(text, text, runs)) == list(every.find(text, text, runs)) == []
    assert len(every.places(text, runs)) <= len(text.split())


def test_a_longer_name_of_something_else_is_not_the_general_word() -> None:
    roots = {RootName("tc"): ROOTS[RootName("tc")]}
    assert find_mentions("My LDL cholesterol is 130", roots) == []
    assert find_mentions("colesterol LDL 130", roots) == []


def test_a_users_own_value_takes_the_names_of_the_index() -> None:
    assert names.concept_of("aspat_level", ("SGOT",)) == names.concepts()["ast"]
    assert names.concept_of("shoe size") is None
    spelled = {spelling.key for spelling in names.spellings_of("aspat_level", ("SGOT",))}
    assert {"aspatlevel", "sgot", "asat", "tgo"} <= spelled
