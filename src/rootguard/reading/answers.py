"""Answers that are no numbers: yes or no, one of a few words, a day.

Found behind a name ("Smoker: no", "region = South", "born on 3 March 1980"), in a table's cell, or
said of oneself ("I have never smoked", "I'm a woman"). What is read here is only where an answer
stands and how one is written there. The place and the form do not depend on which answer it is: a
statement is taken with its "not", "never" and "yes", so that either answer leaves the same words,
and a day is written back in a form that all days have.

A statement leaves as a whole stretch of its sentence (`stretches`), because what says yes or no may
be any word of it. It does so by default: `speaking` has to say that it is somebody else's or that
its topic is only spoken of, or else it goes, so that a wording that no rule has seen cannot tell.
Not read: what is told by something else ("my wife and I"), and facts under names that no list has.
The lists are in `answers.toml`.
"""

import functools
import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from rootguard.language.fold import Spans
from rootguard.language.lists import either, whole
from rootguard.reading.days import (
    DAY_HOLE,
    Writer,
    age_ordinals,
    day_in,
    days_in,
    fold_word,
    part_of_day,
    past_weekday,
)
from rootguard.reading.facts import (
    LANGUAGES,
    AnswerWords,
    FactName,
    answer_lists,
    hints,
    pair_of,
    pairs_of,
)
from rootguard.reading.page import Page
from rootguard.reading.speaking import Speaking
from rootguard.reading.stretches import Stretches, listed, small_words, word_list, words_in
from rootguard.reading.subjects import Clause, clause_at, clauses, kin, reports
from rootguard.values import RootName, RootType

_start = operator.attrgetter("start")  # of a name, a number or an answer: they are in order of it

_HALF: Final = 0.5  # a flag is 0 or 1; this only says which, whatever rounding did
_WORDS_BEFORE: Final = 9  # of a statement: "no, I have never ever been a heavy"
_REACH: Final = 90  # characters between the name of a day and the day
_BACK: Final = 60  # the same where the day stands first
_UNKNOWN: Final = 80  # characters of an answer that is none of those known
_LEAST_ALONE: Final = 4  # letters of a category's answer that is told without its name

_OVERLAP: Final = 3  # characters before a name in which one of two words may begin that holds it

_OPEN: Final = r"[\"'*_`“”«»\[(]{0,3}"
_CLOSE: Final = r"[\"'*_`“”«»\])]{0,3}"
_GAP: Final = re.compile(  # "smoker**: ", "smoker (y/n) = ", "Do you smoke?\nA: "
    rf"(?: of [a-z]{{2,12}})?{_CLOSE}[ \t]{{0,3}}(?:\([^()\n]{{1,24}}\)[ \t]?)?"
    r"(?:status|flag|code|name|frequency|level|score|points?|pts)?[ \t]{0,3}"
    r"(?P<mark>=>|->|:=|==|[:=|?>→–—-]|\t)"
    r"[ \t]{0,8}(?:\([^()\n]{1,16}/[^()\n]{1,16}\)[ \t]*)?"
    r"(?:\n[ \t]*)?(?:[\"']?,?\s?[\"']?(?:a|answer|me|patient|user|antwort|reponse|r)"
    r"[\"']?\s?[:.][ \t]*)?"
    rf"{_OPEN}"
)
_VALUE_LINE: Final = re.compile(  # "name: smoking\n  value: "
    r"[\"']?,?[ \t]*\n?[ \t]*[\"']?(?:value|answer|status|result|response|reply|present"
    r"|active|selected|checked|confirmed)[\"']?[ \t]*"
    rf"(?P<mark>[:=])[ \t]*{_OPEN}"
)
_FLAGGED: Final = re.compile(r"(?<![^\s])--?\Z")  # of a command: "--smoker yes"
_SPACE: Final = re.compile(r"[ =]")
_SIGNED: Final = re.compile(r"(?=[+-](?:[\s,.;)]|\Z))|[ ](?=[+-](?:[,.;)\n]|\Z))")  # "DM+, HTN-"
_IS: Final = "(?:is|was|are|equals|ist|est|es|e|sind|set to)"
_LOOSE: Final = re.compile(
    rf"(?:[ _](?:status|flag))?(?:(?P<verb>[ ]{_IS})"
    rf"(?: currently| now| set to)?[ ]|[ ,]{{1,2}}|[ ]?\(){_OPEN}"
)
_MEASURED: Final = re.compile(  # its value is a number, read as one: "My sex is 1"
    rf"(?: or [a-z]+)?[ ]{_IS}[ ]\d"
)
_MEASURED_NEAR: Final = 24  # characters: " en ayunas en sangre is "
_CELL_END: Final = re.compile(r"[\"'*_`]{0,3}\s*(?:[.,;!?)|}\]\n<]|\Z)")
_ENDS: Final = re.compile(r"\s*(?:[.,;!?)|\n]|\Z)")
_BOXES: Final = re.compile(
    r"\[(?P<square>[ \t]{0,3}[x✓✔•●*]?[ \t]{0,3})\](?=[ \t]*[^\W_])(?<!\[\])"
    r"|(?<![^\s])\((?P<round>[ \t]{1,3}|[ \t]{0,3}[x✓✔•●*o][ \t]{0,3})\)(?=[ \t]+[^\W_])"
    r"|(?P<sign>[☐☑☒✅❌✓✗✔✘○◯●◉])(?=[ \t]*[^\W_])"
)
# How a sign is written back, for yes and for no: a cross in a box is a tick.
_SIGNS: Final = {
    **dict.fromkeys("☐☑☒", ("☑", "☐")),
    **dict.fromkeys("✅❌", ("✅", "❌")),
    **dict.fromkeys("✓✗", ("✓", "✗")),
    **dict.fromkeys("✔✘", ("✔", "✘")),
    **dict.fromkeys("○●", ("●", "○")),
    **dict.fromkeys("◯◉", ("◉", "◯")),
}
_CHOICE_MARK: Final = r"[\[(]x[\])]|[\[\](){}<>*_~→←•●○◉◯☐☑☒✅❌✓✔✗✘]|(?<= )x(?= )"
_INSERT: Final = re.compile(
    r"insert into [\w.\"`]{1,60}\s?\((?P<columns>[^()]{1,400})\)\s{0,4}values(?=\s{0,4}\()"
)
_ROW: Final = re.compile(r"\s{0,4},?\s{0,4}\((?P<row>(?:[^()]|\([^()]{0,40}\)){1,400})\)")
_SQL_VALUE: Final = re.compile(r"(?<![^\s,(])(?:'[^'\n]*'|[^\s,'()]+(?:\([^()]*\))?)")
_ONLY: Final = re.compile(r",? (?:only|alone|that's it|that's all|nothing else|seulement|nur)\Z")
_ANY_BOX: Final = re.compile(
    r"\[(?P<square>[ x✓✔])\]|\((?P<round>[ x✓✔•])\)|(?P<sign>[☐☑☒✅❌○◯●◉])"
)
_A_BOX: Final = r"(?:\[[ x✓✔]\]|\([ x✓✔•]\)|[☐☑☒✅❌○◯●◉])"
_BOXED_LINE: Final = re.compile(  # begins with a word and ends with a box, and has two at least
    r"(?:(?<=\n)|\A)[ \t]*[^\W\d_][^\n:\[(☐☑☒✅❌○◯●◉]{1,60}"
    rf"{_A_BOX}[^\n]{{1,200}}{_A_BOX}[ \t]*(?=\n|\Z)"
)
_LIST_MARK: Final = re.compile(r"\s*(?:[,;&+]|(?<![^\W_])(?:and|und|et|y|e)(?![^\W_]))\s*")
_MEDICAL: Final = re.compile(  # a list of nothing else
    r"diagnos|comorbid|risk.factors|(?<![a-z])hx|cardi|neuro|medical|pmhx?|chronic|long.term|vorerkrank|antecedent|med(?:s|ication)"
    r"|medicine|drugs|tablets|pills|rx|dhx|problem list|health|illness|medikament|medicament"
)
_CHOICE_GAP: Final = re.compile(r"[ \t.…:_?=|>-]{0,40}(?:\n[ \t]{0,8})?")
_BOX_FIRST: Final = re.compile(r"\[[ x]?\]|\([ x•]?\)|[☐☑☒○●◉◯]")
_OTHERS: Final = re.compile(  # somebody else's family or child
    r"(?<![^\W_])(?:his|her|their|seine?[nrms]?|ihre?[nrms]?|son|sa|ses|leur|suo|sua|seu)"
    r" (?:[a-z]+ )?(?:family|mother|father|mom|mum|dad|brother|sister|parents?|child|son|daughter"
    r"|baby|kids?)(?![^\W_])"
)
_WRITTEN: Final = re.compile(r"\[(?P<title>[^\[\]\n:]{1,60}): [^\[\]\n:]{1,60}\]")
_NO_ANSWER: Final = re.compile(r"[\[{(]|<(?![=\d ])")  # a list, a tag, a place to fill in
_TOPIC_END: Final = re.compile(r"[,:]|(?<= )[-–—]+(?= )|—")
_FAMILY_HEAD: Final = whole(
    r"f(?:am)?\.?hx?|family[ _](?:history|hx)|familienanamnese|antecedents familiaux"
    r"|antecedentes familiares|familiarita|anamnesi familiare|historico familiar"
)
_CODE: Final = re.compile(r"\d(?=\s*(?:[,;.)\n}\]]|\Z))(?!\.\d)")
_LABEL_MARK: Final = re.compile(r"[\"'*_]{0,2} ?[:=]")
_HEAD_MARK: Final = re.compile(r"[ \t]{0,2}[:=][ \t]{0,3}[\"']?[^\W_]")
_SCORED: Final = whole(r"points?|pts|score")
_POINTED: Final = re.compile(r"[ \t]*\d{1,2} ?(?:points?|pts?)(?![^\W_])")
_POINTS: Final = re.compile(r"(?:pts|points?|score)\W{0,4}\Z")
_BIRTH_LABEL: Final = re.compile(
    r"(?:(?<=\n)|\A|(?<=[\"'{(,-]))[ \t]*(?:born|dob|date of birth|birth ?date|d\.o\.b|geboren"
    r"|geburtsdatum|date de naissance|fecha de nacimiento|data di nascita|data de nascimento)"
    r"(?![a-z0-9])(?=[ \t\"'.]{0,3}[:= ])"
    r"|(?<=[ ,(])\*(?= ?\d)|(?<![^\W_])birth(?= ?[(:] ?\w)"
    r"|(?<![^\W_])(?:was|were|wurde|est|ist) (?:born|geboren|nee?)(?![^\W_])"
    r"|(?<= )b\.(?= \d)"
)
_NEAR_NUMBER: Final = 16  # characters between the name of a quantity and its number
_BRACKET: Final = re.compile(r"[ ]\([^()\n]{1,60}\)")
_COMMENTS: Final = 2  # pieces in a row behind an answer of which the last may comment on it
_ITEM: Final = 5  # words of an item in a list that describes somebody
_LABEL: Final = 3  # words of a label before the one that names it: "relatives with diabetes - "
_HEAD: Final = 400  # characters of a line that are looked at for what stands at its head
_ELLIPTIC: Final = 6  # words of a question that a form asks: "Stroke or TIA in the past?"
_REPLY_MARKS: Final = re.compile(
    r"[ \t]*(?:\([^()\n]{1,16}/[^()\n]{1,16}\)[ \t]*)?(?:\n[ \t]*)?(?:[>*•–—-][ \t]*)?"
    r"(?:(?:a|answer|me|patient|user|antwort|reponse|r|respuesta|risposta)[ \t]?[:.][ \t]*)?"
    r"[\"'*_`“”«»]{0,3}"
)
_PIECE: Final = re.compile(  # behind an answer: ", quit in 2010", " (20 a day)", " - never"
    r"(?:[ ]?[,;][ ]?|[ ][-–—][ ]?|[ ])(?P<said>[^\n,;:=|\"'(){}\[\].!?–—]+)"
    r"(?:\)|(?=[.,;!?)\n–—-]|\Z))"
)
_AMOUNT: Final = re.compile(r"[01] ?/? ?[a-z]")  # "smoking: 0/day" is no more a no than 20 is
_BOX: Final = re.compile(r"\[(?P<mark>[ x✓✔])\]")  # behind a label: "smoker: [x]"
_DATA_CENTRE: Final = re.compile(  # what computing clouds call their regions: nobody lives there
    r"(?:[a-z]{2}(?:-gov|-iso[a-z]?)?|europe|asia|australia|africa|(?:north|south)america)"
    r"-(?:north|south|east|west|central|northeast|northwest|southeast|southwest)-?\d{1,2}"
    r"(?:-?[a-z])?"
    r"|(?:north|south|east|west|central){1,2}(?:us|europe|asia|india)\d?"
)
_DIRECTED: Final = re.compile(r"(?<![^\W_])(?:up|down|out|back|over)[ ]\Z")  # "up north"
_TYPE_WORDS: Final = re.compile(
    r"(?:bool(?:ean)?|str(?:ing)?|int(?:eger)?|number|optional|required|enum|date|category"
    r"|yes or no|yes/no|true or false|null|nan|self)\b"
)
_LAST_WORD: Final = re.compile(r"(?<![^\W_])([^\W_]+(?:'[^\W_]+)?)[ ,!-]{1,2}\Z")
_AGED: Final = re.compile(
    r"(?<![^\W_])\d{1,3}[ -]?(?:y/?o|yo|years?|yrs?|jahre|ans|anos|anni|[mf])\b"
)
_HOW_LONG: Final = re.compile(
    r"(?<![^\W_])(?:for|in|after|within|last|past|over|about|some|seit|depuis|desde|da) \Z"
)
_SEX: Final = whole(
    r"female|male|woman|man|lady|gentleman|weiblich|mannlich|frau|mann|femme|homme"
    r"|mujer|hombre|donna|uomo|mulher|homem|(?<=\d )[fm]|(?<=yo )[fm]|(?<=y/o )[fm]"
)
_MY_LIKE: Final = re.compile(
    r" (?:of )?(?:my|meinem|mon|mi) (?:own )?(?:age|alter|height|build|size|edad)"
)
_SOMEBODY: Final = re.compile(  # "as somebody living with diabetes"
    r"(?<![^\W_])as (?:somebody|someone|a person|a patient|one)(?![^\W_])"
)
_IN_A_CASE: Final = re.compile(
    r" (?:in|of|from|described in) (?:the|this|that|an?|our|my)(?: [a-z]+)?"
    rf" (?:{reports()}|question|quiz)"
)
_COPULA: Final = re.compile(
    r"\b(?:identify as|i am|i'm|im|as (?:an?|the(?: [a-z]+)?)|being an?|born(?: an?)?"
    r"|ich bin|je suis|soy|sono|sou)\b[^.;\n]{0,30}\Z"
)
_SELF: Final = word_list("titles") | word_list("pronouns")
_SPOUSE_OF: Final = re.compile(r"(?<![^\W_])(?:his|her|their)[ ]\Z")
_ONESELF: Final = re.compile(  # "I'm a middle-aged", not "I'm looking for a"
    r"(?<![^\W_])(?:i am|i['’]m|im|ich bin|je suis|soy|sono|sou)"
    r"(?: (?!(?:to|for|with|by|about|of|from|than|like|at|on|in|if|that|who|my|your|our|married"
    r"|engaged|related|mit|von|pour|avec|con|para|com|[a-z]+ing)[ ])"
    r"[^\W\d_]+(?:-[^\W_]+)*(?:['’]s)?){0,4} \Z"
)
_IN_ROLE: Final = re.compile(r"(?<![^\W_])as (?:an?|the|one)(?: [^\W\d_]+){0,2} \Z")
_CALLED: Final = re.compile(  # before a title of the owner's own
    r"(?<![^\W_])(?:i am|i'm|im|as|from|signed|sign|regards,?|sincerely,?|faithfully,?|call me"
    r"|name is|name:|title:?|salutation:?|yours,?|ich bin|je suis|soy|sono)\s{1,2}\Z"
)
_HERE: Final = re.compile(r"(?: [^\W\d_]+)? here(?![^\W_])")
_THAT_IS_ME: Final = re.compile(
    r"\.?(?: [^\W\d_]+){1,3},? (?:that['’]s|that is|which is|is|=) (?:me|my name)(?![^\W_])"
)
_BIO: Final = re.compile(  # the owner as others speak of them
    r"(?<![^\W_])(?:third person|3rd person)(?![^\W_])[^\n]{0,80}"
    r"(?<![^\W_])(?:me|my|myself)(?![^\W_])"
    r"|(?<![^\W_])(?:bio|profile|intro|introduction|reference)(?: [a-z]+){0,3}"
    r" (?:of|about|for) me(?![^\W_])"
)
_HE_OR_SHE: Final = whole(r"(?P<he>s?he)|(?P<him>him)|(?P<her>her|his)|(?P<self>h(?:im|er)self)")
_THEY: Final = {"he": "they", "him": "them", "her": "their", "self": "themself"}
_AGE_AND_SEX: Final = re.compile(  # 54F, 54 yo m; not 870 m
    r"(?<![\w.,+$€£/-])(?:1[01]\d|\d{1,2})( )?(y/?o ?|yrs? ?)?([mf])(?![^\W_])"
)
_SEX_AND_AGE: Final = re.compile(  # F45, at the head of what describes somebody
    r"(?:\A|(?<=\n)|(?<=[(:] )|(?<=\()|(?<=[.!?] ))([mf])[ -]?\d{2}(?=[,;)]| [a-z]{3,})"
)
_SEX_ITEM: Final = re.compile(
    r"(?:(?<=, )|(?<=\d/)|(?<=me: )|\A|(?<=\n))([mf])(?=[,/;]|\s*(?:\n|\Z))"
)
_ALONE: Final = re.compile(r"[,;]|\s*(?:\n|\Z)")
_FIGURE: Final = re.compile(r"[-+]?\d[\d.,]*\Z")
_TAIL_SPAN: Final = re.compile(
    r"[ ](?:since|for|seit|depuis|desde|da|for the last|in)[ ][^\n.,;!?]{1,24}"
    r"|[ ](?:about |around |roughly )?(?:\d{1,3}|an?|half an?|one|two|ten|twenty)"
    r" (?:packs?|cigarettes?|cigs?)(?: an?| per| each)?(?: day| week)?"
)
_ECHO: Final = re.compile(
    r"(?<![^\W_])(?P<said>(?:(?:and|but|while|und|aber|et|mais|y|pero|e|ma|mas) )?"
    r"(?:(?:so|neither|nor|as) (?:am|do|have|did|was|had) i"
    r"|(?:i(?:['’](?:m|ve))?|ich|je|yo|io|eu)(?: (?:do|don['’]?t|am|have|haven['’]?t|did"
    r"|didn['’]?t|never|was|wasn['’]?t|not|am not|do not|have not|certainly|definitely|sure|auch"
    r"|nicht|bin|habe|aussi|non|pas|tambien|tampoco|no|anche|neanche)){1,3}"
    r"(?: (?:as well|too|also|either|neither|the (?:only )?exception|one of them|plus|myself))*"
    r"|(?:me|moi|ich) (?:too|neither|either|also|aussi|non plus|auch|nicht)))"
    r"(?=\s*(?:[.,;!)\n]|\Z))"
)
_REPORTED: Final = re.compile(
    r"(?<![^\W_])(?:(?:answer|reply|result|verdict|response)(?: to (?:that|it|this))?"
    r" (?:is|was|came back(?: as)?)"
    r"|i(?:['’]ve)? (?:(?:have|[a-z]+ly|then|just) )?(?:said|ticked|answered|put|wrote"
    r"|chose|checked|circled|marked|entered|typed|selected|replied|clicked))"
    r"(?: a| the| an)?(?: box)? "
    r"[\"'“‘]?(?P<said>(?:a |an )?(?:emphatic |clear |firm )?(?:yes|no|true|false|y|n"
    r"|yep|nope|positive|negative|never|none))(?![^\W_])"
)
_GOES_ON: Final = re.compile(
    r"\s*(?:and |but |so |well,? )?(?:mine|my answer|the answer|the result|in my case,? it"
    r"|for me,? it|it|that|this|in my case|for me)"
    r"(?:['’]s| is| was| says| said| reads| came back| shows| would be|,|:) "
)
_LIKE_ME: Final = re.compile(
    r"(?<![^\W_])(?P<who>(?:an?|the|some(?:one|body)|people|persons?|those|folks|patients?|ein|eine|einen"
    r"|une?|una?|um|uma) [^,.;:!?\n]{2,50}?),? (?:like|such as|wie|comme|como|come) "
    r"(?:me|myself|us|ich|mich|mir|moi|nous|yo|mi|io|eu)(?![^\W_])"
)
_SHORT_REPLY: Final = re.compile(  # up to eight words, then the end of the sentence; no figures
    r"[^\W\d_](?:[^\W\d_]|['’-])*(?:[ ,]{1,2}[^\W\d_](?:[^\W\d_]|['’-])*){0,7}(?=\s*(?:[.!;\n]|\Z))"
)
_QUESTION: Final = re.compile(r"[^.!?\n]{0,80}\?")

_SENTENCE: Final = re.compile(r"[^\W\d][.!?]\s+(?=[A-Z])")
_LAST_ONE: Final = re.compile(
    r"\s*(?:the |my )?(?:last|latest|first|most recent|born|due)(?![^\W_])"
)
_SIX_FIGURES: Final = re.compile(r"[ \t:=]{1,4}(\d{6})(?!\d)")  # LMP 040126
_BIRTHDAY: Final = re.compile(r"birthday|geburtstag|anniversaire|cumpleanos|compleanno|aniversario")
_GROWN: Final = re.compile(
    r"(?:turn(?:ed|s|ing)?|will be)"
    r" (?P<age>one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2})(?![^\W_])"
)
_CLIPPED: Final = re.compile(r"\d{1,2}\.\s*\Z")  # a sentence does not end behind "am 4."
_CONTRACTED: Final = re.compile(r"i(?='ve\b)")
ANSWER_HOLE: Final = "[answer]"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Answer:
    """Where an answer stands in a folded text, whose it is, and how one is written there.

    `said` is what it says in the root's own form, None if that is not to be learnt from.
    `write` writes a released one, None where none can stand. `computed` is a template whose target
    is a day, in place of a root. Private.
    """

    start: int
    end: int
    root: RootName
    said: str | None
    write: Writer | None
    hole: str = ANSWER_HOLE
    computed: str = ""


# Where the words of a list stand in a statement.
_WHOLE: Final = r"(?<![^\W_]){}(?![^\W_])"
_TOPIC_FIRST: Final = r"\s*(?:and |so |but |oh |now )?{}(?![^\W_])"
_TOPIC_WITHIN: Final = r"(?<=[^\W_] ){} (?:the |my |a )?\Z"  # "a pack a day as for tobacco"
_TAIL: Final = r"[ -]{}(?![^\W_])"
_SERVED: Final = r"\s*(?:(?:the|this|der|die|le|la|el|il|o|a) )?{}\.?(?=[ ,])"  # "The client has"
_LIST_HEAD: Final = r"(?<![^\W_]){}[ ]{0,2}:[ \t]{0,3}(?=[^\s\[])"
_LIST_HEAD_BEFORE: Final = r"{}\W{0,3}\Z"


@functools.cache
def _strong_words() -> frozenset[str]:
    """Words of the owner that mean nothing else in another language."""
    return word_list("own") - {"me", "ma", "mi", "am", "im", "ho", "io", "mon", "mia", "mio"}


class AnswerReader:
    """One look for answers at one page."""

    def __init__(
        self, page: Page, words: AnswerWords, *, days: Sequence[tuple[int, int]], told: bool
    ) -> None:
        self._page = page
        self._text = page.plain
        self._words = words
        self._days = days_in(page.plain, days) if days or words.dated else []
        self._told = told
        self._clauses: tuple[Clause, ...] = ()
        self._stretches = Stretches("", ())
        self._speaking = Speaking("", self._stretches)
        self._names: list[FactName] = []
        self._found: list[Answer] = []
        self._labels = Spans()
        self._chosen = Spans()
        self._lines: list[tuple[int, int]] = []
        self._columned = Spans()
        self._learnt: dict[int, str | None] = {}
        self._noted = False

    def _is_measured(self, name: FactName, measured: Spans) -> bool:
        """Whether it is a quantity's name with a number behind it, a few words off."""
        near = self._numbered(name.end, name.end + _MEASURED_NEAR + 1)
        return near and measured.meet(name.start, name.end)

    def read(self, asked: Sequence[RootName] = ()) -> list[Answer]:
        """The answers, in order and without overlaps. `asked` was asked before this text."""
        kinds = self._words.kinds
        # "My insulin level is 11.4" measures it; "I am on insulin" tells of a disease.
        measured = Spans(
            (name.start, name.end)
            for name in self._page.names
            if any(root is not None and root not in kinds for root in name.roots)
        )
        names = [
            name
            for name in self._words.names(self._text)
            if name.weight != "loose" or not self._is_measured(name, measured)
        ]
        known = Spans((name.start, name.end) for name in names)
        names += (
            FactName(name.start, name.end, root, "en", own=False)
            for name in self._page.names
            for root in name.roots[:1]
            if root in kinds and not known.meet(name.start, name.end)
        )
        self._names = sorted(names, key=_start)
        words = self._words
        composed = any(each.of.search(self._text) for each in words.composed)
        if not (names or composed or asked or words.sexed or words.conditions or self._alone()):
            return []
        self._clauses = clauses(self._page)
        self._stretches = Stretches(self._text, [clause.end for clause in self._clauses])
        self._speaking = Speaking(self._text, self._stretches)
        self._noted = self._told and listed(_WHOLE, "notes").search(self._text) is not None
        self._compose()
        self._written()
        self._replies(asked)
        self._inserted()
        self._choices()
        self._boxes()
        if self._told:
            self._whole_lists()
        heads = Spans((each.header.start, each.header.end) for each in self._page.columns)
        done = (self._labels, self._chosen, self._columned)
        for name in self._names:
            if any(each.meet(name.start, name.end) for each in done):
                continue
            if self._whose(name) in ("other", "nobody"):
                continue
            kind = kinds.get(name.root)
            if kind is None or kind.name == "date":
                if name.weight != "label" or _GAP.match(self._text, name.end):
                    self._dated(name)
            elif self._labelled(name, kind) or name.weight == "label":
                continue
            elif not self._topic(name, kind) and not heads.meet(name.start, name.end):
                self._stated(name, kind)
                self._inflected(name, kind)
        self._columns()
        if self._told:
            self._echoed()
            self._reported()
            self._going_on()
            self._like_me()
            if self._words.sexed is not None:
                self._sexed(self._words.sexed)
            self._told_alone()
        return self._found

    def asks(self) -> tuple[RootName, ...]:
        """The roots that the text asks the other side for, in order."""
        answered = Spans((each.start, each.end) for each in self._found)
        return tuple(
            dict.fromkeys(
                name.root
                for name in self._names
                if name.root in self._words.kinds
                and not answered.meet(name.start, name.end)
                and self._subject(name.start) not in ("other", "nobody")
                and _QUESTION.match(self._text, name.end)
            )
        )

    def _written(self) -> None:
        """What was written here before, in a text that is read again: it stays as it is."""
        titles = {fold_word(title): root for root, title in self._words.titles.items()}
        spans: list[tuple[int, int]] = []
        for mark in _WRITTEN.finditer(self._text):
            root = titles.get(mark["title"])
            if root is not None:
                spans.append(mark.span())
                self._keep(
                    Answer(
                        start=mark.start(),
                        end=mark.end(),
                        root=root,
                        said=None,
                        write=_titled(self._words.titles[root]),
                    )
                )
        if spans:
            written = Spans(spans)
            self._names = [n for n in self._names if not written.meet(n.start, n.end)]

    def _compose(self) -> None:
        """Names made of two words of a sentence, in place of what one of them would name."""
        found: list[FactName] = []
        quantities = Spans(self._quantities)
        named: set[tuple[RootName, int]] = set()
        for each in self._words.composed:
            here: set[tuple[RootName, int]] = set()
            for word in each.of.finditer(self._text):
                first, last = self._stretches.sentence(word.start())
                beside = each.beside.search(self._text, first, last)
                if beside is None and self._stretches.mark(first) == "?":  # "Wine? Never."
                    _, reply = self._stretches.sentence(min(last + 2, len(self._text)))
                    beside = each.beside.search(self._text, first, reply) and word
                mine = self._stretches.opening(first, last) in word_list("own")
                if beside is None or (not mine and _OTHERS.search(self._text, first, last)):
                    continue
                if each.of is each.beside and any(
                    n.root == each.root for n in self._among(first, last)
                ):
                    continue  # read by its name
                if (each.root, first) in named:
                    continue
                if each.without is None or not each.without.search(self._text, first, last):
                    # Beside the name of a quantity, whose number is read by itself.
                    span = beside.span() if quantities.meet(*word.span()) else word.span()
                    reach = max(word.end(), beside.end())
                    found.append(
                        FactName(
                            *(*span, each.root, "en"),
                            own=False,
                            composed=True,
                            reach=reach,
                            family=not each.kin,
                        )
                    )
                    here.add((each.root, first))
            named |= here  # one pair of words names it
        found += self._births()
        found += self._families({first for _, first in named})
        if found:
            taken = Spans((name.start, name.end) for name in found)
            places = {(name.root, self._stretches.sentence(name.start)) for name in found}
            rest = (
                name
                for name in self._names
                if not taken.meet(name.start, name.end)
                or (name.root, self._stretches.sentence(name.start)) in places
            )
            self._names = sorted([*rest, *found], key=lambda name: (name.start, -name.end))

    def _families(self, named: set[int]) -> Iterator[FactName]:
        """What stands behind "FH:", whether or not it names the disease: "nil" tells it as well."""
        root = self._words.inherited
        for head in _FAMILY_HEAD.finditer(self._text) if root is not None else ():
            first, last = self._stretches.sentence(head.start())
            behind = _HEAD_MARK.match(self._text, head.end(), last)
            if root is not None and behind is not None and first not in named:
                yield FactName(behind.end() - 1, behind.end(), root, "en", own=False, composed=True)

    def _births(self) -> Iterator[FactName]:
        """Labels of a birthday in a text about a child, where no own one is declared."""
        words = self._words
        for each in words.composed:
            if words.kinds[each.root].name != "date" or words.named("dob"):
                continue
            about = words.setting is not None and words.setting.search(self._text)
            if about or each.beside.search(self._text):
                for label in _BIRTH_LABEL.finditer(self._text):
                    yield FactName(*label.span(), each.root, "en", own=False, composed=True)

    def _whose(self, name: FactName) -> str:
        """Whose the clause of a name is; of a composed name it is the owner's."""
        before = _LAST_WORD.search(self._text, max(0, name.start - 12), name.start)
        mine = before is not None and before[1] in word_list("my")  # "since my stroke"
        if name.composed or mine or name.weight == "label":
            return "owner"
        opener = self._stretches.opening(*self._stretches.sentence(name.start))
        if name.weight == "short" and self._capital(name) and opener in word_list("own"):
            return "owner"  # "I had a TIA": no aunt
        first, _ = self._stretches.sentence(name.start)
        if name.root != self._words.inherited and _FAMILY_HEAD.search(
            self._text, first, name.start
        ):
            return "other"
        said = self._speaking.whose(name.start) if self._told else ""
        if said:
            return said
        whose = self._whose_at(name.start)
        return "unsaid" if whose in ("other", "nobody") and self._bare(name) else whose

    def _bare(self, name: FactName) -> bool:
        """Whether a name's piece of a sentence has no subject: "never smoked, walks daily"."""
        if not self._told or self._speaking.told_before(name.start) == "other":
            return False
        piece = self._stretches.piece(name.start)
        opener = self._stretches.opening(piece.start, piece.end)
        names = self._text[piece.start : name.start].strip(" \t*_-•>\"'(")
        if opener not in word_list("elliptic") | {"they", "they've"} and names:
            return False
        return not self._speaking.others_in(name.end, piece.end)

    def _whose_at(self, at: int) -> str:
        """Whose a clause is, where notes and reports of a doctor are the owner's."""
        subject = self._subject(at)
        if not self._told:
            return subject
        first, last = self._stretches.sentence(at)
        served = listed(_SERVED, "served").match(self._text, first, last)
        if served is not None and _IN_A_CASE.match(self._text, served.end()):
            return "nobody"
        if subject in ("other", "nobody", "unsaid"):
            if served is not None:
                return "owner"
            if _SOMEBODY.search(self._text, first, at):
                return "owner"
            words = {word.removesuffix("'s") for word in words_in(self._text, first, last)}
            if word_list("finders") & words and word_list("reporting") & words:
                return "owner"
        return subject

    # -- what stands behind a name --------------------------------------------------------------

    def _labelled(self, name: FactName, kind: RootType) -> bool:
        if name.weight == "loose":
            return False
        flagged = _FLAGGED.search(self._text, max(0, name.start - 3), name.start)
        signed = _SIGNED.match(self._text, name.end)
        signed = signed or (_SPACE.match(self._text, name.end) if flagged else None)
        found = self._known_at(signed.end(), name, kind) if signed else None
        if found is not None:
            return self._keep(found)
        gap = _GAP.match(self._text, name.end) or _VALUE_LINE.match(self._text, name.end)
        if gap is not None:
            found = self._box_at(gap.end() - 1, name, kind) or self._known_at(gap.end(), name, kind)
            if found is not None and kind.name == "boolean":
                found = self._with_comment(found)
            if found is not None and self._told and self._further(gap["mark"], name, kind):
                found = replace(found, end=max(found.end, self._reply_end(found.start, name.root)))
            if found is None and self._told and self._marked(gap, name):
                found = self._unknown_at(gap.end(), name, kind)
                if found is not None and found.write is not None:
                    found = self._with_comment(found)
                    if self._further(gap["mark"], name, kind):
                        end = self._reply_end(found.start, name.root)
                        found = replace(found, end=max(found.end, end))
            if found is not None:
                return self._keep(found)
        if name.composed:
            return False
        loose = _LOOSE.match(self._text, name.end)
        found = None if loose is None else self._known_at(loose.end(), name, kind)
        if loose is None or found is None or self._text[found.start].isdigit():
            return False
        if self._told and self._habit(name) and (loose["verb"] is None) is (kind.name == "boolean"):
            if _ENDS.match(self._text, found.end):
                self._learnt[name.start] = found.said
            return False  # a statement, which may be in any words
        _, last = self._stretches.sentence(name.start)
        if self._stretches.mark(name.start) == "?" and found.end >= last - 1:
            return False  # "How is hypertension diagnosed?"
        if self._text[found.start : found.end] in ("on", "off") and not _ENDS.match(
            self._text, found.end
        ):
            return False  # "no stroke is on my record"
        # "diabetes, no" ends there; "diabetes, no children" says something else.
        if loose["verb"] is None and not _ENDS.match(self._text, found.end):
            return False
        return self._keep(found)

    def _further(self, mark: str, name: FactName, kind: RootType) -> bool:
        """Whether an answer goes on to the end of its sentence: "Relatives: one, a great-uncle"."""
        return mark == "?" or (mark == ":" and kind.name == "category" and self._habit(name))

    def _marked(self, gap: re.Match[str], name: FactName) -> bool:
        """Whether any words behind a mark are the answer; behind a dash, if they are small ones."""
        if gap["mark"] in (":", "=", ":=", "=="):
            return True
        first, last = self._stretches.sentence(name.start)
        if gap["mark"] in ("|", "\t"):  # a row of two cells
            line = max(self._text.rfind("\n", 0, name.start) + 1, name.start - _HEAD)
            stop = self._text.find("\n", name.end, name.end + _HEAD)
            row = self._text[line : name.end + _HEAD if stop < 0 else stop].strip(" \t|")
            return len(re.split(r"[|\t]+", row)) == 2 and name.root in self._words.facts
        before = words_in(self._text, first, name.start)
        opens = len(before) <= _LABEL and word_list("verbs").isdisjoint(before)
        word = self._stretches.opening(gap.end(), max(last, gap.end()))
        small = word in small_words() or word[:1].isdigit()
        small = small or any(
            each.root == name.root and each.beside.match(self._text, gap.end())
            for each in self._words.composed
        )
        return gap["mark"] in "-–—" and opens and small and name.root in self._words.facts

    def _topic(self, name: FactName, kind: RootType) -> bool:
        """What is answered behind a question or a topic that a name stands in.

        "Have you ever had a stroke? Not that I know", "About the smoking: gave up in May."
        """
        text = self._text
        if not self._told or name.root not in self._words.facts:
            return False
        first, last = self._stretches.sentence(name.start)
        scored = False
        if self._stretches.mark(name.start) == "?":
            start = last + 1
            words = set(words_in(text, first, last))
            asked = bool(words & word_list("asked")) or len(words) <= _ELLIPTIC
            _, stop = self._stretches.sentence(min(start + 1, len(text)))
            brief = len(words_in(text, start, stop)) <= _ITEM
            asked = asked or (brief and self._stretches.opening(first, last) in ("how", "ever"))
            replied = _REPLY_MARKS.match(text, start)
            if brief and replied is not None:
                asked = asked or _known_words("pairs").match(text, replied.end()) is not None
        elif listed(_TOPIC_FIRST, "topics", "topics_first").match(text, first, last):
            over = _TOPIC_END.search(text, name.end, last)
            if over is None:
                return False
            start, asked = over.end(), True
        else:
            start = text.find(":", name.end, last) + 1
            label = word_list("verbs").isdisjoint(words_in(text, first, start))
            if name.composed and not label:
                return False
            if not start or any(each.root != name.root for each in self._among(name.end, start)):
                return False
            marks = _REPLY_MARKS.match(text, start)
            known = marks is not None and self._known_at(marks.end(), name, kind)
            scored = _POINTED.match(text, start) is not None
            asked = bool(known) or name.composed or scored
            reply = self._stretches.opening(start, last)
            brief = label and len(words_in(text, first, start)) <= _ELLIPTIC
            asked = asked or (brief and reply in small_words() and not reply.isdigit())
            asked = asked or not word_list("own").isdisjoint(words_in(text, first, last))
        marks = _REPLY_MARKS.match(text, start)
        at = start if marks is None else marks.end()
        scored = scored or (
            text[at : at + 1].isdigit() and _SCORED.search(text, first, at) is not None
        )
        if not asked or at >= len(text) or _NO_ANSWER.match(text, at):
            return False
        end = self._reply_end(at, name.root)
        opener = self._stretches.opening(at, end)
        asks = self._stretches.mark(at) == "?" or opener in word_list("asking") - word_list(
            "asks_or_tells"
        )
        if end <= at or asks or opener in word_list("requests"):
            return False
        found = self._known_at(at, name, kind)
        if scored:  # told by its points
            figure = re.compile(r"\d+").match(text, at)
            stop = end if figure is None else figure.end()
            return self._keep(Answer(start=at, end=stop, root=name.root, said=None, write=None))
        if found is not None:
            return self._keep(replace(found, end=max(end, found.end)))
        return self._keep(self._unlisted(at, end, name, kind))

    def _reply_end(self, at: int, root: RootName) -> int:
        """Where a reply that begins here ends: with its sentence, or where something new begins."""
        text = self._text
        end = at
        for piece in self._stretches.pieces(at):
            low = max(piece.start, at)
            if piece.end <= at:
                continue
            if low > at and (self._stretches.asks(piece) or self._new_in(low, piece.end, root)):
                break
            if self._stretches.opening(low, piece.end) in word_list("requests"):
                break
            if low > at and (
                text[low - 1] in '|\t}]"' or text[piece.end : piece.end + 1] in (":", "=")
            ):
                break  # the next label
            end = piece.end
        end = min([end, *(n.start for n in self._others(at + 1, end, root))])
        while end > at and text[end - 1] in " \t\"'*_`,;(":
            end -= 1
        return end

    def _new_in(self, start: int, end: int, root: RootName) -> bool:
        """Whether a stretch tells of something else that is declared."""
        return bool(self._others(start, end, root) or _within(self._quantities, start, end))

    def _others(self, start: int, end: int, root: RootName) -> list[FactName]:
        """Names of other roots between two places that are more than a hint."""
        strong = ("full", "short")
        return [
            n
            for n in self._among(start, end)
            if n.root != root and n.weight in strong and not n.composed
        ]

    def _unlisted(self, start: int, end: int, name: FactName, kind: RootType) -> Answer:
        """An answer in words that no list has: the released one is written as any is."""
        write = _worded(str) if kind.name == "category" else _one_of("yes", "no", str)
        if kind.name == "boolean" and name.denied:
            write = _one_of("no", "yes", str)
        return Answer(start=start, end=end, root=name.root, said=None, write=write)

    def _known_at(self, at: int, name: FactName, kind: RootType) -> Answer | None:
        """A known answer that stands here."""
        if kind.name == "category":
            return self._category_at(at, name.root, kind, coded=not name.composed)
        groups: tuple[Literal["pairs", "sexes"], ...] = ("pairs",)
        if name.root == self._words.sexed:
            groups = ("sexes", "pairs")
        for group in groups:
            match = _known_words(group).match(self._text, at)
            if match is not None and _AMOUNT.match(self._text, at) is None:
                hinted = group == "pairs" and match[0] in hints()
                if hinted and not _CELL_END.match(self._text, match.end()):
                    continue
                one, other, yes = pair_of(match[0], group, name.language)
                pair = (other, one) if name.denied else (one, other)
                return Answer(
                    start=at,
                    end=match.end(),
                    root=name.root,
                    said=None if hinted else "yes" if yes is not name.denied else "no",
                    write=_one_of(*pair, self._case_at(at, match.end(), name, group)),
                )
        return None

    def _case_at(
        self, start: int, end: int, name: FactName, group: Literal["pairs", "sexes"]
    ) -> Callable[[str], str]:
        """The case of an answer: small, where it is one of many words for yes or no."""
        written = self._original(start, end)
        one, _, _ = pair_of(self._text[start:end], group, name.language)
        capital = len(written) > 1 and written.isupper()
        if group == "sexes" or one not in word_list("yes") or capital or name.start == name.end:
            return _case(written)
        return str

    def _box_at(self, at: int, name: FactName, kind: RootType) -> Answer | None:
        """A box behind a label, with or without its cross."""
        box = _BOX.match(self._text, at) if kind.name == "boolean" else None
        if box is None:
            return None
        return Answer(
            start=box.start("mark"),
            end=box.end("mark"),
            root=name.root,
            said="yes" if (box["mark"] != " ") is not name.denied else "no",
            write=_one_of(*((" ", "x") if name.denied else ("x", " ")), str),
        )

    def _with_comment(self, answer: Answer) -> Answer:
        """The answer with what tells it again: ", unfortunately", or the other one to choose from.

        Where both stand and one is set off by capitals, no word of them may stay.
        """
        text = self._text
        other = re.compile(r"\s?[/|]\s?([^\W\d_]{1,5})(?![^\W_])").match(text, answer.end)
        if other is not None and other[1] in pairs_of("pairs"):
            first = self._original(answer.start, answer.end)
            if first.isupper() is self._original(*other.span(1)).isupper():
                return answer
            return replace(answer, end=other.end(), said=None, write=None)
        line = text.find("\n", answer.end)
        bracket = _BRACKET.match(text, answer.end)
        end = answer.end if bracket is None else bracket.end()
        last = len(text) if line < 0 else line
        reached, over = end, 0
        while over < _COMMENTS and (piece := _PIECE.match(text, reached, last)) is not None:
            words = words_in(text, *piece.span("said"))
            if self._among(*piece.span()):
                break
            small = all(word in small_words() or word.isdigit() for word in words)
            small = small or not word_list("telling").isdisjoint(words)
            reached, over = piece.end(), over + 1
            if small and not all(map(str.isdigit, words)):
                end, over = reached, 0
        return replace(answer, end=end)

    def _category_at(
        self, at: int, root: RootName, kind: RootType, *, coded: bool = True
    ) -> Answer | None:
        match = _answers_of(kind.answers).match(self._text, at)
        if match is None and kind.ordered and root in self._words.facts and coded:
            return self._code_at(at, root, kind)
        if match is None:
            return None
        return Answer(
            start=at,
            end=match.end(),
            root=root,
            said=_answer_in(kind.answers, match[0]),
            write=_worded(
                str
                if self._told and root in self._words.facts
                else _cased(kind, self._original(at, match.end()))
            ),
        )

    def _code_at(self, at: int, root: RootName, kind: RootType) -> Answer | None:
        """The number of an answer in its order, as forms code it: "item 1 = 0"."""
        code = _CODE.match(self._text, at)
        if code is None:
            return None
        if _POINTS.search(self._text, max(0, at - 12), at):  # not its place in the order
            return Answer(start=at, end=code.end(), root=root, said=None, write=None)
        if int(code[0]) >= len(kind.answers):
            return None
        return Answer(
            start=at,
            end=code.end(),
            root=root,
            said=kind.answers[int(code[0])],
            write=lambda kind, number: str(kind.answers.index(kind.written(number))),
        )

    def _unknown_at(self, at: int, name: FactName, kind: RootType) -> Answer | None:
        """Whatever stands behind a label, if it is no number of it, no type and no other name."""
        text = self._text
        stop = re.compile(r"[\n,;|}\]]|\.(?=\s|\Z)").search(text, at)
        end = len(text) if stop is None else stop.start()
        said = text[at:end].rstrip(" \"'*_`)")
        if not said or len(said) > _UNKNOWN or _NO_ANSWER.match(said):
            return None
        if _FIGURE.match(said) or _TYPE_WORDS.match(said) or self._requested(name):
            return None
        if any(each.root != name.root for each in self._among(at, at + 1)):
            return None
        if _DATA_CENTRE.fullmatch(said) and not self._tells(said, name):
            return None
        if kind.name == "boolean" or name.root in self._words.facts:
            return self._unlisted(at, at + len(said), name, kind)
        return Answer(start=at, end=at + len(said), root=name.root, said=None, write=None)

    def _tells(self, said: str, name: FactName) -> bool:
        """Whether one of a category's answers is in a text, however it is set apart."""
        kind = self._words.kinds[name.root]
        bald = re.sub(r"[\s_-]", "", said)
        return any(re.sub(r"[\s_-]", "", fold_word(each)) in bald for each in kind.answers)

    def _inflected(self, name: FactName, kind: RootType) -> None:
        """Words made of an answer, beside the category's name: "a northerner by region"."""
        stems = _stems(kind.answers) if kind.name == "category" and self._told else None
        if stems is None:
            return
        clause = clause_at(self._clauses, name.start)
        first, last = max(clause.start, name.start - _HEAD), min(clause.end, name.end + _HEAD)
        for word in stems.finditer(self._text, first, last):
            self._keep(
                Answer(start=word.start(), end=word.end(), root=name.root, said=None, write=None)
            )

    def _columns(self) -> None:
        """The cells of a table under a header that names a root."""
        for column in self._page.columns:
            header = column.header
            under = [n for n in self._among(header.start, header.end) if n.end <= header.end]
            for name in under[:1]:
                if self._labels.meet(name.start, name.end):
                    continue  # boxes in columns
                kind = self._words.kinds.get(name.root)
                for cell in column.cells if kind is not None else ():
                    start = cell.start
                    while start < cell.end and self._text[start] in " \t\"'*_`":
                        start += 1
                    if kind is None or start >= cell.end:
                        continue
                    if kind.name == "date":
                        self._keep_days(_within(self._days, start, cell.end), name)
                    elif (found := self._known_at(start, name, kind)) is not None:
                        self._keep(found)
                    elif self._told and kind.name == "boolean":
                        end = start + len(self._text[start : cell.end].rstrip(" \t\"'*_`"))
                        self._keep(self._unlisted(start, end, name, kind))

    def _replies(self, asked: Sequence[RootName]) -> None:
        """The text's first words, which answer what was asked before it."""
        for root in asked:
            kind = self._words.kinds.get(root)
            if kind is None:
                continue
            name = FactName(0, 0, root, "en", own=True)
            at = len(self._text) - len(self._text.lstrip(" \t\n\"'*_"))
            if kind.name == "date":
                if self._days:
                    self._keep_days(self._days[:1], name)
                else:
                    self._keep_part(name, at, len(self._text))
            elif (found := self._known_at(at, name, kind)) is not None:
                self._keep(self._with_comment(found) if kind.name == "boolean" else found)
            elif self._told and (short := _SHORT_REPLY.match(self._text, at)) is not None:
                self._reply(short, name, kind)
            return

    def _reply(self, short: re.Match[str], name: FactName, kind: RootType) -> None:
        """A few words that answer in a way that no list has: "only on weekends"."""
        if self._among(*short.span()):
            return  # read by its name
        if kind.name == "category":
            known = _answers_of(kind.answers).search(self._text, *short.span())
            found = None if known is None else self._category_at(known.start(), name.root, kind)
            if found is not None:
                self._keep(found)
                return
        self._keep(
            Answer(start=short.start(), end=short.end(), root=name.root, said=None, write=None)
        )

    # -- what is said of oneself ----------------------------------------------------------------

    def _stated(self, name: FactName, kind: RootType) -> None:
        """Said of oneself, the whole stretch of it: "have never been one to smoke"."""
        text = self._text
        habit = kind.name == "category" and self._habit(name)
        if not self._told or not (kind.name == "boolean" or habit):
            return
        if name.root == self._words.sexed and text[name.start : name.end] in pairs_of("sexes"):
            return
        clause = clause_at(self._clauses, name.start)
        start, run = self._run_before(name.start, clause.start)
        end = self._run_behind(name.end)
        mine = bool(set(run) & word_list("own"))
        if not name.composed and (
            self._speaking.spoken_of(name.start, name.end, mine=mine) or _MEASURED.match(text, end)
        ):
            return
        if not self._asserted(name, clause, start, run):
            return
        spoken = listed(_TOPIC_WITHIN, "topics").search(text, max(0, name.start - 40), name.start)
        whole = name.composed or spoken is not None
        whole = whole or any(
            each.composed and each.root == name.root and each.end > name.start
            for each in self._among(name.start - _OVERLAP, name.end)
        )
        around = self._stretches.whole if whole else self._stretches.around
        stretch = around(name.start, name.end)
        before = ""
        understood = stretch is None
        if stretch is None:
            if habit:
                return
            joined = _CONTRACTED.match(text, start)
            if joined is not None:  # "I've got" leaves the "I" that "I have not" leaves
                start, before = joined.end(), " "
        else:
            first, last = self._between_others(name, stretch.start, stretch.end)
            words = {*words_in(text, first, start), *words_in(text, end, last)}
            understood = words <= small_words() - word_list("no") - word_list("unsure")
            start, end = first, last
            before = "and " if stretch.joined and first == stretch.start else ""
        said: str | None = "yes"
        if name.denied or word_list("no") & {*run, *words_in(text, name.end, end)}:
            said = "no"
        if word_list("unsure") & set(run) or not understood or habit:
            said = None
        said = self._learnt.get(name.start, said)
        self._keep(
            Answer(
                start=start,
                end=end,
                root=name.root,
                said=said,
                write=_titled(self._title(name), before),
                hole=f"{before}{ANSWER_HOLE}",
            )
        )

    def _echoed(self) -> None:
        """What the owner says of themselves by what others are: "he smokes, but I don't"."""
        for name in self._names:
            kind = self._words.kinds.get(name.root)
            if kind is None or kind.name != "boolean" or name.weight in ("short", "label"):
                continue
            if name.root == self._words.sexed:
                continue
            _, last = self._stretches.sentence(name.start)
            _, behind = self._stretches.sentence(min(last + 2, len(self._text)))
            echo = _ECHO.search(self._text, name.end, behind)
            if echo is not None and self._stretches.mark(echo.start()) != "?":
                write = _titled(self._title(name))
                start, end = echo.span("said")
                self._keep(Answer(start=start, end=end, root=name.root, said=None, write=write))

    def _reported(self) -> None:
        """An answer that is told to have been given: "it asks if I smoke and I ticked yes"."""
        for told in _REPORTED.finditer(self._text):
            first, _ = self._stretches.sentence(told.start())
            before = [n for n in self._among(first, told.start()) if n.end <= told.start()]
            if not before:
                continue
            name = before[-1]
            kind = self._words.kinds.get(name.root)
            if kind is not None and kind.name == "boolean":
                start, end = told.span("said")
                write = _one_of(*(("no", "yes") if name.denied else ("yes", "no")), str)
                answer = Answer(start=start, end=end, root=name.root, said=None, write=write)
                self._keep(self._with_comment(answer))

    def _going_on(self) -> None:
        """The sentence behind a topic, which answers it: "a field for drinks. Mine says never"."""
        text = self._text
        known = small_words() | word_list("amounts") | kin() | word_list("nothing")
        for name in self._names:
            kind = self._words.kinds.get(name.root)
            if kind is None or kind.name == "date" or name.root == self._words.sexed:
                continue
            _, last = self._stretches.sentence(name.start)
            first, end = self._stretches.sentence(min(last + 2, len(text)))
            head = _GOES_ON.match(text, max(first, last), end)
            if head is None or self._whose(name) in ("other", "nobody") or self._requested(name):
                continue
            words = [word.removesuffix("'s") for word in words_in(text, head.end(), end)]
            tells = words and all(word in known or word.isdigit() for word in words)
            if tells and self._stretches.mark(head.end()) != "?" and not self._among(first, end):
                while end > head.end() and text[end - 1] in " \t\"'*_`":
                    end -= 1
                self._keep(self._unlisted(head.end(), end, name, kind))

    def _like_me(self) -> None:
        """Somebody that the owner likens to themselves: "can a diabetic like me have figs?"."""
        for alike in _LIKE_ME.finditer(self._text):
            start, end = alike.span("who")
            within = [n for n in self._among(start, end) if n.end <= end]
            named = next((n for n in within if n.root in self._words.kinds), None)
            if named is not None and self._words.kinds[named.root].name == "boolean":
                write = _titled(self._title(named))
                self._keep(Answer(start=start, end=end, root=named.root, said=None, write=write))

    def _habit(self, name: FactName) -> bool:
        return name.root in self._words.facts

    def _asserted(self, name: FactName, clause: Clause, start: int, run: Sequence[str]) -> bool:
        """Whether a name is said of the owner, and not only spoken of."""
        text = self._text
        first, last = self._stretches.sentence(name.start)
        asks = self._stretches.opening(first, last) in word_list("asking")
        mine = word_list("own") | word_list("ours")
        if self._stretches.mark(name.start) != "?" or not mine.isdisjoint(
            words_in(text, first, last)
        ):
            asks = False
        if asks:
            return False  # "What does hx of CVA mean?"
        end = max(name.end, name.reach)
        inherited = name.root == self._words.inherited
        if not inherited and self._speaking.general(name.start, end, composed=name.composed):
            return False
        if name.composed:
            if not inherited and self._speaking.whose(name.start, family=name.family) == "other":
                return False
            if self._speaking.worked_on(name.start):
                return False
            spoken = {*words_in(text, first, last)} & (word_list("own") | word_list("ours"))
            head = _FAMILY_HEAD.search(text, first, last)
            if self._stretches.whole(name.start, name.end) is None or self._requested(name):
                return False
            measured = clause.subject == "unsaid" and bool(_within(self._quantities, first, last))
            told = spoken or head or self._noted or self._whose_at(name.start) == "owner"
            return measured or bool(told) or not self._speaking.of_things(name.start)
        owned = self._whose(name) == "owner" or bool(word_list("own") & set(run))
        if name.weight == "loose":
            told = owned or self._elliptic(name) or (self._noted and clause.subject == "unsaid")
            mine = word_list("own") - {"am"}
            told = told or not mine.isdisjoint(words_in(text, first, last))
            return told and not self._asked(name)
        if name.weight == "short":
            noted = self._noted or self._listed(start)
            if not self._capital(name):  # "pmhx - nil dm", "i had a tia"
                return noted or (owned and not word_list("having").isdisjoint(run))
            return noted or owned or bool(run) or self._elliptic(name) or self._item(name)
        if name.root == self._words.sexed:
            return False  # "gender" tells nothing
        if name.own or owned or self._listed(start) or self._nothing_else:
            return True
        if self._requested(name):
            return False
        if text[first:last].rstrip(" \t*_").endswith(":"):
            return False  # the head of what follows
        if self._described(clause, name.start) or self._noted:
            return not self._asked(name)
        if word_list("finders") & set(words_in(text, first, last)):
            return not self._asked(name)
        opener = self._stretches.opening(first, last)
        own = word_list("own") & set(words_in(text, name.end, last))
        if opener in word_list("roles") and own:  # "With heart failure, is altitude bad for me?"
            return self._stretches.around(name.start, name.end) is not None
        if _strong_words() & set(words_in(text, first, last)):
            return self._stretches.around(name.start, name.end) is not None
        if self._stretches.heading(name.start):
            return False
        if self._asked(name):
            return self._elliptic(name)
        if _LABEL_MARK.match(text, name.end):
            return False  # what stands behind it is read, or is none
        if not self._speaking.says(name.start, name.end):
            return self._profiled(name)
        # By default it is told: a wording that no rule has seen must not leave. It teaches nothing.
        self._learnt.setdefault(name.start, None)
        return not self._speaking.of_things(name.start) or self._profiled(name)

    def _asked(self, name: FactName) -> bool:
        """Whether a name stands in the part of a sentence that asks: "X is out, so can I Y?"."""
        if self._stretches.mark(name.start) != "?":
            return False
        piece = self._stretches.piece(name.start)
        _, last = self._stretches.sentence(name.start)
        return piece.end >= last or self._stretches.asks(piece)

    def _item(self, name: FactName) -> bool:
        """Whether a name is all of its part of a sentence, but for small words: "PVD absent"."""
        piece = self._stretches.piece(name.start)
        rest = {
            *words_in(self._text, piece.start, name.start),
            *words_in(self._text, name.end, piece.end),
        }
        asks = self._stretches.mark(name.start) == "?"
        return bool(rest) and not asks and rest <= small_words() | word_list("found")

    def _elliptic(self, name: FactName) -> bool:
        """Whether a sentence leaves its "I" away, in a text whose owner speaks elsewhere.

        "Currently on ramipril, cholesterol borderline. Can I take cold capsules?"
        """
        at = name.start
        if self._stretches.heading(at) or self._requested(name):
            return False
        first, last = self._stretches.sentence(at)
        elliptic = word_list("elliptic")
        if self._subject(at) == "unsaid" and self._stretches.opening(first, last) in elliptic:
            return True
        piece = self._stretches.piece(at)
        return self._bare(name) and self._stretches.opening(piece.start, piece.end) in elliptic

    def _profiled(self, name: FactName) -> bool:
        """Whether a name is an item of what describes somebody, or all that a label says.

        "Male, 54, smoker, 83 kg", "Household: single parent".
        """
        text = self._text
        first, last = self._stretches.sentence(name.start)
        if self._stretches.mark(name.start) == "?":
            return False
        items = re.split(r"[,/]| - ", text[first:last])
        told = bool(_SEX.search(text, first, last) or _AGED.search(text, first, last))
        told = told or self._numbered(first, last)
        if len(items) > 1 and told and all(len(each.split()) <= _ITEM for each in items):
            return True
        label = text[first : name.start].rstrip(" \t*_")
        return label.endswith(":") and not text[name.end : last].strip(" \t*_.)")

    def _capital(self, name: FactName) -> bool:
        """Whether an abbreviation is written as one: "DM", "no DM"."""
        return self._original(name.start, name.end).split()[-1].isupper()

    def _requested(self, name: FactName) -> bool:
        """Whether a name stands in a request: "write about diabetes"."""
        return self._stretches.opening(*self._stretches.sentence(name.start)) in word_list(
            "requests"
        )

    def _between_others(self, name: FactName, start: int, end: int) -> tuple[int, int]:
        """A stretch as far as other facts in it let it reach, which are read by themselves."""
        text = self._text
        others = [
            (n.start, n.end)
            for n in self._among(start, end)
            if n.root != name.root and n.weight != "label" and self._whose(n) != "other"
        ]
        told = _within(self._quantities, start, end)
        others += told
        low = bisect_left(self._found, start, key=_start)
        high = bisect_left(self._found, end, lo=low, key=_start)
        others += [(e.start, e.end) for e in self._found[low:high] if e.root != name.root]
        others += [
            m.span()
            for m in _AGED.finditer(text, start, end)
            if not _HOW_LONG.search(text, max(start, m.start() - 12), m.start())
        ]
        if self._words.sexed is not None and not name.composed:
            others += [m.span() for m in _SEX.finditer(text, start, end)]
        if told and told[0][0] < name.start:  # numbers behind the name of a quantity are its own
            low = bisect_left(self._page.numbers, told[0][1], key=_start)
            high = bisect_left(self._page.numbers, name.start, key=_start)
            others += [
                (n.start, n.end) for n in self._page.numbers[low:high] if n.end <= name.start
            ]
        begin, stop = start, end
        for first, last in others:
            if begin <= first and last <= name.start:
                start = max(start, last)
            elif name.end <= first < end:
                end = first
        while begin < start < name.start and text[start] in " \t,-":
            start += 1
        while name.end < end < stop and text[end - 1] in " \t,-":
            end -= 1
        return start, end

    @functools.cached_property
    def _quantities(self) -> list[tuple[int, int]]:
        """Names of roots that are numbers, which have one close behind."""
        return [
            (name.start, name.end)
            for name in self._page.names
            if not name.subject
            and not self._words.kinds.keys() & set(name.roots)
            and self._numbered(name.end, name.end + _NEAR_NUMBER + 1)
        ]

    def _numbered(self, start: int, end: int) -> bool:
        """Whether a number begins between two places."""
        numbers = self._page.numbers
        at = bisect_left(numbers, start, key=_start)
        return at < len(numbers) and numbers[at].start < end

    def _among(self, start: int, end: int) -> list[FactName]:
        """The names that begin between two places."""
        low = bisect_left(self._names, start, key=_start)
        return self._names[low : bisect_left(self._names, end, lo=low, key=_start)]

    def _run_before(self, at: int, least: int) -> tuple[int, list[str]]:
        """The small words before a name that belong to what is said, from the last one back."""
        run: list[str] = []
        known = word_list("fill") | word_list("no") | word_list("unsure")
        while len(run) < _WORDS_BEFORE:
            match = _LAST_WORD.search(self._text, max(least, at - 24), at)
            if match is None:
                break
            word = match[1].replace("’", "'")
            own = word in word_list("own")
            if not own and word not in known:
                break
            run.append(word)
            # Who speaks stays, so that numbers behind it are theirs: "I'm a smoker, 54".
            before = _LAST_WORD.search(self._text, max(least, match.start() - 24), match.start())
            answers = before is not None and before[1] in pairs_of("pairs")
            if word in word_list("speakers") and not answers:
                break
            at = match.start(1)
        return at, run

    def _run_behind(self, at: int) -> int:
        while True:
            match = listed(_TAIL, "tail").match(self._text, at) or _TAIL_SPAN.match(self._text, at)
            if match is None:
                return at
            at = match.end()

    def _boxes(self) -> None:
        """Boxes with or without a cross, and what stands behind each of them."""
        text = self._text
        behind = self._boxes_behind()
        boxes = [box for box in _BOXES.finditer(text) if not behind.meet(*box.span())]
        labels: list[tuple[int, int]] = []
        head: FactName | None = None
        last = -1
        for place, box in enumerate(boxes):
            stop = text.find("\n", box.end())
            end = len(text) if stop < 0 else stop
            if place + 1 < len(boxes):
                end = min(end, boxes[place + 1].start())
            if last < 0 or text[last : box.start()].strip():
                head = self._head(box.start())
            last = end
            label = self._among(box.end(), end) or self._joined(box.start(), box.end(), end)
            answer = self._boxed(box, text[box.end() : end].strip(" .,;|"), label, head)
            if answer is not None:
                labels.append((box.start(), end))
                labels += [] if head is None else [(head.start, head.end)]
                self._keep(answer)
        self._labels = Spans([*labels, *self._lines])

    def _boxes_behind(self) -> Spans:
        """Lines whose boxes stand behind what they are for: "smoker [x]  never smoked [ ]"."""
        text = self._text
        spans: list[tuple[int, int]] = []
        self._lines.clear()
        for line in _BOXED_LINE.finditer(text):
            start = line.start()
            answers = []
            for box in _ANY_BOX.finditer(text, *line.span()):
                named = [n for n in self._among(start, box.start()) if n.root in self._words.kinds]
                group = next(each for each in ("square", "round", "sign") if box[each] is not None)
                words = words_in(text, start, box.start())
                start = box.end()
                if not named or self._words.kinds[named[0].root].name != "boolean":
                    continue
                yes = not (
                    named[0].denied or bool((word_list("no") | word_list("former")) & {*words})
                )
                marks = _SIGNS.get(box[group], ("x", " "))
                crossed = bool(box[group].strip()) and box[group] not in "☐✗✘❌○◯"
                answers.append(self._mark(*box.span(group), named[0], marks, crossed, yes))
            if answers:
                spans.append(line.span())
                self._lines.append(line.span())
                for answer in answers:
                    self._keep(replace(answer, said=None))
        return Spans(spans)

    def _inserted(self) -> None:
        """Values of an SQL statement, by the place of their column."""
        text = self._text
        columns: list[tuple[int, int]] = []
        for insert in _INSERT.finditer(text):
            names = self._among(*insert.span("columns"))
            columns += ((n.start, n.end) for n in names)
            row = _ROW.match(text, insert.end())
            if row is None or _ROW.match(text, row.end()):
                continue  # several rows are of several people
            cells = [m.span() for m in _SQL_VALUE.finditer(text, *row.span("row"))]
            for name in names:
                kind = self._words.kinds.get(name.root)
                place = text.count(",", insert.start("columns"), name.start)
                if kind is None or place >= len(cells):
                    continue
                start, end = cells[place]
                start += text[start] in "\"'"
                if kind.name == "date":
                    self._keep_days(_within(self._days, start, end), name)
                elif (found := self._known_at(start, name, kind)) is not None:
                    self._keep(found)
        self._columned = Spans(columns)

    def _joined(self, line: int, start: int, end: int) -> list[FactName]:
        """What a box is for together with the line over the boxes: "Medication: [x] pressure"."""
        head = self._text.rfind(":", max(0, line - _HEAD), line)
        first = self._text.rfind("\n", 0, max(0, head)) + 1
        for each in self._words.composed if head >= 0 else ():
            for one, other in ((each.of, each.beside), (each.beside, each.of)):
                named = one.search(self._text, start, end)
                if named is not None and other.search(self._text, first, head):
                    return [FactName(*named.span(), each.root, "en", own=False, composed=True)]
        return []

    def _choices(self) -> None:
        """Answers to choose from behind a name, of which one is set off: "stroke: (YES) / no"."""
        text = self._text
        labels: list[tuple[int, int]] = []
        for name in self._names if self._told else ():
            kind = self._words.kinds.get(name.root)
            if kind is None or kind.name == "date" or name.weight == "loose":
                continue
            gap = _CHOICE_GAP.match(text, name.end)
            at = name.end if gap is None else gap.end()
            stop = text.find("\n", at, at + _HEAD)
            last = min(at + _HEAD, len(text)) if stop < 0 else stop
            region = self._choice_at(at, last, name, kind)
            if region is not None and self._whose(name) not in ("other", "nobody"):
                answer = self._unlisted(*region, name, kind)
                if name.root == self._words.sexed:
                    answer = replace(answer, write=_one_of("female", "male", str))
                self._keep(answer)
                labels.append((text.rfind("\n", 0, name.start) + 1, name.end))
        self._chosen = Spans(labels)

    def _choice_at(
        self, at: int, end: int, name: FactName, kind: RootType
    ) -> tuple[int, int] | None:
        """Where several answers stand in a row from here on, if they are set off unlike."""
        text = self._text
        if kind.name == "category":
            pattern = _answers_of(kind.answers)
        else:
            pattern = _options("sexes" if name.root == self._words.sexed else "pairs")
        found: list[re.Match[str]] = []
        for match in pattern.finditer(text, at, end):
            before = found[-1].end() if found else at
            if not re.fullmatch(rf"(?:{_CHOICE_MARK}|[\s/|,\d]|or)*", text[before : match.start()]):
                break
            found.append(match)
        if len(found) < 2 or (kind.name == "boolean" and len(found) > 2):
            return None
        if _BOX_FIRST.search(text, at, found[0].start()):
            return None  # boxes, each before what it is for
        behind = re.compile(rf"(?:[ \t]?(?:{_CHOICE_MARK}))*").match(text, found[-1].end(), end)
        last = found[-1].end() if behind is None else behind.end()
        edges = [at, *(each.end() for each in found)]
        parts = [
            (text[edge : each.start()], self._original(*each.span()).isupper())
            for edge, each in zip(edges, found, strict=False)
        ]
        parts.append((text[found[-1].end() : last], parts[0][1]))
        marks = [re.sub(r"[\s/|,\d]|or", "", part) for part, _ in parts]
        cased = {upper for _, upper in parts}
        # Alike if each has the same before it, as "(0) never (1) monthly", or nothing has any.
        alike = not any(marks[1:-1]) and bool(marks[0]) is bool(marks[-1])  # "(y/n)"
        alike = alike or (len({*marks[:-1]}) == 1 and not marks[-1])
        if kind.name == "category":
            alike = alike and not re.search("[*→←✓✔●•]", text[at:end])
        if len(cased) == 1 and alike:
            return None
        return at, end if kind.name == "category" else last

    def _head(self, at: int) -> FactName | None:
        """The name that stands over a box or on its line before it."""
        line = self._text.rfind("\n", 0, at) + 1
        if not self._text[line:at].strip(" \t-*•"):
            line = self._text.rfind("\n", 0, max(0, line - 1)) + 1
        over = self._among(max(line, at - _HEAD), at)
        return over[0] if over else None

    def _boxed(
        self, box: re.Match[str], label: str, names: Sequence[FactName], head: FactName | None
    ) -> Answer | None:
        """A mark before what it is a mark for: a name, or an answer to what stands over it."""
        group = next(each for each in ("square", "round", "sign") if box[each] is not None)
        crossed = bool(box[group].strip()) and box[group] not in "☐✗✘❌○◯"
        marks = _SIGNS.get(box[group], ("x", " "))
        start, end = box.span(group)
        kinds = self._words.kinds
        kind = None if head is None else kinds.get(head.root)
        if head is not None and kind is not None and kind.name != "date":
            if kind.name == "category":
                found = _answers_of(kind.answers).search(label)
                meant = None if found is None else _answer_in(kind.answers, found[0])
                said = meant if crossed else None
                write = _marked(meant, marks)
                return Answer(start=start, end=end, root=head.root, said=said, write=write)
            group_of: Literal["pairs", "sexes"] = (
                "sexes"
                if head.root == self._words.sexed and label in pairs_of("sexes")
                else "pairs"
            )
            if label in pairs_of(group_of):
                _, _, yes = pair_of(label, group_of, head.language)
                return self._mark(start, end, head, marks, crossed, yes is not head.denied)
        sexed = self._words.sexed
        if sexed is not None and len(label) > 1 and label in pairs_of("sexes"):
            _, _, yes = pair_of(label, "sexes", "en")
            name = FactName(start, end, sexed, "en", own=False)
            return self._mark(start, end, name, marks, crossed, yes)
        named = next((n for n in names if n.root in kinds), None)
        if named is None or kinds[named.root].name != "boolean" or named.weight == "loose":
            return None
        if self._subject(named.start) in ("other", "nobody"):
            return None
        denied = bool(word_list("no") & set(re.findall(r"[a-z']+", label)))
        return self._mark(start, end, named, marks, crossed, not (named.denied or denied))

    def _mark(
        self, start: int, end: int, name: FactName, marks: tuple[str, str], crossed: bool, yes: bool
    ) -> Answer:
        return Answer(
            start=start,
            end=end,
            root=name.root,
            said="yes" if crossed is yes else "no",
            write=_one_of(*(marks if yes else (marks[1], marks[0])), str),
        )

    def _listed(self, at: int) -> bool:
        """Whether it stands in a list of what somebody has: "Conditions: diabetes, gout"."""
        line = max(self._text.rfind("\n", 0, at) + 1, at - _HEAD)
        head, colon, _ = self._text[line:at].rpartition(":")
        return bool(colon) and listed(_LIST_HEAD_BEFORE, "lists").search(head) is not None

    def _whole_lists(self) -> None:
        """Lists of conditions or medicines: what is missing in one tells as much as what is there.

        So items that tell a declared one go, and all declared ones stand behind the list.
        """
        for heads, roots in (
            (listed(_LIST_HEAD, "lists"), self._words.conditions),
            (listed(_LIST_HEAD, "medicines"), self._words.treated),
        ):
            for head in heads.finditer(self._text) if roots else ():
                named = self._among(head.start() - _BACK, head.end())
                if any(n.end > head.start() for n in named):
                    continue  # "bp pills: none"
                if self._subject(head.start()) not in ("other", "nobody"):
                    self._whole_list(head, roots)

    def _whole_list(self, head: re.Match[str], roots: Sequence[RootName]) -> None:
        text = self._text
        _, last = self._stretches.sentence(head.end())
        written = text[head.end() : last].rstrip(" .\t")
        end = head.end() + len(written)
        items, begin = [], head.end()
        for mark in [*_LIST_MARK.finditer(text, head.end(), end), None]:
            if (stop := end if mark is None else mark.start()) > begin:
                items.append((begin, stop))
            begin = begin if mark is None else mark.end()
        told: dict[RootName, str | None] = {}
        gone: list[tuple[int, int]] = []
        for start, stop in items:
            names = [n for n in self._among(start, stop) if n.root in roots]
            words = words_in(text, start, stop)
            for name in names:
                beside = {*words_in(text, start, name.start), *words_in(text, name.end, stop)}
                no = name.denied is word_list("no").isdisjoint(beside)
                told[name.root] = "no" if no else "yes"
            small = small_words().issuperset(words) and not text[start:stop].strip().isdigit()
            if names or small or listed("{}", "nothing").fullmatch(text[start:stop].strip()):
                gone.append((start, stop))
        if _WRITTEN.search(text, head.end(), end):
            return  # read before
        surely = _MEDICAL.search(head[0]) is not None
        if not written or self._stretches.mark(head.end()) == "?" or not (gone or surely):
            return
        if len(gone) < len(items) and not surely:
            return
        none = not told and len(gone) == len(items)
        kept = next((each[0] for each in items if each not in gone), end)
        for start, stop in gone if len(gone) < len(items) else ():
            low, high = start, stop
            if start < kept:  # with the comma that joins it to what stays
                high = min(each[0] for each in items if each[0] >= stop)
            else:
                low = max(each[1] for each in items if each[1] <= start)
            self._keep(
                Answer(start=low, end=high, root=roots[0], said=None, write=_always(""), hole="")
            )
        only = _ONLY.search(text, head.end(), end)
        if only is not None and len(gone) < len(items):
            self._keep(
                Answer(
                    start=only.start(),
                    end=only.end(),
                    root=roots[0],
                    said=None,
                    write=_always(""),
                    hole="",
                )
            )
        whole = len(gone) == len(items)
        for place, root in enumerate(roots):
            comma = ", " if place or not whole else ""
            self._keep(
                Answer(
                    start=head.end() if whole and not place else end,
                    end=end,
                    root=root,
                    said="no" if none else told.get(root),
                    write=_titled(self._words.titles[root], comma),
                    hole=f"{comma}{ANSWER_HOLE}",
                )
            )

    @functools.cached_property
    def _nothing_else(self) -> bool:
        """Whether the text is nothing but names and what says yes or no: "no smoking, diabetes"."""
        if re.search(r"[\t|\n:=]", self._text.strip()):  # a table, or a form
            return False
        rest = list(self._text)
        for name in self._names:
            rest[name.start : name.end] = " " * (name.end - name.start)
        bare = re.sub(r"\([^()]*\)", " ", "".join(rest))
        return "?" not in bare and all(
            word in small_words() or word.isdigit() for word in words_in(bare, 0, len(bare))
        )

    def _described(self, clause: Clause, at: int) -> bool:
        """Whether a clause that names nobody describes somebody: "54 y/o female smoker"."""
        low, high = max(clause.start, at - _HEAD), min(clause.end, at + _HEAD)
        return clause.subject == "unsaid" and _AGED.search(self._text, low, high) is not None

    def _sexed(self, root: RootName) -> None:
        """Words for a woman or a man, said of the owner."""
        text = self._text
        for match in _sex_words().finditer(text):
            clause = clause_at(self._clauses, match.start())
            whose = self._whose_at(match.start())
            first, behind = self._stretches.sentence(match.start())
            oneself = _ONESELF.search(text, first, match.start()) is not None
            if _IN_ROLE.search(text, first, match.start()):
                oneself = not _strong_words().isdisjoint(words_in(text, match.end(), behind))
            if whose in ("other", "nobody") and match[0] not in _SELF and not oneself:
                continue
            start, run = self._run_before(match.start(), clause.start)
            told = oneself or bool((word_list("own") - word_list("my")) & set(run))
            aged = _AGED.search(text, max(first, match.start() - 20), match.start())
            aged = aged or re.compile(r"[ ,]{1,2}\d{1,3}(?![\w.]\d|\w)").match(text, match.end())
            if word_list("having") & set(run):
                told = False  # "I have a son"
            copula = _COPULA.search(text[max(clause.start, match.start() - _BACK) : match.start()])
            copula = copula or _THAT_IS_ME.match(text, match.end())
            if not text[first : match.start()].strip():  # "Female patient here"
                copula = copula or _HERE.match(text, match.end())
            if match[0] in word_list("pronouns") or _MY_LIKE.match(text, match.end()):
                told = True
            elif match[0] in word_list("plurals"):
                continue
            if match[0] in word_list("titles"):
                told, aged = False, None
                copula = _CALLED.search(text, max(0, match.start() - 24), match.start())
                copula = copula or _THAT_IS_ME.match(text, match.end())
            if not (told or copula or (aged and whose in ("owner", "unsaid"))):
                continue
            language = next(
                (
                    each
                    for by in answer_lists()["sexes"]
                    for each, pair in by.items()
                    if match[0] in pair and each in LANGUAGES
                ),
                "en",
            )
            one, other, yes = pair_of(match[0], "sexes", language)
            if word_list("no") & set(run):
                write, said, begin = _titled(self._words.titles[root]), None, start
            else:
                write = _one_of(one, other, _case(self._original(match.start(), match.end())))
                said, begin = ("yes" if yes else "no"), match.start()
                spouse = _SPOUSE_OF.search(text, first, begin)
                if spouse is not None:  # "I'm his wife": so would "his" tell it
                    write, begin = _spouse(write), spouse.start()
            self._keep(Answer(start=begin, end=match.end(), root=root, said=said, write=write))

        bio = _BIO.search(text)
        for match in _HE_OR_SHE.finditer(text, bio.end()) if bio is not None else ():
            word = _THEY[match.lastgroup or "he"]
            case = _case(self._original(*match.span()))
            self._keep(
                Answer(
                    start=match.start(),
                    end=match.end(),
                    root=root,
                    said=None,
                    write=_always(case(word)),
                    hole=case(word),
                )
            )
        for match in _SEX_ITEM.finditer(text):
            # An item of what describes somebody: "Age 44, F, 172 cm", "44/F".
            first, last = self._stretches.sentence(match.start(1))
            numbered = self._numbered(first, last)
            slashed = text[max(0, match.start(1) - 2) : match.start(1)][
                :1
            ].isdigit()  # "44/f/berlin"
            if numbered and (slashed or self._original(*match.span(1)).isupper()):
                self._keep(self._sex_letter(*match.span(1), root))
        for match in _SEX_AND_AGE.finditer(text):
            capital = self._original(*match.span(1)).isupper()
            if capital and self._whose_at(match.start()) not in ("other", "nobody"):
                self._keep(self._sex_letter(*match.span(1), root))
        for match in _AGE_AND_SEX.finditer(text):
            capital = self._original(*match.span(3)).isupper()
            opens = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
            if not (match[2] or capital or (opens and _ALONE.match(text, match.end()))):
                continue  # metres
            if self._whose_at(match.start()) not in ("other", "nobody"):
                self._keep(self._sex_letter(*match.span(3), root))

    def _sex_letter(self, start: int, end: int, root: RootName) -> Answer:
        one, other, yes = pair_of(self._text[start:end], "sexes", "en")
        case = _case(self._original(start, end))
        return Answer(
            start=start,
            end=end,
            root=root,
            said="yes" if yes else "no",
            write=_one_of(one, other, case),
        )

    def _alone(self) -> list[tuple[RootName, RootType]]:
        return [
            (root, kind)
            for root, kind in self._words.kinds.items()
            if kind.name == "category" and not kind.ordered
        ]

    def _told_alone(self) -> None:
        """A category's answer in a clause of the owner that does not name what is answered."""
        for root, kind in self._alone():
            words = tuple(each for each in kind.answers if len(each) >= _LEAST_ALONE)
            if len(words) != len(kind.answers):
                continue  # some would be replaced and others not
            for match in _answers_of(kind.answers).finditer(self._text):
                if self._subject(match.start()) == "owner":
                    found = self._category_at(match.start(), root, kind)
                    if found is not None:
                        way = _DIRECTED.search(self._text, max(0, match.start() - 8), match.start())
                        self._keep(found if way is None else replace(found, start=way.start()))

    # -- days -----------------------------------------------------------------------------------

    def _dated(self, name: FactName) -> None:
        """The day that belongs to a name, whole, in part, or as so long ago."""
        without = self._words.without.get(name.root)
        if without is not None and without.search(
            self._text, *self._stretches.sentence(name.start)
        ):
            return
        clause = clause_at(self._clauses, name.start)
        text = self._text
        if name.composed:
            first, last = self._stretches.sentence(name.start)
            clause = clause._replace(start=first, end=last)
        ahead = self._among(name.start + 1, name.end + 2 * _REACH)
        following = next((n.start for n in ahead if n.root != name.root), len(text))
        stop = clause.end
        # "d.o.b. 3 March" ends no sentence either.
        if stop <= name.end + 2 or _CLIPPED.search(text, max(name.end, stop - 6), stop):
            line = text.find("\n", stop)
            stop = len(text) if line < 0 else line
        limit = min(stop, following, name.end + _REACH)
        grown = _GROWN.search(text, name.start, min(len(text), name.end + 24))
        if grown is not None and name.composed:  # "my boy turned two"
            self._keep(self._day(*grown.span("age"), name, None, None))
        behind = _within(self._days, name.end, limit)
        if behind:
            over = min(clause.end, following, behind[-1][1] + _REACH)
            self._keep_days([*behind, *_within(self._days, behind[-1][1], over)], name)
            return
        if _BIRTHDAY.search(text, name.start, name.end):
            start, stop = max(0, name.start - _BACK), min(len(text), name.end + _BACK)
            start = max(start, text.rfind("\n", 0, name.start) + 1)
            for age in age_ordinals().finditer(text, start, stop):
                self._keep(self._day(*age.span(), name, None, None))
        figures = _SIX_FIGURES.match(text, name.end)
        if figures is not None:
            self._keep(self._day(*figures.span(1), name, None, None))
            return
        if self._keep_part(name, name.end, limit):
            return
        # A sentence that begins with the day; clauses may begin anew between it and the name.
        least = max(text.rfind("\n", 0, name.start) + 1, name.start - _BACK)
        ends = [m.end() for m in _SENTENCE.finditer(self._page.folded.text, least, name.start)]
        least = max([least, *ends])
        before = [day for day in _within(self._days, least, name.start) if day[1] <= name.start]
        if before:
            self._keep_days(before[-1:], name)
        elif not self._keep_part(name, least, name.start):
            self._dated_next(name)

    def _dated_next(self, name: FactName) -> None:
        """The day in the sentence behind a name: "My tracker died. The last one was on 3 May"."""
        _, last = self._stretches.sentence(name.start)
        first, end = self._stretches.sentence(min(last + 2, len(self._text)))
        if first <= last or self._among(first, end) or self._stretches.mark(first) == "?":
            return
        end = min(end, first + _REACH)
        goes_on = _GOES_ON.match(self._text, first, end) or _LAST_ONE.match(self._text, first, end)
        if goes_on is None:
            return
        days = _within(self._days, first, end)
        if days:
            self._keep_days(days, name)
        else:
            self._keep_part(name, first, end)

    def _keep_part(self, name: FactName, start: int, end: int) -> bool:
        """A day told by its month and year, its year, or how long ago it is."""
        part = part_of_day(self._text, start, end, name.language)
        if part is not None:
            self._keep(self._day(part.start, part.end, name, None, part.write))
        return part is not None

    def _keep_days(self, days: Sequence[tuple[int, int]], name: FactName) -> None:
        """The first of them is what is told; the others were told at other times."""
        for place, (start, end) in enumerate(days):
            said, write = (
                day_in(self._original(start, end), name.language) if place == 0 else (None, None)
            )
            self._keep(self._day(start, end, name, said, write))

    def _day(
        self, start: int, end: int, name: FactName, said: str | None, write: Writer | None
    ) -> Answer:
        computed = "" if name.root in self._words.kinds else str(name.root)
        end = past_weekday(self._text, end)
        return Answer(
            start=start,
            end=end,
            root=name.root,
            said=said,
            write=write,
            hole=DAY_HOLE,
            computed=computed,
        )

    # -- small things ---------------------------------------------------------------------------

    def _subject(self, at: int) -> str:
        return clause_at(self._clauses, at).subject

    def _title(self, name: FactName) -> str:
        return self._words.titles[name.root]

    def _original(self, start: int, end: int) -> str:
        first, last = self._page.folded.span(start, end)
        return self._page.original[first:last]

    def _keep(self, answer: Answer) -> bool:
        at = bisect_right(self._found, answer.start, key=_start)
        free = at == len(self._found) or answer.end <= self._found[at].start
        before = at - 1
        while free and before >= 0:  # past empty places, of which several may be one
            free = self._found[before].end <= answer.start
            if self._found[before].start < self._found[before].end:
                break
            before -= 1
        if free:
            self._found.insert(at, answer)
        return True


def _within(spans: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Of spans in order, those that begin between two places."""
    low = bisect_left(spans, (start,))
    return [*spans[low : bisect_left(spans, (end,), lo=low)]]


@functools.cache
def _known_words(group: Literal["pairs", "sexes"]) -> re.Pattern[str]:
    return re.compile(rf"(?:{either(pairs_of(group))})(?![^\W_]|[.,]\d)")


@functools.cache
def _options(group: Literal["pairs", "sexes"]) -> re.Pattern[str]:
    """Answers that forms have to choose from."""
    chosen = "f|m|w|female|male|woman|man|weiblich|mannlich"
    if group == "pairs":
        chosen = "yes|no|y|n|true|false|ja|nein|j|oui|non|si|sim|nao"
    return whole(chosen)


@functools.cache
def _sex_words() -> re.Pattern[str]:
    return whole(either(word for word in pairs_of("sexes") if len(word) > 1))


_JOINED: Final = r"[\\s_-]*(?:to|or|–)?[\\s_-]*"  # "2 to 4", "2-4"


@functools.lru_cache(maxsize=256)
def _answers_of(answers: tuple[str, ...]) -> re.Pattern[str]:
    """The answers of a category, whatever stands between their words."""
    spelt = [re.sub(r"(?:\\[ -]|_)+", r"[\\s_-]*", re.escape(fold_word(each))) for each in answers]
    for joint in ("to", "or"):
        spelt = [
            re.sub(rf"(?<=\d)\[\\s_-\]\*{joint}\[\\s_-\]\*(?=\d)", _JOINED, each) for each in spelt
        ]
    return whole("|".join(sorted(spelt, key=len, reverse=True)))


@functools.lru_cache(maxsize=256)
def _stems(answers: tuple[str, ...]) -> re.Pattern[str] | None:
    """Longer words that begin with an answer; None where answers are too short to tell."""
    if any(len(each) < _LEAST_ALONE for each in answers):
        return None
    spelt = [re.sub(r"(?:\\[ -]|_)+", r"[\\s_-]*", re.escape(fold_word(each))) for each in answers]
    return whole(rf"(?:{'|'.join(spelt)})-?[^\W\d_]{{2,8}}")


def _answer_in(answers: Sequence[str], written: str) -> str | None:
    return next((each for each in answers if _bald(fold_word(each)) == _bald(written)), None)


def _bald(text: str) -> str:
    return re.sub(r"(?<=\d)(?:to|or|–)(?=\d)|[\s_-]", "", re.sub(r"[\s_-]", "", text))


def _case(written: str) -> Callable[[str], str]:
    """How a word is written where this one stood."""
    if written.isupper():
        return str.upper
    return str.title if written[:1].isupper() else str


def _cased(kind: RootType, written: str) -> Callable[[str], str]:
    """The same for a category: where some answers begin with a figure, no case is told by all."""
    return str if any(each[:1].isdigit() for each in kind.answers) else _case(written)


def _one_of(one: str, other: str, case: Callable[[str], str]) -> Writer:
    return lambda _kind, number: case(one if number >= _HALF else other)


def _marked(meant: str | None, marks: tuple[str, str]) -> Writer:
    """The mark of the box for one answer of a category; a box for none of them stays empty."""
    return lambda kind, number: marks[0] if kind.written(number) == meant else marks[1]


def _worded(case: Callable[[str], str]) -> Writer:
    return lambda kind, number: (
        case(kind.written(number)) if case is not str else kind.written(number)
    )


def _always(word: str) -> Writer:
    return lambda _kind, _number: word


def _spouse(write: Writer) -> Writer:
    return lambda kind, number: f"their {write(kind, number)}"


def _titled(title: str, before: str = "") -> Writer:
    return lambda kind, number: f"{before}[{title}: {kind.written(number)}]"


# -- how days are written ---------------------------------------------------------------------


# -- when a number was told of ----------------------------------------------------------------
