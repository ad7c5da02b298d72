"""Texts and documents that tell a yes or no, one of a few words, or a day, by the thousand.

Composed of parts: what the root is called, how the answer is tied to it, how it is written, and
what stands around it. A spelling is given as one writing for each answer, in the order of the
root's answers (yes, no; north, south, far west; two days), so that a reader can be asked whether it
treats all of them alike.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import product

TEMPLATE = """
name = "visit"
title = "A visit"
[roots.smoker]
type = "boolean"
title = "Smoker"
[roots.diabetes]
type = "boolean"
title = "Diabetes"
[roots.female]
type = "boolean"
title = "Female"
[roots.region]
type = "category"
values = ["north", "south", "far west"]
[roots.born]
type = "date"
title = "Date of birth"
lower = 1930-01-01
upper = 2015-12-31
[roots.last_period]
type = "date"
title = "Last period"
lower = 2020-01-01
upper = 2034-12-31
[roots.prior_stroke]
type = "boolean"
title = "Earlier stroke"
[roots.bp_treated]
type = "boolean"
title = "Treated blood pressure"
[roots.diabetes_family]
type = "category"
values = ["none", "distant", "close"]
order = true
title = "Diabetes in the family"
[roots.drink_days]
type = "category"
values = ["never", "monthly or less", "2 to 4 times a month", "2 to 3 times a week"]
order = true
title = "How often alcohol"
[roots.child_born]
type = "date"
title = "Birth of the child"
lower = 2014-01-01
upper = 2034-12-31
[target]
name = "points"
formula = '''9 * smoker + diabetes + female + prior_stroke + bp_treated + 3 * (region == "north")
+ (diabetes_family == "close") + drink_days + (born + last_period + child_born) / 900'''
"""

DAYS = {
    "born": (date(1980, 3, 3), date(1991, 11, 24)),
    "last_period": (date(2026, 1, 4), date(2026, 5, 19)),
    "child_born": (date(2025, 3, 4), date(2025, 11, 9)),
}
ANSWERS = {
    "smoker": ("yes", "no"),
    "diabetes": ("yes", "no"),
    "female": ("yes", "no"),
    "prior_stroke": ("yes", "no"),
    "bp_treated": ("yes", "no"),
    "diabetes_family": ("close", "distant", "none"),
    "drink_days": ("2 to 3 times a week", "2 to 4 times a month", "never"),
    "region": ("north", "south", "far west"),
    "born": tuple(day.isoformat() for day in DAYS["born"]),
    "last_period": tuple(day.isoformat() for day in DAYS["last_period"]),
    "child_born": tuple(day.isoformat() for day in DAYS["child_born"]),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TypedSpelling:
    """One way to tell a root, once for each answer; `json` if it is a document."""

    root: str
    writings: tuple[str, ...]
    json: bool = False


_YES_NO = {
    "en": [
        *(("yes", "no"), ("Yes", "No"), ("YES", "NO"), ("y", "n"), ("Y", "N"), ("true", "false")),
        *(("True", "False"), ("positive", "negative"), ("present", "absent"), ("1", "0")),
        *(("✓", "✗"), ("✅", "❌")),
    ],
    "de": [("ja", "nein"), ("Ja", "Nein"), ("positiv", "negativ"), ("wahr", "falsch")],
    "fr": [("oui", "non"), ("Oui", "Non"), ("vrai", "faux")],
    "es": [("sí", "no"), ("Sí", "No"), ("positivo", "negativo")],
    "it": [("sì", "no"), ("Sì", "No"), ("vero", "falso")],
}
_LABELS = {
    "smoker": {
        "en": ["smoker", "Smoker", "Smoking", "smoking status", "Tobacco use", "current smoker"],
        "de": ["Raucher", "Raucherstatus"],
        "fr": ["Fumeur", "Tabagisme"],
        "es": ["Fumador", "Tabaquismo"],
        "it": ["Fumatore", "Tabagismo"],
    },
    "diabetes": {
        "en": ["diabetes", "Diabetic", "has diabetes", "Diabetes mellitus"],
        "de": ["Diabetiker", "Zuckerkrankheit"],
        "fr": ["Diabète", "Diabétique"],
        "es": ["Diabético"],
        "it": ["Diabete", "Diabetico"],
    },
}
_TIES = ["{}: {}", "{} = {}", "**{}**: {}", "- {}: {}", "{} (y/n): {}", "| {} | {} |", "{} -> {}"]
_AROUND = ["{}", "Here is my form.\n{}\nWhat do you think?", "Intake\n{}\nThanks!"]

_STATED = {
    "smoker": [
        ("I smoke.", "I don't smoke."),
        ("I'm a smoker.", "I'm a non-smoker."),
        ("I am a smoker.", "I am not a smoker."),
        ("I smoke every day.", "I never smoke."),
        ("I have smoked.", "I have never smoked."),
        ("Yes, I smoke.", "No, I don't smoke."),
        ("Yes, I'm a smoker", "No, I'm not a smoker"),
        ("Do I smoke? Yes.", "Do I smoke? No."),
        ("Are you a smoker? Yes", "Are you a smoker? No"),
        ("Do you smoke?\nYes", "Do you smoke?\nNo"),
        ("Ich rauche.", "Ich rauche nicht."),
        ("Ich bin Raucher.", "Ich bin kein Raucher."),
        ("Je fume.", "Je ne fume pas."),
        ("Je suis fumeur.", "Je ne suis pas fumeur."),
        ("Soy fumador.", "No soy fumador."),
        ("Fumo.", "No fumo."),
        ("Sono fumatore.", "Non sono fumatore."),
        ("Fumo.", "Non fumo."),
        ("[x] smoker", "[ ] smoker"),
        ("☑ smoker", "☐ smoker"),
        ("I'm a heavy smoker", "I'm not a heavy smoker"),
        ("As a smoker I want to know more.", "As a non-smoker I want to know more."),
    ],
    "diabetes": [
        ("I have diabetes.", "I don't have diabetes."),
        ("I am diabetic.", "I am not diabetic."),
        ("I've got diabetes.", "I haven't got diabetes."),
        ("I have type 2 diabetes.", "I do not have type 2 diabetes."),
        ("I suffer from diabetes.", "I don't suffer from diabetes."),
        ("I was diagnosed with diabetes.", "I was never diagnosed with diabetes."),
        ("Yes, I have diabetes.", "No, I do not have diabetes."),
        ("Do you have diabetes? Yes.", "Do you have diabetes? No."),
        ("I'm a diabetic, what can I eat?", "I'm not a diabetic, what can I eat?"),
        ("Ich habe Diabetes.", "Ich habe keinen Diabetes."),
        ("Ich bin Diabetiker.", "Ich bin kein Diabetiker."),
        ("J'ai le diabète.", "Je n'ai pas le diabète."),
        ("Je suis diabétique.", "Je ne suis pas diabétique."),
        ("Tengo diabetes.", "No tengo diabetes."),
        ("Soy diabético.", "No soy diabético."),
        ("Ho il diabete.", "Non ho il diabete."),
        ("Sono diabetico.", "Non sono diabetico."),
    ],
    "female": [
        ("I am female.", "I am male."),
        ("I'm a woman.", "I'm a man."),
        ("As a woman I ask.", "As a man I ask."),
        ("I'm a 54-year-old woman.", "I'm a 54-year-old man."),
        ("Ich bin eine Frau.", "Ich bin ein Mann."),
        ("Ich bin weiblich.", "Ich bin männlich."),
        ("Je suis une femme.", "Je suis un homme."),
        ("Soy mujer.", "Soy hombre."),
        ("Soy una mujer.", "Soy un hombre."),
        ("Sono una donna.", "Sono un uomo."),
    ],
}
# Words that no list of ours has, in prose, notes and forms: what leaves must not depend on them.
_IN_ANY_WORDS: dict[str, list[tuple[str, ...]]] = {
    "smoker": [
        ("I gave up smoking in 2012.", "I took up smoking in 2012."),
        ("My lungs have seen plenty of tobacco.", "My lungs have seen no tobacco."),
        ("Tobacco: denies", "Tobacco: endorses"),
        ("Pt is a smoker, c/o cough", "Pt is a nonsmoker, c/o cough"),
        ("Ich habe mit dem Rauchen aufgehört.", "Ich habe mit dem Rauchen angefangen."),
        ("J'ai arrêté de fumer.", "J'ai recommencé à fumer."),
        ("Soy exfumador.", "Soy fumador."),
        ("Male, 54, smoker, 83 kg", "Male, 54, non-smoker, 83 kg"),
        ("Smoker: yes, twenty a day", "Smoker: no, thank heavens, never"),
        ("smoking_status,visit\ncurrent,first", "smoking_status,visit\nnever,first"),
        ("- name: smoking\n  value: current", "- name: smoking\n  value: never"),
        ("As for cigarettes, a pack by noon.", "As for cigarettes, they disgust me."),
        ("[ ] I do not smoke", "[x] I do not smoke"),
        ("( x ) smoker", "(   ) smoker"),
        ("uses tobacco", "never used tobacco"),
        ("female, smoker", "female, nonsmoker"),
    ],
    "diabetes": [
        ("I can tick the diabetes box.", "I can't tick the diabetes box."),
        ("My HbA1c puts me in the diabetic range.", "My HbA1c puts me outside the diabetic range."),
        ("The doctor confirmed diabetes in May.", "The doctor ruled out diabetes in May."),
        ("The patient is diabetic and asks.", "The patient is not diabetic and asks."),
        ("Pt w/ DM, foot ulcer", "Pt w/o DM, foot ulcer"),
        ("Diabetes: yes (since 2011)", "Diabetes: no (checked 2011)"),
        ("Diabetes ☑ yes ☐ no", "Diabetes ☐ yes ☑ no"),
        ("As somebody with diabetes I ask.", "As somebody without diabetes I ask."),
        ("I'd call myself a proper diabetic.", "I'd hardly call myself a diabetic."),
        ("History of diabetes.", "No history of diabetes."),
        ("Diabetes type 2", "No diabetes"),
        (
            "Has a doctor said you have diabetes? (y/n) y",
            "Has a doctor said you have diabetes? (y/n) n",
        ),
    ],
    "female": [
        ("54F with chest pain.", "54M with chest pain."),
        ("Sex  [x] F  [ ] M", "Sex  [ ] F  [x] M"),
        ("Sign it as Mrs Smith, please.", "Sign it as Mr Smith, please."),
        ("Being a woman, how much iron do I need?", "Being a man, how much iron do I need?"),
    ],
    "prior_stroke": [
        ("I survived a stroke in 2019.", "I escaped a stroke in 2019."),
        ("Hx CVA: Y", "Hx CVA: N"),
        ("History positive for stroke.", "History negative for stroke."),
        ("Stroke ☒ Yes ☐ No", "Stroke ☐ Yes ☒ No"),
        ("Stroke/TIA: 2 points", "Stroke/TIA: 0 points"),
        ("One stroke so far, sadly.", "Zero strokes so far, luckily."),
        ("Have you ever had a stroke?\nOnce, in the spring", "Have you ever had a stroke?\nNot me"),
    ],
    "bp_treated": [
        (
            "I control my blood pressure with tablets.",
            "I control my blood pressure without tablets.",
        ),
        ("My blood pressure is treated.", "My blood pressure is untreated."),
        ("SBP treated? yes", "SBP treated? no"),
        ("on_bp_meds=True", "on_bp_meds=False"),
        ("I swallow a pill for blood pressure.", "I swallow no pill for blood pressure."),
    ],
    "diabetes_family": [
        ("My mum is diabetic.", "My aunt is diabetic.", "None of my relatives are diabetic."),
        ("FH: +DM (father)", "FH: +DM (uncle)", "FH: -DM"),
        (
            "Family history of T2DM: mother",
            "Family history of T2DM: aunt",
            "Family history of T2DM: negative",
        ),
        ("family_diabetes: 1st_degree", "family_diabetes: 2nd_degree", "family_diabetes: no"),
        (
            "Does diabetes run in your family? Yes, my sister",
            "Does diabetes run in your family? Just a cousin",
            "Does diabetes run in your family? Not at all",
        ),
        (
            "Both my parents have diabetes, should I worry?",
            "My great-uncle has diabetes, should I worry?",
            "Nobody of my kin has diabetes, should I worry?",
        ),
    ],
    "drink_days": [
        ("I have a beer on Fridays.", "I have a beer every month.", "I have a beer never."),
        ("Alcohol: Saturdays mostly", "Alcohol: now and then", "Alcohol: none"),
        (
            "How often do you drink? Twice a week",
            "How often do you drink? Monthly",
            "How often do you drink? Never",
        ),
        (
            "As for alcohol, it's most weekends.",
            "As for alcohol, it's birthdays.",
            "As for alcohol, I'm dry.",
        ),
        ("AUDIT item 1 = 3", "AUDIT item 1 = 2", "AUDIT item 1 = 0"),
    ],
    "child_born": [
        (
            "Our daughter was born on Tuesday, 4 March 2025.",
            "Our daughter was born on Sunday, 9 November 2025.",
        ),
        ("I gave birth on 4 March 2025.", "I gave birth on 9 November 2025."),
        ("We had our baby on March 4th, 2025.", "We had our baby on November 9th, 2025."),
        ("Child's date of birth: 04/03/2025", "Child's date of birth: 09/11/2025"),
    ],
    "last_period": [
        ("LMP: early March", "LMP: late June"),
        ("I got my period on Mar 4 '25.", "I got my period on Jun 9 '25."),
        ("due(lmp=date(2026, 1, 4))", "due(lmp=date(2026, 5, 19))"),
    ],
    "born": [("d.o.b. 3-Mar-80", "d.o.b. 24-Nov-91"), ("DOB 3Mar1980", "DOB 24Nov1991")],
}
_SEXES = {
    "en": (
        ["Sex", "Gender", "sex", "Biological sex"],
        [("female", "male"), ("F", "M"), ("Woman", "Man")],
    ),
    "de": (["Geschlecht"], [("weiblich", "männlich"), ("w", "m"), ("Frau", "Mann")]),
    "fr": (["Sexe"], [("femme", "homme"), ("F", "H"), ("féminin", "masculin")]),
    "es": (["Sexo"], [("mujer", "hombre"), ("femenino", "masculino")]),
    "it": (["Sesso"], [("donna", "uomo"), ("femminile", "maschile")]),
}
_SETTINGS = [
    "{}",
    "Hello! {}",
    "{} What should I do?",
    "Quick question. {} Does that change anything?",
    "For context:\n{}",
]
_REGIONS = [
    ("north", "south", "far west"),
    ("North", "South", "Far west"),
    ("NORTH", "SOUTH", "FAR WEST"),
    ('"north"', '"south"', '"far west"'),
    ("*north*", "*south*", "*far west*"),
]
_REGION_TEXTS = [
    *("region: {}", "Region = {}", "My region is {}.", "region -> {}", "| region | {} |"),
    *("**Region**: {}", "Which region? {}", "Region ({{select one}}): {}", "region\t{}"),
]
_REGION_ALONE = [
    "I live in the {}.",
    "I moved to the {} of the country.",
    "I grew up in the {}, actually.",
]
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
    "dicembre",
}
_DAY_TEXTS = {
    "born": {
        "en": [
            *("I was born on {}.", "I was born {}", "Date of birth: {}", "DOB {}", "dob = {}"),
            *("My birthday is {}.", "birth date: {}", "My date of birth is {}, by the way."),
        ],
        "de": ["Ich bin am {} geboren.", "Geburtsdatum: {}", "Ich wurde am {} geboren."],
        "fr": ["Je suis né le {}.", "Je suis née le {}.", "Date de naissance : {}"],
        "es": ["Nací el {}.", "Fecha de nacimiento: {}"],
        "it": ["Sono nato il {}.", "Data di nascita: {}"],
    },
    "last_period": {
        "en": [
            *("last period {}", "My last period was on {}.", "LMP: {}", "Last period: {}"),
            *("My last menstrual period started {}.", "first day of the last period = {}"),
            "On {} my last period started.",
        ],
        "de": ["Meine letzte Periode war am {}.", "Letzte Regel: {}"],
        "fr": ["Mes dernières règles : {}", "Dernières règles le {}"],
        "es": ["Mi última regla fue el {}.", "Última regla: {}"],
        "it": ["La mia ultima mestruazione è stata il {}.", "Ultimo ciclo: {}"],
    },
}


def _dates(day: date, language: str) -> list[str]:
    month = _MONTHS[language].split()[day.month - 1]
    of = "de " if language == "es" else ""
    dot = "." if language == "de" else ""
    written = [
        day.isoformat(),
        f"{day:%d.%m.%Y}",
        f"{day:%d/%m/%Y}",
        f"{day:%Y/%m/%d}",
        f"{day.day}{dot} {of}{month} {of}{day.year}",
        f"{of}{month} {of}{day.year}",
    ]
    if language == "en":
        suffix = {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10 if day.day != 11 else 0, "th")
        written += [
            f"{month} {day.day}, {day.year}",
            f"{month} {day.day}{suffix}, {day.year}",
            f"the {day.day}{suffix} of {month} {day.year}",
            f"{day.day}-{month[:3]}-{day.year}",
            f"{day:%m/%d/%Y}",
        ]
    return written


def _labelled() -> Iterator[TypedSpelling]:
    for root, by_language in _LABELS.items():
        for language, labels in by_language.items():
            pairs = _YES_NO[language] if language == "en" else [*_YES_NO[language], ("1", "0")]
            for number, (label, pair, tie) in enumerate(product(labels, pairs, _TIES)):
                around = _AROUND[number % len(_AROUND)]
                said = tuple(around.format(tie.format(label, word)) for word in pair)
                yield TypedSpelling(root=root, writings=said)
    for language, (labels, pairs) in _SEXES.items():
        for label, pair, tie in product(labels, pairs, _TIES):
            if "(y/n)" not in tie:
                said = tuple(tie.format(label, word) for word in pair)
                yield TypedSpelling(root="female", writings=said)
        del language


def _statements() -> Iterator[TypedSpelling]:
    for root, pairs in _STATED.items():
        for pair, setting in product(pairs, _SETTINGS):
            yield TypedSpelling(root=root, writings=tuple(setting.format(each) for each in pair))
    for root, many in _IN_ANY_WORDS.items():
        yield from (TypedSpelling(root=root, writings=each) for each in many)


def _categories() -> Iterator[TypedSpelling]:
    for text, words, setting in product(_REGION_TEXTS, _REGIONS, _SETTINGS[::2]):
        said = tuple(setting.format(text.format(word)) for word in words)
        yield TypedSpelling(root="region", writings=said)
    for text, words, setting in product(_REGION_ALONE, _REGIONS[:2], _SETTINGS):
        said = tuple(setting.format(text.format(word)) for word in words)
        yield TypedSpelling(root="region", writings=said)


def _dated() -> Iterator[TypedSpelling]:
    for root, by_language in _DAY_TEXTS.items():
        for language, texts in by_language.items():
            forms = list(zip(*(_dates(day, language) for day in DAYS[root]), strict=True))
            for number, (text, form) in enumerate(product(texts, forms)):
                setting = _SETTINGS[number % len(_SETTINGS)]
                said = tuple(setting.format(text.format(each)) for each in form)
                yield TypedSpelling(root=root, writings=said)


def _documents() -> Iterator[TypedSpelling]:
    shapes = [
        lambda key, value: {key: value},
        lambda key, value: {"patient": {key: value}, "note": "see above"},
        lambda key, value: {"items": [{"name": key, "value": value}]},
        lambda key, value: {"columns": ["visit", key], "rows": [["first", value]]},
        lambda key, value: [{"question": key, "answer": value}],
    ]
    keys = {
        "smoker": ["smoker", "is_smoker", "isSmoker", "smoking", "smoking_status"],
        "diabetes": ["diabetes", "has_diabetes", "hasDiabetes", "diabetic"],
        "region": ["region", "Region"],
        "born": ["born", "date_of_birth", "dateOfBirth", "dob", "birth_date"],
        "last_period": ["last_period", "lastPeriod", "lmp", "LMP"],
        "female": ["sex", "gender"],
        "prior_stroke": ["prior_stroke", "stroke"],
        "bp_treated": ["bp_treated", "on_bp_meds"],
        "diabetes_family": ["diabetes_family", "family_history_of_diabetes"],
        "child_born": ["child_born", "birth_of_the_child"],
    }
    values: dict[str, list[tuple[object, ...]]] = {
        "smoker": [(True, False), ("yes", "no"), ("Y", "N"), ("true", "false"), (1, 0)],
        "diabetes": [(True, False), ("yes", "no"), ("positive", "negative"), (1, 0)],
        "region": [("north", "south", "far west"), ("NORTH", "SOUTH", "FAR WEST")],
        "born": [tuple(day.isoformat() for day in DAYS["born"])],
        "last_period": [
            tuple(day.isoformat() for day in DAYS["last_period"]),
            tuple(f"{day:%d.%m.%Y}" for day in DAYS["last_period"]),
        ],
        "female": [("female", "male"), ("F", "M")],
        "prior_stroke": [(True, False), ("yes", "no")],
        "bp_treated": [(True, False), ("yes", "no")],
        "diabetes_family": [ANSWERS["diabetes_family"]],
        "child_born": [ANSWERS["child_born"]],
    }
    nested = [
        ("prior_stroke", {"history": {"stroke": True}}, {"history": {"stroke": False}}),
        ("diabetes_family", {"family": {"diabetes": "close"}}, {"family": {"diabetes": "none"}}),
        ("child_born", *({"child": {"born": day}} for day in ANSWERS["child_born"])),
    ]
    for root, *documents in nested:
        yield TypedSpelling(root=str(root), writings=tuple(map(json.dumps, documents)), json=True)
    for root, names in keys.items():
        for key, options, shape in product(names, values[root], shapes):
            said = tuple(json.dumps(shape(key, value)) for value in options)
            yield TypedSpelling(root=root, writings=said, json=True)


def typed_spellings() -> list[TypedSpelling]:
    """All of them, in a fixed order."""
    return [*_labelled(), *_statements(), *_categories(), *_dated(), *_documents()]
