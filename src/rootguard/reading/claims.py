"""Claims: of each number on a page, whose it is, which quantity, how sure, and why.

Names bind numbers (`mentions`); the clause says whose they are (`subjects`); the words around say
what is a date, a count, a limit or code (`ordinary`). What a name ties to a number is sure. A
number that nothing binds may still be the owner's: behind "it was" it is the quantity spoken of
last, in a conversation about several it is one of them. Beside a private word that no root goes by
it is left open. `DECISIONS` is the closed table of what becomes of each.

No rule looks at the person's values: one text is rewritten at the same places for everybody.

One text of a conversation leads a reader to expect something of the next. A question asks for
quantities and the owner's next number answers it; a name without a number, or the header of a
table, waits for what follows; a tool's result is about what its call names. A `Dialogue` goes along
with one conversation, text by text in order, and keeps names only.
"""

import functools
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from rootguard.language.fold import Spans, caseless, key_of
from rootguard.language.lists import read_lists
from rootguard.language.names import languages_of
from rootguard.language.numbers import WrittenNumber
from rootguard.language.units import canonical, currency_before, read_currency, read_period
from rootguard.reading.mentions import ComputedNames, RootMention, Values, bind, positional
from rootguard.reading.ordinary import OrdinarySort, Surroundings, TestedLines, sorts
from rootguard.reading.page import Column, Measure, Page, wording
from rootguard.reading.subjects import Clause, Whose, clause_at, clauses, kin, oneself, persons
from rootguard.values import RootName

Source = Literal["owner", "trusted", "tool", "model", "developer"]
"""Who wrote a text: the owner, a tool that the owner's policy trusts, another tool, the model, or
whoever wrote the prompt and the schemas."""
Standing = Literal["owner", "likely", "open", "other", "nobody"]
"""The owner's for sure; likely the owner's; perhaps the owner's; another person's; nobody's."""
Reason = Literal[
    "named",
    "asked",
    "spoken_of",
    "one_of_several",
    "formula",
    "by_unit",
    "private_word",
    "own_clause",
    "another_person",
    "general",
    "unbound",
    "answer",
    "weighed",
    OrdinarySort,
]
Decision = Literal["release", "redact", "doubt", "keep"]

_Decided = tuple[Decision, Decision]
# What is done if the quantity has a released value, and if it has none.
_LEARN: Final[_Decided] = ("release", "release")  # the number that stands there is noised now
_HIDE: Final[_Decided] = ("release", "redact")
_REPLACE: Final[_Decided] = ("release", "keep")
_DOUBT: Final[_Decided] = ("doubt", "doubt")
_KEEP: Final[_Decided] = ("keep", "keep")


def _row(owner: _Decided, likely: _Decided, unclear: _Decided) -> Mapping[Standing, _Decided]:
    """By standing, for one source. What is not the owner's is kept, whoever wrote it."""
    return {"owner": owner, "likely": likely, "open": unclear, "other": _KEEP, "nobody": _KEEP}


DECISIONS: Final[Mapping[Source, Mapping[Standing, _Decided]]] = {
    "owner": _row(_LEARN, _HIDE, _DOUBT),
    "trusted": _row(_LEARN, _HIDE, _DOUBT),
    "tool": _row(_HIDE, _HIDE, _DOUBT),
    "model": _row(_HIDE, _REPLACE, _KEEP),
    "developer": _row(_HIDE, _KEEP, _KEEP),
}
"""What becomes of a number. `doubt` is refused or redacted, as the owner's profile says."""

_WORD = re.compile(r"[^\W\d_]+")
_LONE_WORD = re.compile(r"(?<![\w.@/-])[^\W\d_]+(?![\w/@]|\.\w)")  # not "example.org"
_SENTENCE: Final = 160  # characters on either side that are looked at for "it" and "that"
_FEW_WORDS: Final = 8  # of a message that only goes on with what was said
_TERSE: Final = 80  # characters of a text that speaks of nobody and is taken for the owner's own
_FEW_CONTENT: Final = 2  # words of a clause beside names, units and small words: a record, no story
_FAR_OUTSIDE: Final = 3  # times: twice the tallest of a survey is a mistake, not yet a tower
_MOST_NAMED: Final = 2  # quantities in one sentence; more are a person's record
_MOST_CONTENT: Final = 5  # words of a sentence that is still no more than a record
_LOOKED_AT: Final = 16  # names of a clause
_BARE: Final = 12  # characters between two names of a list
_LONGEST_HEADER: Final = 400  # characters: forty columns; a longer line is prose with commas
# "10-35", "10 - 35", "<200", ">= 50" in a later column, which blanks, a bar or a bracket open.
_LIMIT_AFTER = re.compile(r" ?[-–] ?\d")
_LIMIT_BEFORE = re.compile(r"(?:(?<![-=])[<>≤≥]=? ?|\d ?[-–] ?)\Z")
_COLUMN = re.compile(r"\s{2,}|\t|[|;(\[]")
_UNIT_GAP = re.compile(
    r" ?(?:(?:x ?)?10[\^e*]?\d{1,2})?[^\W\d_]{0,5}(?:/[^\W_]{1,4})(?: [hl]\*?)? (?:\d+ ?[-–] ?)?"
)
_OWN_LINE = re.compile(r"\n[ \t(\[]*(?:\d[\d.,]* ?[-–] ?)?\Z")
_RANGE_LINE = re.compile(
    r"[ \t(\[]*\d[\d.,]* ?[-–] ?\d[\d.,]*[ \t)\]]*(?:[^\W\d_/]{1,5}/[^\W_]{1,3})?[ \t]*(?:\n|\Z)"
)
_BLANK = re.compile(r"[ \w/%^()]{0,24}[:=][ :=_\[\]]*(?:\n|\Z)")
_MEMBER = re.compile(r"\bname[\"']?\s?[:=]\s?[\"']([^\"'\n]{1,40})[\"']")
_THING_KEY = re.compile(r"\b(?:product|sku|brand|price|breed|species)[\"']?\s?[:=]")
_AGES = re.compile(
    r"\b(?:ages?|weights|heights|incomes|salaries)[\"']?\s?[:=]\s?\[\s?[\d.]+\s?,\s?[\d.]+\s?,"
)
_KEYED = re.compile(r"([^\W\d_][\w-]*)[\"'`*]{0,3}\s?[=:]\s?[\"'`*]{0,3}\Z")
_JUST_ME = re.compile(
    r"(?:\A|[,;.(/&\n]\s?|\b(?:and|but|vs|versus|so|for)\.? )(?:me|myself)[:=]?\s\(?\Z"
)
_AM_AT = re.compile(  # "I'm sitting at 6.1", "I was over 200", "currently 83.5", "54 here"
    r"\bi (?:was|am|got)(?: still| once| already)*(?: over| under| nearly| up to| down to) \Z|"
    r"\b(?:i'?m|i am|we're)(?: [^\W\d_]+){0,3} (?:at|around|about|near)(?: like)? \Z"
    r"|(?:\A|[.,;:!?(]\s?)(?:currently|actual|actually|now|reality is|right now|today|presently)"
    r"[:=]? (?:at )?\Z"
)
_HERE_AFTER = re.compile(r" here\b(?! (?:are|is|we))")
_BEFORE_ME: Final = 24
"""Characters in which it stands: "versus. myself: " has 16."""
_FINDING = re.compile(  # who asks so asks of a finding: "Is 214 high?"
    r"\W*(?:(?:so|and|hi|hey|hello|um|ok)\W+)*is (?:an? )?\d[\d.,/]*(?: ?%| [a-z]+/[a-z]+)?"
    r" (?:too |very |really |a bit |a little |still |considered )*(?:high|low|normal|bad|ok|okay"
    r"|elevated|dangerous|healthy|borderline|abnormal)\W*"
)
_ANY_VALUES = re.compile(  # "I need some numbers from your last blood test."
    r"\b(?:your|you have|you know|need|share|send|paste|give me|list|have)\b[^.?!\n]{0,40}"
    r"\b(?:values|numbers|measurements|labs|lab results|results|readings|figures|vitals|inputs)\b"
    r"[^.?!\n]{0,60}[.?:]?\W*\Z"
)
_AGE_ASKED = re.compile(  # "Are you over 50?"
    r"\bare you (?:already |still )?(?:over|under|above|below|older than|younger than|at least) \d"
)
_FOR_ANY = re.compile(r" (?:for|of) an? (?!\d|[a-z]+ (?:like me|my age))")
_DEFINES = re.compile(r"\b(?:struct|interface|trait|enum|class) [a-z_]\w* ?[:{(]|\bfn main\(")
_RANGE_BEFORE = re.compile(r"\d ?(?:[-–]|to|and) ?\Z")
_RANGE_RULE = re.compile(r" ?(?:[-–]|to|and) ?\d")
_ARTICLE = re.compile(r"\b(?:an?|the|this|that|each|per)[ -]\$?\Z")
_OPERATOR = re.compile(r"\d\s?[*×·x/+−]\s?\(?\d|\)\s?[*×·/+−]|sqrt|\d\s?=\s?\d")
# What no calculation is written with, beside numbers, signs, brackets and short names.
_NO_TERM = re.compile(
    r"[^\W\d_]{7,}|,(?!\d)|[^\w\s.,()\[\]{}+*/×·÷^√%$€£≈~=−–-]|\.(?=\s)|\n|[?!;:]"
)
_BESIDE = re.compile(r" ?[^\W\d_]{0,7}\.?[\"']{0,2} ?[,;/|&+-]? ?(?:and |at |@ ?)?")
_ATTRIBUTE = re.compile(r"[ -]?([^\W\d_]{1,6}?)?[ -]([^\W\d_]{3,})(?![^\W_])")
_THOUSANDS = re.compile(r" ?(?:k|thousand|grand)(?![^\W_])(?!/(?:u|mm|mcl|cu))")
_KNOWN_AMOUNT = re.compile(r"\b(?:the|this|that|my|our) [$€£]?\Z")
_TOLD_OF = re.compile(
    r"k? (?:[a-z]{2,}ing (?:in|on|at|around|there)|from|which|that|i|we|left|saved)\b"
)
_CHOICE = re.compile(  # a unit may stand behind either
    r"\b(?:which|choos\w+|sizes?)\b[^.?!\n]{0,80}?"
    r"(\d[\d.]*(?: ?[a-z]{1,4})? (?:or|oder|ou|o|czy) (?:an? |the )?\d[\d.]*)"
)
_USUAL = re.compile(r"(?<!my )(?<!mine )\b(?:normal|typical|usual|ideal|healthy|recommended) \Z")
_CELL_CONSTANT = re.compile(r"=[a-z_(][\w()*/+. -]{0,40}[*/×÷] ?\Z")  # =B2*C2/405
_CONSTANT = re.compile(r"[a-z_]\w* ?[*/×÷+-] ?\Z")
_HYPHEN = re.compile(r" ?[-–—] ?")
_TIMES_NAME = re.compile(r" ?[*×·] ?[a-z_]{2,}")
_BY_NUMBER = re.compile(r"[a-z_]{2,} ?(?<!\*)[*×·] ?[a-z_]{2,} ?[/÷] ?\Z")
_MINE_AFTER = re.compile(
    r"(?: ?[^\W\d_]{1,5}(?:/[^\W_]{1,4})?)?(?: is| are| =)? \(?mine\b(?! (?:is|was|are)\b|:| ?\d)"
)
_GOALS: Final = frozenset(
    ("goal", "target", "want", "wanted", "aim", "ideal", "ziel", "objectif", "meta")
)
_IN_BRACKETS = re.compile(r"([^\W\d_]+) \(\Z")
_EXPONENT = re.compile(r"(?:\*\*|\^) ?\Z")
_PAIR = re.compile(r" ?/ ?| (?:over|su|sur|sobre|zu|auf|op|por|na) ")
_OVER: Final = ("over", "su", "sur", "sobre", "zu", "auf", "op", "por", "na")  # "134 su 86"
_SEX_AFTER = re.compile(
    r" ?[MF](?=[ ,.;)/]|\Z)(?! ?(?:users|views|people|rows|USD|EUR))|/[MFmf]\b"
    r"|,? ?(?:male|female|man|woman|Male|Female)\b"
)
_SEX_BEFORE = re.compile(r"(?:\b[MF][/ ]?|\b[mf]/|\b(?:[Mm]ale|[Ff]emale|[Mm]an|[Ww]oman),? )\Z")
_LETTERED = re.compile(r"(?<![^\W_])([hwa])(?:\s?[:=]\s?|\s)\Z")
_LETTERED_NUMBER = re.compile(r"(?<![^\W_])([hwa])(?:\s?[:=]\s?|\s)\d")
_MISTYPED_AGE = re.compile(r" ?[^\W\d_]{3,7}[ -]old(?![^\W_])")  # "54 yeras old"
_MONTHS_OF = re.compile(  # "4.2 months of emergency fund", "a 6 month emergency fund"
    r"[ -]?(?:months?|weeks?|years?)(?:'s?)?"
    r"(?:(?: worth)? (?:of|in|on|with)(?: my| our| the| an?)?)?(?: living)? "
)
_MONTHS = re.compile(r"[ -]?(?:months?|weeks?|years?)(?![^\W_])")
_LASTS = re.compile(  # "enough savings for 4.2 months", "my fund is enough to last me 4 months"
    r"(?: (?:would|will|can|should|could|that|is|built|up|already|and|have|has|enough|to)){0,7}"
    r" ?(?:for|lasts?|cover|covers)(?: me| us)?(?: for)?(?: about| around)? "
)
_NO_ECHO = re.compile(  # "150 or less", "70 to 99", "40 is the upper limit", "50/30/20"
    r" ?(?:[-–+/]|to \d|or [a-z]|and (?:above|over|up|below|under|more|less|higher|lower|\d)"
    r"|(?:is|was|would be) (?:the|an?) (?:upper|lower|usual|normal|typical|common|limit|cut|target"
    r"|goal|threshold|recommended|maximum|minimum|average|healthy|good rule))"
)
_WISH = re.compile(  # what somebody is yet to have: "until I have 50k", "I want to save 20,000"
    r"(?:\b(?:until|till|unless|once|before|when) (?:i|we) (?:have|hit|reach|get to|own|save|saved)"
    r"|\b(?:want|wants|hope|aim|plan|like|love|trying|going|need|able|enough) to"
    r" (?:have|reach|save|get|hit|buy|borrow|invest|own|withdraw|be(?: at)?)"
    r"|\b(?:save|saving|saved) up(?: for)?"
    r"|\b(?:how (?:do|can|could|would|should) (?:i|we)"
    r"|(?:want|need|like|hope|plan|trying|going|aim) to)"
    r" (?:get|bring|lower|reduce|raise|push|drop)(?: (?:it|this|that|them|my [a-z]+))?"
    r"(?: (?:down|up|back))? (?:to|below|under|above))"
    r"(?: (?:up|to|about|around|at least|a|an|another|roughly|some)){0,2} ?[$€£]?\Z"
)
_EXAMPLES = re.compile(r"\b(?:few[- ]?shots?|examples?|samples?|demos?)\b[^\n]{0,40}:[ \t*]*\n")
_COUNTED = re.compile(
    r"\b(?:how (?:many|often|far|long|hard|bad)|number of|what (?:time|date|size|year)|scale of"
    r"|which (?!one))[^?\n]{1,120}\?\W*\Z"
    r"|\b(?:price|rent|fare|cost|budget)(?: range| limit| cap)?\?\W*\Z"
)
_PAY = re.compile(
    r"\)?( ?k| grand| thousand)?(?: ?[$€£]| (?:usd|euros?|eur|dollars|gbp|pounds)\b)?"
    r"(?: (?:gross|net|netto|brutto|brut|before tax|after tax|pretax))? ?(?=\S)"
)
_AGE_THEN = re.compile(  # an age at another time: "since I was 17", "diagnosed at the age of 25"
    r"(?:\b(?:when|since|until|till|before|after|once|while|whenever|by the time|from when)"
    r" (?:i|we|you|he|she|they) (?:was|were|turn|turned|hit|reach|reached|am|are|get to)"
    r"(?: only| just| about| around| like| maybe| roughly| barely)*"
    r"|\b(?:since|from|until|till|before|after)(?: the| my)?(?: age(?: of)?)?"
    r"|\b(?:diagnosed|retire|retires|retired|retiring|retirement|pension|died|married|divorced"
    r"|widowed|graduated|graduate|quit|born|kids|menopause|paid off|debt free|first [a-z]+)\b"
    r"[^.,;:!?\n]{0,40}"
    r" (?:at|by)(?: the)?(?: age(?: of)?)?(?: about| around| like)?) \Z"
)
_AGE_WORDS = re.compile(
    r"\b(?:i|we|you|he|she|they) (?:was|were|turn|turned|hit|reach|reached|am|are|get to)\b"
    r"|\bage\b|\b(?:at|by) "
)
_TURNED_NOW = re.compile(  # "when I turned 54 last month" is the age of today
    r"(?: years? old)?,? (?:last|this|today|yesterday|on|just now|recently"
    r"|in (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"
)
_YEARS_THEN = re.compile(
    r" ?-?(?:years?|yrs?|yo|y/o)?(?:[ -]old| of age)?(?:[.,;:!?)\n]|\Z| [a-z])"
)
_WAS_OLD = re.compile(r"\bi was(?: only| just| about| around| like)* \Z")
_OLD = re.compile(r" ?(?:years?|yrs?)[ -]old\b")
_OLDEST: Final = 120  # years; one person is known to have become older
_AT_AGE = re.compile(
    r"(?:\A|[.!?,;\n]\s{0,2})(?:(?:and |but |so |now )?at|being|as of) \Z|\bbeing \Z"
)
_AT_THAT_AGE = re.compile(  # "switching careers at 54": of a time of life, not of a meeting
    r"\b(?:[a-z]{2,}ing(?<!retiring)(?: [a-z]+){0,2}|me|so|single|divorced|pregnant|alone|again"
    r"|careers?|school|shape|fit|life|job|desk) at \Z|(?:\A|[.!?,;:\n] ?)at \Z"
)
_AFTER_AGE = re.compile(
    r" ?(?:[,.;:!?)\n]|\Z"
    r"|(?:with|i|and i|but|because|already|still|do|am|is|are|every|it|that|you|my)\b)(?!\d)"
)
_AGE_AFTER_NAME = re.compile(r" ?(?:, ?|\( ?|: ?)\Z")
_AT_AGE_DOES = re.compile(r",? (?:i|i'm|im|i've|my|and (?:\d+|i|[a-z]+ing)|years)\b|, ")
_OPENS = re.compile(r"(?:\A|[.!?)]\s{1,2}|\n)\Z")
_SAID_ALONE = re.compile(r",(?= ?[^\W\d_]| \d)|\.(?=\s|\Z)| ?(?=\n|\Z)")
_EARNS = re.compile(
    r"\bi (?:only |just |still |now |currently |barely )*"
    r"(?:get|clear|net|gross|make|earn|pull in|take)"
    r"(?: only| just| about| around| roughly| maybe)* ?[$€£]?\Z"
)
_PAID = re.compile(  # pay is before or after tax: "6020 euros net a month", "85k gross a year"
    r"( ?k| grand| thousand)?(?: ?[$€£]| (?:usd|euros?|eur|dollars|gbp|pounds)\b)?"
    r" (?:gross|net|netto|brutto|bruto|brut|before tax|after tax|pretax)\b"
)
_FLOWS: Final = {"in": "income", "out": "spending"}
_FLOW_AFTER = re.compile(
    r"(?: (?:is|comes|came|goes|went|coming|going))? (in|out)\b(?! of\b| ?[:=$€£\d])"
)
_FLOW_BEFORE = re.compile(r"(?<![^\W_])(in|out)(?:\s?[:=]\s?|\s)[$€£]?\Z")
_SHARE_OF = re.compile(  # "39% of what I earn"
    r" ?(?:%|percent|per cent) of (?:what (?:i|we) (?:earn|make|get|bring)"
    r"|(?:my|our)(?: [a-z-]+)? (?:income|salary|pay|paycheck|wages?|earnings|savings))(?![^\W_])"
)
_ROOTS: Final = frozenset(("sqrt", "math", "np", "pow"))
_MADE_OF = re.compile(
    r"\b(?:ratio|quotient)[:=]?"
    r"(?: (?:is|was|of|comes? (?:out )?(?:to|at)|came (?:out )?(?:to|at|as)|would be|equals|about"
    r"|around|roughly|just|only))* ?[:=≈~]? ?\Z"
)
_BRACKET = re.compile(r"(?: ?[-–] ?\d+)? (?:age )?(?:bracket|age group|age band)\b")
_AIM = re.compile(  # what somebody is after is not what they have
    r"\b(?:target|goal|cutoff|threshold|desirable|uln|lln|bracket|want|dream|chart)"
    r"(?: [a-z][a-z0-9]{0,11}){0,2}[:= ]{1,3}(?:[<>≤≥]=? ?|\d+ ?[/–-] ?)?\Z"
)
_WANTED = re.compile(  # "GP wants chol under 5", "what would I need to weigh to be under 25"
    r"\b(?:wants?|wanted|should|needs? to|must|supposed to|aim(?:ing)? (?:for|to)|hop(?:e|ing) to"
    r"|trying to|like to|love to|want to"
    r"|(?:keep|stay|get|bring|drop|lower|push) (?:it|this|that|my))"
    r"\b[^.;!?\n\d]{0,40}\b(?:under|below|above|over|less than|more than|at least|at most|down to"
    r"|up to|be at|weigh|reach|between)(?: about| around)? ?[<>≤≥]? ?\Z"
)
_YOU_HAVE = re.compile(
    r"(?:\A|[.,;:!?\n] ?|\b(?:if|when|say|so|and|or|that|once) )"
    r"(?:you're (?:making|earning|paying)|you (?:make|earn|weigh|owe|spend|bring home|take home)) "
    r"[^.;!?\n\d]{0,32}\Z"
)
_SPAN_BEFORE = re.compile(r"\d[\d.,]* ?[-–] ?\Z")
_INTENT = re.compile(  # "planning on putting 3k", "hope to be out by 52"
    r"\b(?:plan|plans|planning|hope|hopes|hoping|want|wants|wanted|aim|aiming|trying|going|looking"
    r"|like|love|considering|thinking)"
    r"(?: to| on| of| about|(?<=considering))"
    r"(?: (?!(?:and|but|i|my|our|with|from|because|since|when|as|so|now|know|leave|weigh|weighing"
    r"|make|making|earn|earning|if|why|where|bed|work)\b)[a-z-]+){1,5}"
    r"(?<! a)(?<! the) ?[$€£]?\Z"
)
_TO_GO = re.compile(  # what is still to be lost: "another 50 to lose", "80 pounds to go"
    r" ?(?:lbs?|pounds?|kgs?|kilos?|stone)?\.? (?:more )?(?:left )?to (?:go|lose|gain)\b"
)
_SUPPOSED = re.compile(
    r"\b(?:what|only|even|as) if (?:i|my [a-z]+|we)"
    r" (?:earned|made|weighed|had|were|was|saved|spent)\b[^.;!?\n\d]{0,24}\Z"
    r"|\b(?:pretend|imagine|suppose|supposing|say|assume|assuming)(?: that)? (?:i|my [a-z]+|we)"
    r" (?:earned|made|weighed|had|were|was|saved|spent)\b[^.;!?\n\d]{0,24}\Z"
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_TELLS_BACK = re.compile(  # "30. That's my ALT."
    r"[.!,;]? (?:(?:that|this|it)(?:'s| is| was)|those are|these are) (?:my |the |for )*"
)
_COMPUTED_SORTS: Final = frozenset(("value", "share", "price", "label"))
_ENGLISH: Final = frozenset(("the", "of", "and", "this", "with", "for", "that", "import", "return"))
_ENGLISH_FIRST: Final = frozenset(("i", "my", "mine", "our", "ours", "ma", "mi"))
_FOREIGN_LETTER = re.compile(r"[\u0370-\u1fff\u3040-\u9fff\uac00-\ud7af]")
_RECORD: Final = 3  # laboratory quantities with numbers: as many as a formula has, a person's
_FEW: Final = 10  # a whole number up to here counts things more often than it measures
_MANY: Final = 1000  # from here on a number without a unit is rather money than a count
_TWO: Final = 2  # letters, or ways of money: one alone may stand for anything
_CELL_WORDS: Final = 4  # of a header's cell: "fasting glucose (mg/dL)"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Claim:
    """One number of a text: where it stands, whose it is, and why. Private, as its mention is.

    `root` is the quantity if it is known; `mention` says how a released value is written there.
    """

    start: int
    end: int
    standing: Standing
    reason: Reason
    root: RootName | None = None
    mention: RootMention | None = None
    computed: str = ""
    """The computed value that it is, by the name that it goes by here ("fib4")."""
    idle: bool = False
    """Whether it is a small number word, which is seldom a value: "two ways"."""
    writing: str = ""
    """How a computed value is written here: the number itself, so private."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """What the texts before lead a reader to expect: names of quantities, no values.

    `asked` are quantities that a question, a call of a tool or a name without a number stands for,
    in order; `mentioned` are those that the other side named without asking, which only an answer
    of nothing but numbers is taken to be about; `topic` are the owner's quantities that were spoken
    of, the last one last, and `recent` those of the owner's last words, which a model says again
    first. `header` is the header line of a table that goes on here. `worked`: it
    is what a calculation on the owner's values is given, or its result. `elsewhere`: a count, a
    choice or a price was asked for, which is no quantity. `any_values`: values were asked for, and
    nobody said which.
    """

    asked: tuple[RootName, ...] = ()
    mentioned: tuple[RootName, ...] = ()
    topic: tuple[RootName, ...] = ()
    recent: tuple[RootName, ...] = ()
    header: str = field(default="", repr=False)
    worked: bool = False
    elsewhere: bool = False
    any_values: bool = False


NOTHING: Final = Expectation()


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """What a text leaves to later ones: names of quantities, no values."""

    numbers: bool = False
    """Whether there is a number in it."""
    answered: tuple[RootName, ...] = ()
    """Those of the quantities that were asked for which have a number here."""
    spoken_of: tuple[RootName, ...] = ()
    """The owner's quantities that it names, in order."""
    named: tuple[RootName, ...] = ()
    """All quantities that it names, in order."""
    asked: tuple[RootName, ...] = ()
    """The quantities that it asks the other side for, in order."""
    anothers: tuple[RootName, ...] = ()
    """The quantities of somebody else that it asks for or tells: "How old is your father?"."""
    asks: bool = False
    """Whether it asks for something, by name or not."""
    any_values: bool = False
    """Whether it asks for values without saying which: "What are your measurements?"."""
    elsewhere: bool = False
    """Whether it asks for a count or a choice, which is no quantity: "How many children?"."""
    dangling: tuple[RootName, ...] = ()
    """The quantities that it names at its end without a number."""
    header: str = field(default="", repr=False)
    """Its last line, if that is the header of a table whose rows have not come yet.

    These are the writer's own words, a name perhaps among them, so no repr shows them.
    """


SILENCE: Final = Heard()


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TextReading:
    """The claims of a text, in order, and what it leaves to later texts.

    `clauses` and the `sorts` of the page's numbers are what the rules saw, for who weighs them.
    """

    claims: tuple[Claim, ...]
    heard: Heard
    clauses: tuple[Clause, ...] = ()
    sorts: tuple[OrdinarySort, ...] = ()


@functools.cache
def _lists() -> Mapping[str, frozenset[str]]:
    content = read_lists("rootguard.reading", "claims.toml")
    return {key: frozenset(words) for key, words in content.items()}


@functools.cache
def _either(*names: str) -> frozenset[str]:
    """The words of several lists, or of `wording`."""
    lists: Mapping[str, Any] = {**wording(), **_lists()}
    return frozenset().union(*(lists[name] for name in names))


def read_claims(
    page: Page,
    *,
    source: Source,
    taken: Sequence[tuple[int, int]] = (),
    owner_names: Collection[str] = (),
    expectation: Expectation = NOTHING,
    begin: int = 0,
) -> TextReading:
    """The claims of a page from `begin` on; `taken` are identifiers, in places of the original.

    What stands before `begin` is context: a key, a header, the question before an answer.
    """
    return _Reader(page, source, Spans(taken), owner_names, expectation, begin).read()


class _Reader:
    """Reads one page. What it gathers on its way is of use to it alone."""

    __slots__ = (
        "_definition",
        "_exercise",
        "_flows",
        "_last_clause",
        "_letters",
        "_own_rows",
        "_patient",
        "_people",
        "answered",
        "awaited",
        "begin",
        "bound",
        "calls",
        "cells",
        "expected",
        "foreign",
        "formulas",
        "last",
        "named",
        "names",
        "near",
        "owned",
        "owner_names",
        "page",
        "personal",
        "recorded",
        "said",
        "single",
        "source",
        "taken",
        "tested",
        "values",
        "written",
    )

    def __init__(
        self,
        page: Page,
        source: Source,
        taken: Spans,
        owner_names: Collection[str],
        expected: Expectation,
        begin: int,
    ) -> None:
        self.page = page
        self.source: Source = source
        self.taken = taken
        self.owner_names = owner_names
        self.expected = expected
        self.begin = begin
        self.said: tuple[Clause, ...] = ()
        self._last_clause: Clause | None = None
        self.near: Surroundings | None = None
        self.formulas: ComputedNames | None = None
        self.names: list[tuple[int, int, RootName]] = []
        self.awaited: list[RootName] = []
        self.answered: list[RootName] = []
        self.bound: set[int] = set()
        self.owned: set[RootName] = set()
        self.single: bool = False
        self.last: int = -1
        self.personal: bool = False
        self.recorded: bool = False
        self.foreign: bool = False
        self.calls: Mapping[int, RootName | None] = {}
        self.tested = TestedLines(page.plain)
        self.values = Values(page)
        self.named = self.written = Spans()
        self.cells: list[tuple[int, int, Column]] = sorted(
            ((cell.start, cell.end, column) for column in page.columns for cell in column.cells),
            key=lambda cell: cell[0],
        )
        self._own_rows: dict[int, bool] = {}
        self._patient: int | None = None
        self._people: bool | None = None
        self._definition: bool | None = None
        self._exercise: bool | None = None
        self._letters: frozenset[str] | None = None
        self._flows: frozenset[str] | None = None

    def read(self) -> TextReading:
        page = self.page
        self.said = clauses(page, self.owner_names)
        self.personal = (
            bool(self.expected.topic)
            or any(clause.subject == "owner" for clause in self.said)
            or (self.source == "owner" and not _lists()["first"].isdisjoint(page.runs.words))
        )
        # In a language of which fewer words are known, the owner's own clauses are doubted.
        self.foreign = (
            self.source == "owner"
            and _ENGLISH.isdisjoint(page.runs.words)
            and (
                bool(languages_of(page.runs.words))
                or not (_lists()["first"] - _ENGLISH_FIRST).isdisjoint(page.runs.words)
                or _FOREIGN_LETTER.search(page.plain) is not None
            )
        )
        sorted_numbers = list(zip(page.numbers, sorts(page, self.said), strict=True))
        self.names = [
            (name.start, name.end, root)
            for name in page.names
            if not name.subject and not name.everyday
            for root in name.roots
            if root is not None
        ]
        self.written = Spans((n.start, n.end) for n in page.numbers if n.sort == "words")
        self.named = Spans((start, end) for start, end, _ in self.names)
        bindings = bind(page)
        self.bound = set(bindings.bound)
        by_place = {mention.place: mention for mention in bindings.mentions}
        measures = page.vocabulary.measures
        told = {m.root for m in bindings.mentions if not measures[m.root].everyday}
        self.recorded = len(told) >= _RECORD
        self._add_everyday(bindings.mentions)
        named = {mention.root for mention in bindings.mentions}
        asked = self.expected.asked
        if not asked and self.expected.mentioned and self._is_bare():
            asked = self.expected.mentioned
        self.awaited = [root for root in asked if root not in named]
        self.answered = [root for root in asked if root in named]
        self.single = len(set(asked)) == 1
        self.calls = positional(page, self.owner_names)
        self._await_rows(sorted_numbers)
        claims = []
        again = []
        for number, sort in sorted_numbers:
            start, end = page.folded.span(number.start, number.end)
            if end <= self.begin or number.sort == "hole" or self.taken.meet(start, end):
                continue
            mention = by_place.get(number.start)
            tested = self.tested.has(number.start)
            result = None if tested else self._computed(number, sort, start, end, called=True)
            if result is not None:
                claims.append(result)
            elif mention is not None:
                claims.append(self._bound(mention, number, sort))
            elif number.start not in self.bound:  # else the inches of feet and inches
                claim = self._unbound(number, sort, start, end)
                if claim.mention is not None and claim.mention.form.minor:
                    self._skip_minor(number)  # "13st 2" is one weight
                claims.append(replace(claim, idle=True) if self._is_idle(number) else claim)
                if claim.reason == "unbound" and number.value is not None:
                    again.append((len(claims) - 1, number))
        # "Ignore the 6.7. The repeat HbA1c is 6.1": what is named later tells of what came before.
        for at, number in again if self.owned or self._names_one() else ():
            start, end = claims[at].start, claims[at].end
            whose = self._clause(number).subject
            later = self._spoken(number, whose, start, end) or self._open(number, whose, start, end)
            claims[at] = replace(later, idle=claims[at].idle)
        heard = Heard(
            numbers=bool(claims),
            answered=tuple(self.answered),
            spoken_of=self._spoken_of(),
            named=tuple(
                dict.fromkeys(
                    r for at, _, r in self.names if self._inside(at) and not self._is_of_another(at)
                )
            ),
            asked=self._asked(of_another=False),
            anothers=self._asked(of_another=True) or self._of_others(),
            asks=any(clause.addressed for clause in self.said),
            any_values=self.source == "model" and _ANY_VALUES.search(page.plain) is not None,
            elsewhere=self.source == "model"
            and (_COUNTED.search(page.plain) is not None or self._asks_of_kin()),
            dangling=self._dangling(),
            header=self._header(),
        )
        return TextReading(
            claims=tuple(claims),
            heard=heard,
            clauses=self.said,
            sorts=tuple(sort for _, sort in sorted_numbers),
        )

    def _clause(self, number: WrittenNumber) -> Clause:
        """The clause of a number; a dozen rules ask for that of the same number in turn."""
        clause = self._last_clause
        if clause is None or not clause.start <= number.start < clause.end:
            clause = self._last_clause = clause_at(self.said, number.start)
        return clause

    def _names_one(self) -> bool:
        """Whether a few own words name one quantity alone: "is 214 much? total chol, my test"."""
        if not self.personal or len(self.page.plain) > _TERSE or self.source != "owner":
            return False
        roots = {root for _, _, root in self.names}
        if len(roots) != 1 or any(clause.subject in ("other", "nobody") for clause in self.said):
            return False
        self.owned |= roots
        return True

    def _add_everyday(self, mentions: Sequence[RootMention]) -> None:
        """Everyday words that have a number after all: "He makes 9200. I only get 7083."."""
        for name in self.page.names:
            if name.subject or not name.everyday:
                continue
            at = bisect_left(mentions, name.end, key=lambda mention: mention.place)
            mention = mentions[at] if at < len(mentions) else None
            if mention is None or mention.root not in name.roots:
                continue
            if mention.place - name.end <= _SENTENCE // 4:
                self.names.append((name.start, name.end, mention.root))
        self.names.sort()

    # -- bound by a name ---------------------------------------------------------------------

    def _bound(self, mention: RootMention, number: WrittenNumber, sort: OrdinarySort) -> Claim:
        standing: Standing = "owner"
        reason: Reason = "named"
        whose = self._clause(number).subject
        if _MINE_AFTER.match(self.page.plain, number.end):
            self.owned.add(mention.root)  # "WBC 6.2 is my husband's, PLT 220 is mine"
        elif (
            whose == "other"
            or (whose == "unsaid" and self._is_after_patient(number))
            or self._is_in_anothers_record(number)
            or self._is_anothers_cell(number)
        ):
            standing, reason = "other", "another_person"
        elif self._is_goals_cell(number):
            standing, reason = "nobody", "range"
        elif (
            whose == "nobody"
            or self._is_in_table_of_things(number)
            or self._is_example(number, whose)
            or self._is_checked(number)
            or self._is_exercise()
            or (whose == "unsaid" and self._is_about_nobody(number, mention))
            or (
                whose == "unsaid"
                and self.page.vocabulary.measures[mention.root].everyday
                and self._is_of_you(number)
            )
        ):
            standing, reason = "nobody", "general"
        elif (
            self._is_reference(number)
            or self._is_aim(number)
            or self._is_usual(number)
            # A prompt knows values; a range in it is a rule, whomever else it speaks of.
            or (self.source == "developer" and self._is_in_range(number))
        ):
            standing, reason = "nobody", "range"
        elif self._is_coefficient(number):
            standing, reason = "nobody", "arithmetic"
        elif self._is_supposed(number):
            standing, reason = "nobody", "general"
        elif self._is_edition(number, mention):
            standing, reason = "nobody", "date"
        elif (
            sort != "value"
            and not (sort == "count" and _MISTYPED_AGE.match(self.page.plain, number.end))
            and not (sort == "count" and mention.stated and whose == "owner")  # "178 centimeters"
            and not mention.form.minor
            and not self._is_second(number)
            and not (whose == "owner" and sort in _lists()["owned_sorts"])
        ):
            standing, reason = "nobody", sort
        elif self._is_past_age(number):
            standing, reason = "nobody", "date"
        else:
            self.owned.add(mention.root)
            self.last = number.end
        return _claim(mention, standing, reason)

    def _is_of_you(self, number: WrittenNumber) -> bool:
        """Whether the owner tells others how it would be for them: "You make 50k and rent"."""
        if self.source != "owner":
            return False
        start = max(self._clause(number).start, number.start - _SENTENCE // 2)
        return _YOU_HAVE.search(self.page.plain, start, number.start) is not None

    def _is_about_nobody(self, number: WrittenNumber, mention: RootMention) -> bool:
        """Whether its sentence tells of something else than a few values, and nobody says "I".

        "AST 23, ALT 30" is a record, and a record in the owner's words is the owner's. "Compare the
        careers of Messi and Ronaldo at age 30" is not. What a laboratory measures is a person's;
        ages, sizes and amounts have many things.
        """
        measure = self.page.vocabulary.measures[mention.root]
        everyday = measure.everyday
        if everyday and _FOR_ANY.match(self.page.plain, self._name_end(number)):
            return True
        if self.personal or self.source not in ("owner", "developer"):
            return False
        measures = self.page.vocabulary.measures
        beside = self._named_near(number) & self.owned
        if self.source == "owner" and any(not measures[root].everyday for root in beside):
            return False  # beside a laboratory's finding a weight is the same person's
        if everyday and self._is_definition():
            return True  # struct User { age: u8 }
        if not everyday:
            return self.source == "developer" and self._content(number) > _MOST_CONTENT
        told = mention.stated and self._content(number) > _FEW_CONTENT
        if told and _is_impossible(measure, mention.number):
            return True  # "the tower has a height of 324 m"
        if self._is_of_thing(number) or self._is_column_of_people(number):
            return True
        clause = self._clause(number)
        names = self.page.names
        first = bisect_left(names, clause.start, key=lambda name: name.start)
        last = bisect_left(names, clause.end, key=lambda name: name.start)
        looked_at = names[first : min(last, first + _LOOKED_AT)]
        named = {root for name in looked_at for root in name.roots}
        if len(named) > _MOST_NAMED:
            return False
        most = _MOST_CONTENT if self.source == "owner" else _FEW_CONTENT
        return self._content(number) > most

    def _is_in_range(self, number: WrittenNumber) -> bool:
        """Whether it is one of two numbers with "to" between them."""
        text = self.page.plain
        before = _RANGE_BEFORE.search(text, max(0, number.start - _BARE), number.start)
        return before is not None or _RANGE_RULE.match(text, number.end) is not None

    def _is_coefficient(self, number: WrittenNumber) -> bool:
        """Whether a formula of names has it as its own: "height - 5 * age", "a * b / 405"."""
        text = self.page.plain
        # In a prompt alone: "AST - 23 * ALT - 30" are a person's, with stars between them.
        if self.source == "developer" and _TIMES_NAME.match(text, number.end):
            return True
        before = text[max(0, number.start - 2) : number.start]
        if "/" not in before and "÷" not in before:  # how the pattern ends; it tries every letter
            return False
        return _BY_NUMBER.search(text, max(0, number.start - _SENTENCE), number.start) is not None

    def _name_end(self, number: WrittenNumber) -> int:
        """Where the name behind a number ends, if one follows: "92 a good age"."""
        at = bisect_left(self.names, number.end, key=lambda name: name[0])
        near = at < len(self.names) and self.names[at][0] - number.end <= _BARE * 2
        return self.names[at][1] if near else number.end

    def _is_of_thing(self, number: WrittenNumber) -> bool:
        """Whether a thing is measured: "baggage weight 23 kg", "has a weight of 2 kg"."""
        text = self.page.plain
        clause = self._clause(number)
        start = max(clause.start, number.start - _SENTENCE)
        end = min(clause.end, number.end + _SENTENCE // 2)
        things = _lists()["things"]
        if any(
            word[0] in things and not self.named.meet(*word.span())  # an "emergency fund" is a name
            for word in _WORD.finditer(text, start, end)
        ):
            return True
        at = bisect_right(self.names, number.start, key=lambda name: name[0]) - 1
        if at < 0 or self.names[at][1] > number.start:
            return False
        begin, finish, _ = self.names[at]
        of = text[finish : number.start].strip() == "of"
        return of and _ARTICLE.search(text, max(0, begin - _BARE), begin) is not None

    def _is_column_of_people(self, number: WrittenNumber) -> bool:
        """Whether it is in data about several people: nobody has three ages."""
        if self._people is None:
            self._people = _AGES.search(self.page.plain) is not None
        text = self.page.plain
        opened = text.rfind("[", max(0, number.start - _SENTENCE), number.start)
        return self._people and opened >= 0 and "]" not in text[opened : number.start]

    def _is_example(self, number: WrittenNumber, whose: Whose) -> bool:
        """Whether it only shows how: in a prompt whatever is said there, else where nobody is."""
        if self.source != "developer" and (
            self.source != "owner" or self.personal or whose != "unsaid"
        ):
            return False
        text = self.page.plain
        line = text.rfind("\n", max(0, number.start - _SENTENCE), number.start)
        start = max(number.start - _SENTENCE, line + 1 if line >= 0 else 0, 0)
        if self.source == "owner":
            start = max(start, self._clause(number).start)
        before = text[start : number.start]
        if not _lists()["example"].isdisjoint(_LONE_WORD.findall(before)) or "e.g" in before:
            return True
        if self.source == "developer" and self._is_below_examples(number):
            return True
        if self.source == "developer" and before.count('"') % 2:
            return True  # "insulin 10" -> DRUG
        ruled = before[max(0, self._clause(number).start - start) :]
        return self.source == "developer" and not _lists()["ruling"].isdisjoint(
            _LONE_WORD.findall(ruled)
        )

    def _is_below_examples(self, number: WrittenNumber) -> bool:
        """Whether a heading says that the lines below it only show how: "Few-shot:"."""
        start = max(0, number.start - _LONGEST_HEADER)
        near = self.page.plain[start : number.start].rpartition("\n\n")[2]
        return _EXAMPLES.search(near) is not None

    def _is_checked(self, number: WrittenNumber) -> bool:
        """Whether a program is to check it: "validate that age is between 18 and 120"."""
        clause = self._clause(number)
        start = max(clause.start, number.start - _SENTENCE)
        words = _WORD.findall(self.page.plain, start, number.start)
        return not _lists()["checking"].isdisjoint(words)

    def _is_exercise(self) -> bool:
        """Whether the text wants a program, and nobody in it speaks of themselves."""
        if self._exercise is None:
            lists, words = _lists(), self.page.runs.words
            self._exercise = (
                self.source in ("owner", "developer")
                and not self.owner_names
                and not self.recorded
                and not self.expected.topic
                and lists["first"].isdisjoint(words)
                and not lists["making"].isdisjoint(words)
                and not lists["artefacts"].isdisjoint(words)
            )
        return self._exercise

    def _is_definition(self) -> bool:
        """Whether the text defines a type of its own; looked for once."""
        if self._definition is None:
            self._definition = _DEFINES.search(self.page.plain) is not None
        return self._definition

    def _content(self, number: WrittenNumber) -> int:
        """How many words of its clause are none of a record: no names, units or small words."""
        clause = self._clause(number)
        start = max(clause.start, number.start - _SENTENCE)
        end = min(clause.end, number.end + _SENTENCE)
        known = _either("between", "onward", "small", "changing")
        return sum(
            len(word[0]) > 1
            and word[0] not in known
            and not self.named.meet(*word.span())
            and not self.written.meet(*word.span())
            and canonical(word[0]) is None
            and self.page.plain[word.start() - 1 : word.start()] not in ("<", "/")  # no tag
            for word in _WORD.finditer(self.page.plain, start, end)
        )

    def _is_in_anothers_record(self, number: WrittenNumber) -> bool:
        """Whether its object has another's name, or a price: {name: "Ann", age: 31}."""
        text = self.page.plain
        start = text.rfind("{", max(0, number.start - _SENTENCE), number.start)
        if start < 0 or "}" in text[start : number.start]:
            return False
        end = text.find("}", number.end, number.end + _SENTENCE)
        if _THING_KEY.search(text, start, end if end >= 0 else number.end):
            return True
        named = _MEMBER.search(text, start, end if end >= 0 else number.end)
        return named is not None and not any(
            part in caseless(name) for name in self.owner_names for part in named[1].split()
        )

    def _is_under_another(self, number: WrittenNumber) -> bool:
        """Whether it is in a column whose header is another word: "pulse"."""
        at = bisect_right(self.cells, number.start, key=lambda cell: cell[0]) - 1
        if at < 0 or number.start >= self.cells[at][1]:
            return False
        header = self.cells[at][2].header
        return not self.named.meet(header.start, header.end) and bool(
            _WORD.search(self.page.plain, header.start, header.end)
        )

    def _is_under_date(self, number: WrittenNumber) -> bool:
        """Whether it is in a column of days: "03/01" under "Date"."""
        at = bisect_right(self.cells, number.start, key=lambda cell: cell[0]) - 1
        if at < 0 or number.start >= self.cells[at][1]:
            return False
        header = self.cells[at][2].header
        words = _WORD.findall(self.page.plain[header.start : header.end])
        return len(words) == 1 and words[0] in _lists()["days"]

    def _is_anothers_cell(self, number: WrittenNumber) -> bool:
        """Whether its row or its column is somebody else's, in a table that has the owner's too.

        "who,age,ALT / me,54,30 / Rob,51,88": where "me" has a row, the other rows have owners too.
        """
        place = self._cell_at(number)
        if place is None:
            return False
        text = self.page.plain
        header = place[2].header
        heads = _WORD.findall(text, header.start, header.end)
        if any(word in kin() for word in heads):
            return True
        line = text.rfind("\n", 0, number.start) + 1
        first = _WORD.findall(text, line, number.start)[:2]
        if any(word in kin() for word in first):
            return True
        return bool(first) and first[0] not in oneself() and self._has_own_row(place[2])

    def _has_own_row(self, column: Column) -> bool:
        """Whether a row of its table is the owner's: it begins with "me"; looked for once."""
        table = self._first_column(column)
        if table.header.start not in self._own_rows:
            self._own_rows[table.header.start] = any(
                word is not None and word[0] in oneself()
                for word in (_WORD.search(self.page.plain, *cell) for cell in table.cells)
            )
        return self._own_rows[table.header.start]

    def _first_column(self, column: Column) -> Column:
        """The first column of its table: all stand on one line, in order."""
        line = self.page.plain.rfind("\n", 0, column.header.start) + 1
        table = self.page.columns
        return table[bisect_left(table, line, key=lambda each: each.header.start)]

    def _is_after_patient(self, number: WrittenNumber) -> bool:
        """Whether a message is about another patient, whose its notes are: "He's 71. AST 48."."""
        if self._patient is None:
            self._patient = self._find_patient()
        return number.start >= self._patient and self._cell_at(number) is None

    def _find_patient(self) -> int:
        """From where on what nobody says "I" of is another's; behind the text if it is nobody's.

        Somebody else is spoken of again and again, and the writer says no number of themselves.
        """
        never = len(self.page.plain)
        if self.source != "owner" or self.expected.topic or self.expected.asked:
            return never
        runs = self.page.runs
        if len(runs.places(_lists()["third"] & runs.words)) < _TWO:
            return never
        numbers, others, begun = self.page.numbers, 0, never
        for clause in self.said:
            low = bisect_left(numbers, clause.start, key=lambda each: each.start)
            told = low < len(numbers) and numbers[low].start < clause.end
            if clause.subject == "owner" and told:
                return never
            if clause.subject == "other":
                others += 1 + told
                begun = min(begun, clause.start)
        return begun if others >= _TWO else never

    def _is_of_person_before(self, number: WrittenNumber) -> bool:
        """Whether it is in brackets behind a person: "my wife (51)"."""
        start = max(0, number.start - _BARE * 2)
        before = _IN_BRACKETS.search(self.page.plain, start, number.start)
        return before is not None and before[1] in persons()

    def _is_goals_cell(self, number: WrittenNumber) -> bool:
        """Whether its column says what is wanted: "now | goal"."""
        place = self._cell_at(number)
        if place is None:
            return False
        header = place[2].header
        heads = _WORD.findall(self.page.plain, header.start, header.end)
        return any(word in _GOALS for word in heads)

    def _cell_at(self, number: WrittenNumber) -> tuple[int, int, Column] | None:
        at = bisect_right(self.cells, number.start, key=lambda cell: cell[0]) - 1
        return None if at < 0 or number.start >= self.cells[at][1] else self.cells[at]

    def _is_in_table_of_things(self, number: WrittenNumber) -> bool:
        """Whether the rows of its table are about things or people: a first column "Ingredient"."""
        at = bisect_right(self.cells, number.start, key=lambda cell: cell[0]) - 1
        if at < 0 or number.start >= self.cells[at][1]:
            return False
        first = self._first_column(self.cells[at][2]).header
        words = _WORD.findall(self.page.plain[first.start : first.end])
        return any(word in _lists()["row_kinds"] for word in words)

    def _is_aim(self, number: WrittenNumber) -> bool:
        """Whether it is what somebody is after: "goal weight 75", "target below 130/80"."""
        text = self.page.plain
        if _AIM.search(text, max(0, number.start - 32), number.start) is not None:
            return True
        start = max(self._clause(number).start, number.start - _SENTENCE // 2)
        span = _SPAN_BEFORE.search(text, max(0, number.start - _BARE), number.start)
        end = number.start if span is None else span.start()  # "keep it under 67-72"
        if _WANTED.search(text, start, end) is not None:
            return True
        intended = _INTENT.search(text, start, end) or _TO_GO.match(text, number.end)
        return intended is not None

    def _is_usual(self, number: WrittenNumber) -> bool:
        """Whether the name before it says what is usual: "my AST is 23, normal AST 40"."""
        at = bisect_right(self.names, number.start, key=lambda name: name[0]) - 1
        if at < 0 or number.start - self.names[at][1] > _BARE:
            return False
        name = self.names[at][0]
        return _USUAL.search(self.page.plain, max(0, name - _BARE * 2), name) is not None

    def _is_supposed(self, number: WrittenNumber) -> bool:
        """Whether it only might be: "what if I earned 12000 a month", "pretend I weighed 70"."""
        start = max(self._clause(number).start, number.start - _SENTENCE // 2)
        return _SUPPOSED.search(self.page.plain, start, number.start) is not None

    def _is_edition(self, number: WrittenNumber, mention: RootMention) -> bool:
        """Whether it is a year behind what is a laboratory's name elsewhere: "AST 2026"."""
        measure = self.page.vocabulary.measures[mention.root]
        return (
            not mention.stated
            and self._cell_at(number) is None
            and _YEAR.fullmatch(self.page.folded.text[mention.start : mention.end]) is not None
            and _is_impossible(measure, mention.number)
        )

    def _is_past_age(self, number: WrittenNumber) -> bool:
        """Whether it is how old somebody was or will be, which nobody is today.

        "since I was 17", "when I turned 18", "retire at 65", "I was 9 years old".
        """
        value, text = number.value, self.page.plain
        if value is None or not 0 < value <= _OLDEST or value != int(value):
            return False
        start = max(self._clause(number).start, number.start - _SENTENCE // 2)
        if _WAS_OLD.search(text, start, number.start) and _OLD.match(text, number.end):
            return True
        said = _AGE_THEN.search(text, start, number.start)
        if said is None or _AGE_WORDS.search(said[0]) is None:
            return False
        if _TURNED_NOW.match(text, number.end) and "turn" in said[0]:
            return False
        return _YEARS_THEN.match(text, number.end) is not None

    def _is_second(self, number: WrittenNumber) -> bool:
        """Whether it is the second of a pair whose first is the owner's: "134/86 L arm"."""
        gap = self.page.plain[self.last : number.start]
        return 0 <= self.last < number.start and gap.strip() in ("/", "-", "–", "over", "\\")

    def _is_reference(self, number: WrittenNumber) -> bool:
        """Whether it is a limit in a later column of a printed line: "AST 23 U/L 10-35"."""
        text = self.page.plain
        if self.last < 0 or self.last >= number.start:
            return False
        gap = text[self.last : number.start]
        if len(gap) <= _BARE * 2 and _OWN_LINE.search(text, self.last, number.start):
            line = text[text.rfind("\n", self.last, number.start) + 1 : number.end + _BARE * 2]
            if _RANGE_LINE.match(line):
                return True
        if "\n" in gap or len(gap) > _SENTENCE:
            return False
        pair = _LIMIT_AFTER.match(text, number.end) or _LIMIT_BEFORE.search(gap)
        return pair is not None and (_COLUMN.search(gap) or _UNIT_GAP.fullmatch(gap)) is not None

    # -- bound by nothing on the page --------------------------------------------------------

    def _unbound(self, number: WrittenNumber, sort: OrdinarySort, start: int, end: int) -> Claim:
        if self.tested.has(number.start):
            return Claim(start=start, end=end, standing="nobody", reason="code")
        if number.start in self.calls:
            return self._positional(number, start, end)
        whose = self._clause(number).subject
        if self._is_under_date(number):
            return Claim(start=start, end=end, standing="nobody", reason="date")
        if self._is_reference(number) or _BRACKET.match(self.page.plain, number.end):
            return Claim(start=start, end=end, standing="nobody", reason="range")
        if self._is_second(number) and not self.owned.isdisjoint(self.page.vocabulary.pair()):
            return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        if self._is_goals_cell(number):
            return Claim(start=start, end=end, standing="nobody", reason="range")
        if self._is_anothers_cell(number) or self._is_of_person_before(number):
            return Claim(start=start, end=end, standing="other", reason="another_person")
        if whose == "unsaid" and self._is_after_patient(number):
            whose = "other"
        if whose in ("other", "nobody"):
            reason: Reason = "another_person" if whose == "other" else "general"
            standing: Standing = "other" if whose == "other" else "nobody"
            return Claim(start=start, end=end, standing=standing, reason=reason)
        if not self.awaited and self._is_past_age(number):
            return Claim(start=start, end=end, standing="nobody", reason="date")
        if self._is_worked(number, sort):
            return Claim(start=start, end=end, standing="owner", reason="formula")
        answer = self._answer(number, sort)
        if answer is not None:
            return answer
        listed = sort in ("value", "arithmetic")  # "7083 / 1875 / 18250"
        if listed and number.value is not None and self._is_surplus(number):
            return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        aged = self._aged(number)
        if aged is not None:
            return aged
        told = self._told_after(number) or self._months_of(number, start, end)
        if told is None and whose == "owner" and _SHARE_OF.match(self.page.plain, number.end):
            told = Claim(start=start, end=end, standing="owner", reason="formula")
        if told is not None:
            return told
        pressure = self._pressure(number) if sort != "range" or whose == "owner" else None
        if pressure is not None:
            return pressure
        if self._is_exercise():
            return Claim(start=start, end=end, standing="nobody", reason="general")
        computed = self._computed(number, sort, start, end, called=False)
        if computed is not None:
            return computed
        if sort == "value" and self._is_of_two(number):
            return Claim(start=start, end=end, standing="owner", reason="formula")
        lettered = self._lettered(number) or self._flow(number)
        if lettered is not None:
            return lettered
        if sort == "count" and whose == "owner" and self._is_paid(number):
            return Claim(start=start, end=end, standing="open", reason="private_word")
        counted = sort in ("count", "dose") and not self._is_idle(number)  # no "one-year checkup"
        if counted and whose == "owner" and number.value is not None:
            fitting = self._fitting(number)
            if len(fitting) == 1 and self._is_telling(number, fitting[0]):
                return _claim(fitting[0], "likely", "by_unit")
        if sort == "code" and self.owned and number.value is not None:
            self.near = self.near or Surroundings(self.page)
            if self.near.labelled(number):  # { income: 7083, debt: 1875 }
                return Claim(start=start, end=end, standing="open", reason="private_word")
        if sort != "value":
            return Claim(start=start, end=end, standing="nobody", reason=sort)
        if self._is_ascending(number, whose):
            return Claim(start=start, end=end, standing="nobody", reason="range")
        if self._is_attribute(number) or self._is_choice(number):
            return Claim(start=start, end=end, standing="nobody", reason="count")
        if _CELL_CONSTANT.search(
            self.page.plain, max(0, number.start - _SENTENCE // 4), number.start
        ):
            return Claim(start=start, end=end, standing="nobody", reason="arithmetic")
        before = max(0, number.start - _SENTENCE // 2)
        wished = bool(_WISH.search(self.page.plain, before, number.start)) or self._is_aim(number)
        wished = wished or (whose == "unsaid" and self._is_of_you(number))
        if number.value is None or wished:
            reason = "general" if wished else "unbound"
            return Claim(start=start, end=end, standing="nobody", reason=reason)
        return (
            self._opening_age(number)
            or self._spoken(number, whose, start, end)
            or self._open(number, whose, start, end)
        )

    def _is_ascending(self, number: WrittenNumber, whose: Whose) -> bool:
        """Whether it is an end of a span that no name has: "ML = 175-180 & 75-82".

        A pressure goes down, and a span in the owner's own clause may be the owner's.
        """
        if whose != "unsaid":
            return False
        numbers, text = self.page.numbers, self.page.plain
        at = bisect_left(numbers, number.start, key=lambda each: each.start)
        return any(
            _HYPHEN.fullmatch(text, first.end, second.start) is not None
            and first.value is not None
            and second.value is not None
            and first.value < second.value
            for first, second in itertools.pairwise(numbers[max(0, at - 1) : at + 2])
        )

    def _is_span_of_two(self, number: WrittenNumber) -> bool:
        """Whether two numbers with a hyphen go up, in a clause that is not the owner's."""
        return self._is_ascending(number, self._clause(number).subject)

    def _is_paid(self, number: WrittenNumber) -> bool:
        """Whether money goes somewhere: "1875 vanishes into loans". Four digits count few things.

        The size decides, never whose it is: the same for everybody.
        """
        if number.value is None or number.value < _MANY:
            return False
        self.near = self.near or Surroundings(self.page)
        word = _WORD.match(self.page.plain, number.end + 1)
        if word is None or not self.near.private(number):
            return False
        return any(m.money for m in self.page.vocabulary.measures.values()) and not any(
            start == word.start() for start, _, _ in self.names
        )

    def _positional(self, number: WrittenNumber, start: int, end: int) -> Claim:
        """An argument of a calculation that is called with its roots in order."""
        root = self.calls[number.start]
        mention = None if root is None else self.values.of(number, root)
        if mention is None:
            return Claim(start=start, end=end, standing="owner", reason="formula")
        return _claim(mention, "owner", "formula")

    def _is_worked(self, number: WrittenNumber, sort: OrdinarySort) -> bool:
        """Whether it stands in a calculation on the owner's values: "Step 1: 54*23=1242".

        Its inputs are there in places that nobody can tell from its results and constants.
        """
        if self.expected.worked and self._is_reckoned(number, sort):
            return True
        coded = sort == "code" and self._is_coded_formula(number)
        if not (coded or sort in ("arithmetic", "value")) or self.source == "developer":
            return False
        if self.source == "owner" and not self.owned and not self._names_formula(number):
            return False
        if self.source != "owner" and not self.expected.topic:
            return False
        text = self.page.plain
        if _EXPONENT.search(text, max(0, number.start - 4), number.start):
            return False
        if _CONSTANT.search(text, max(0, number.start - _BARE), number.start):
            return False  # "B2*C2/405", "(TG/88.57)"
        start = max(0, number.start - _SENTENCE)
        parted = [each.end() for each in _NO_TERM.finditer(text, start, number.start)]
        after = _NO_TERM.search(text, number.end, number.end + _SENTENCE)
        end = number.end + _SENTENCE if after is None else after.start()
        terms = text[parted[-1] if parted else start : end]
        return "=" in terms and _OPERATOR.search(terms) is not None

    def _names_formula(self, number: WrittenNumber) -> bool:
        """Whether its line says what is computed from the owner's values: "BMI = 83.5 / 1.78^2"."""
        self.formulas = self.formulas or ComputedNames(self.page)
        text, places = self.page.plain, self.formulas.places
        at = bisect_right(places, number.start, key=lambda each: each[0]) - 1
        if at < 0 or number.start - places[at][0] > _SENTENCE:
            return False
        end, name = places[at]
        return "\n" not in text[end : number.start] and bool(
            self.page.vocabulary.formulas.get(key_of(name))
        )

    def _is_coded_formula(self, number: WrittenNumber) -> bool:
        """Whether code reckons a formula with numbers alone: `bmi = 83.5 / 1.78 ** 2`."""
        text = self.page.plain
        low, high = max(0, number.start - _SENTENCE), number.end + _SENTENCE
        start, stop = text.rfind("\n", low, number.start), text.find("\n", number.end, high)
        line = text[start + 1 if start >= 0 else low : stop if stop >= 0 else high]
        words = {*_WORD.findall(line.partition("=")[2][:_SENTENCE].partition("#")[0])}
        return words <= _ROOTS and self._names_formula(number) and not self._is_exercise()

    def _is_of_two(self, number: WrittenNumber) -> bool:
        """Whether it is made of the owner's values that were told: "your ratio is 0.77"."""
        if self.source == "developer" or len(self.owned | {*self.expected.topic}) < _TWO:
            return False
        start = max(0, number.start - _SENTENCE // 4)
        return _MADE_OF.search(self.page.plain, start, number.start) is not None

    def _is_reckoned(self, number: WrittenNumber, sort: OrdinarySort) -> bool:
        """Whether it goes into a calculation on the owner's values, or comes out: "83.5/1.78**2".

        An exponent is part of the formula. What has more words than a result is another text.
        """
        text = self.page.plain
        if number.value is None or _EXPONENT.search(text, max(0, number.start - 4), number.start):
            return False
        few = len(_WORD.findall(text, self.begin)) <= _FEW_WORDS
        return few and sort in ("value", "arithmetic", "code", "count", "share", "price", "label")

    # -- answers -----------------------------------------------------------------------------

    def _await_rows(self, found: Sequence[tuple[WrittenNumber, OrdinarySort]]) -> None:
        """Expect what was asked for once for each row, if the numbers come out even."""
        asked = len(self.awaited)
        if asked > 1:
            bare = [n for n, sort in found if sort == "value" and n.start not in self.bound]
            rows, odd = divmod(len(bare), asked)
            if rows > 1 and not odd:
                self.awaited *= rows

    def _is_bare(self) -> bool:
        """Whether the text is nothing but numbers and small words."""
        words = {word for word in _WORD.findall(self.page.plain) if len(word) > 1}  # "a) 54"
        return words <= _lists()["small"]

    def _answer(self, number: WrittenNumber, sort: OrdinarySort) -> Claim | None:
        """A number as the answer to what was asked for; the first that its unit allows."""
        if not self.awaited or number.value is None:
            return None
        for root in dict.fromkeys(self.awaited):
            mention = self.values.of(number, root)
            if mention is None or not self._answers(number, sort, mention):
                continue
            if self.answered and self._is_idle(number) and not mention.stated:
                return None  # "54, two"
            self.answered.append(root)
            if not self.single:
                self.awaited.remove(root)
            return _claim(mention, "owner", "asked")
        return None

    def _answers(self, number: WrittenNumber, sort: OrdinarySort, mention: RootMention) -> bool:
        if sort == "value":
            return True
        text = self.page.plain
        alone = len(text.strip()) <= number.end - number.start + 2
        first = sort == "label" and self.single and not text[: number.start].strip()
        alone = alone or (sort in ("arithmetic", "count", "range", "score") and self._is_bare())
        return alone or first or (sort in _lists()["stated_sorts"] and mention.stated)

    def _skip_minor(self, number: WrittenNumber) -> None:
        numbers = self.page.numbers
        at = bisect_right(numbers, number.start, key=lambda each: each.start)
        if at < len(numbers):
            self.bound.add(numbers[at].start)

    def _is_surplus(self, number: WrittenNumber) -> bool:
        """Whether it is one more number in an answer than was asked for."""
        asked = self.expected.asked or self.expected.mentioned
        awaited = bool(asked) or self.expected.any_values
        return awaited and self._is_bare() and not self._is_idle(number)

    def _is_idle(self, number: WrittenNumber) -> bool:
        self.near = self.near or Surroundings(self.page)
        return self.near.idle(number)

    def _aged(self, number: WrittenNumber) -> Claim | None:
        """An age beside a sex: "54M here", "(54, male)", "F/54"."""
        age = self.page.vocabulary.named("age")
        if age is None or number.sort != "digits":
            return None
        text = self.page.folded.text  # in its own case: "54m" is a length
        before, after = text[max(0, number.start - 8) : number.start], text[number.end :][:10]
        mistyped = _MISTYPED_AGE.match(self.page.plain, number.end) if self.personal else None
        plain = self.page.plain
        told = _AT_AGE.search(plain, max(0, number.start - 10), number.start)
        told = told and _AT_AGE_DOES.match(plain, number.end)  # "At 54 I ...", "Being 54 and ..."
        whose = self._clause(number).subject
        mine = whose == "owner" or (whose == "unsaid" and self.personal)
        if not told and self.source == "owner" and mine:  # "switching careers at 54, but"
            told = _AT_THAT_AGE.search(plain, max(0, number.start - _SENTENCE // 4), number.start)
            told = told and _AFTER_AGE.match(plain, number.end)
        aged = mistyped is not None or (
            (told is not None or self._follows_own_name(number))
            and number.value == int(number.value or 0)
        )
        if not (aged or _SEX_AFTER.match(after) or _SEX_BEFORE.search(before)):
            return None
        mention = self.values.of(number, age.root)
        if mention is None or not age.holds(mention.number, age.unit):
            return None
        self.owned.add(age.root)
        self.personal = True  # "54M 178cm": what stands beside it is the same person's
        return _claim(mention, "owner", "named")

    def _opening_age(self, number: WrittenNumber) -> Claim | None:
        """An age that a sentence opens with, as posts have it: "Long story. 37, two kids, ..."."""
        age = self.page.vocabulary.named("age")
        if age is None or self.source != "owner" or not self.personal or self.expected.topic:
            return None
        text = self.page.plain
        whole = number.value is not None and number.value == int(number.value)
        opens = _OPENS.search(text, max(0, number.start - 3), number.start)
        if not whole or opens is None or not _SAID_ALONE.match(text, number.end):
            return None
        if not text[: number.start].strip() and not text[number.end :].strip(" .\n"):
            return None  # a number and nothing else
        mention = self.values.of(number, age.root)
        if mention is None or not age.holds(mention.number, age.unit):
            return None
        return _claim(mention, "likely", "named")

    def _follows_own_name(self, number: WrittenNumber) -> bool:
        """Whether it stands behind the owner's own name: "Jane Roe, 54, of Lisbon"."""
        text = self.page.plain
        gap = _AGE_AFTER_NAME.search(text, max(0, number.start - 3), number.start)
        if gap is None or not _AFTER_AGE.match(text, number.end):
            return False
        end = self.page.folded.span(gap.start() - 1, gap.start())[1]
        return self.taken.meet(end - 1, end)

    def _told_after(self, number: WrittenNumber) -> Claim | None:
        """A number of which the next sentence says what it is: "30. That's my ALT."."""
        said = _TELLS_BACK.match(self.page.plain, number.end)
        if said is None:
            return None
        at = bisect_left(self.names, said.end(), key=lambda name: name[0])
        if at == len(self.names) or self.names[at][0] != said.end():
            return None
        mention = self.values.of(number, self.names[at][2])
        if mention is None:
            return None
        self.owned.add(mention.root)
        return _claim(mention, "likely", "spoken_of")

    def _months_of(self, number: WrittenNumber, start: int, end: int) -> Claim | None:
        """How long the owner's means last, which tells of them: "4.2 months of savings"."""
        text, measures = self.page.plain, self.page.vocabulary.measures
        if _MONTHS.match(text, number.end) is None or not (self.personal or self._is_terse(number)):
            return None
        said = _MONTHS_OF.match(text, number.end)
        if said is not None:
            at = bisect_left(self.names, said.end(), key=lambda name: name[0])
            fits = at < len(self.names) and self.names[at][0] == said.end()
        else:  # "enough savings for 4.2 months"
            at = bisect_right(self.names, number.start, key=lambda name: name[0]) - 1
            fits = at >= 0 and bool(_LASTS.fullmatch(text, self.names[at][1], number.start))
        measure = measures[self.names[at][2]] if fits else None
        if measure is None or not measure.money or measure.concept == "income":
            return None  # "two months' salary" is what a ring costs
        writing = self.page.folded.text[number.start : number.end]
        return Claim(
            start=start,
            end=end,
            standing="owner",
            reason="formula",
            computed="emergency_fund",
            writing=writing,
        )

    def _lettered(self, number: WrittenNumber) -> Claim | None:
        """A size or an age behind its letter, if there are two of them: "H 178 W 83.5"."""
        label = _LETTERED.search(self.page.plain, max(0, number.start - 4), number.start)
        if label is None or number.value is None:
            return None
        if self._letters is None:
            self._letters = frozenset(m[1] for m in _LETTERED_NUMBER.finditer(self.page.plain))
        measure = self.page.vocabulary.named({"h": "ht", "w": "wt", "a": "age"}[label[1]])
        if len(self._letters) < _TWO or measure is None:
            return None
        mention = self.values.of(number, measure.root)
        if mention is None or not measure.holds(mention.number, measure.unit):
            return None
        self.owned.add(measure.root)
        return _claim(mention, "likely", "named")

    def _flow(self, number: WrittenNumber) -> Claim | None:
        """What comes in and what goes out, if both are said: "7083 in, 4320 out"."""
        if number.value is None or number.value < _MANY // 10:
            return None
        text = self.page.plain
        if self._flows is None:
            said = [(_FLOW_AFTER, n.end, len(text)) for n in self.page.numbers]
            self._flows = frozenset(m[1] for p, at, _ in said if (m := p.match(text, at)))
            self._flows |= {
                m[1]
                for n in self.page.numbers
                if (m := _FLOW_BEFORE.search(text, max(0, n.start - _BARE), n.start))
            }
        found = _FLOW_AFTER.match(text, number.end) or _FLOW_BEFORE.search(
            text, max(0, number.start - _BARE), number.start
        )
        measure = None if found is None else self.page.vocabulary.named(_FLOWS[found[1]])
        if len(self._flows) < _TWO or measure is None:
            return None
        mention = self.values.of(number, measure.root)
        if mention is None:
            return None
        self.owned.add(measure.root)
        return _claim(mention, "likely", "named")

    def _pressure(self, number: WrittenNumber) -> Claim | None:
        """A pair that only a blood pressure is: "I usually get 134/86"."""
        pair = self.page.vocabulary.pair()
        if not pair or number.sort != "digits":
            return None
        self.near = self.near or Surroundings(self.page)
        near = self.page.plain[max(0, number.start - 7) : number.end + 7]
        spoken = any(f" {word} " in near for word in _OVER)
        told = self.personal or self._is_terse(number) or self.near.private(number)
        if not told and not (spoken and self.source == "owner"):
            return None
        numbers = self.page.numbers
        at = bisect_right(numbers, number.start, key=lambda each: each.start) - 1
        for first, place in ((at, 0), (at - 1, 1)):
            if not 0 <= first < len(numbers) - 1:
                continue
            upper, lower = numbers[first], numbers[first + 1]
            gap = self.page.plain[upper.end : lower.start]
            after = self.page.plain[lower.end : lower.end + 1]
            if after in ("/", "-") or not (
                _PAIR.fullmatch(gap) or (gap == "-" and not self.owned.isdisjoint(pair))
            ):
                continue
            if not 80 <= (upper.value or 0) <= 260 or not 40 <= (lower.value or 0) <= 160:
                continue
            if (upper.value or 0) <= (lower.value or 0):
                continue
            root = pair[place]
            mention = None if root is None else self.values.of(number, root)
            if mention is not None:
                self.owned.add(mention.root)
                return _claim(mention, "likely", "by_unit")
        return None

    def _is_terse(self, number: WrittenNumber) -> bool:
        """Whether the text is a note of a few words: "134/86 this morning"."""
        if len(self.page.plain) > _TERSE:
            return False
        words = _WORD.findall(self.page.plain)
        return self._content(number) <= _FEW_CONTENT and _lists()["reckoning"].isdisjoint(words)

    # -- computed values ---------------------------------------------------------------------

    def _computed(
        self, number: WrittenNumber, sort: OrdinarySort, start: int, end: int, *, called: bool
    ) -> Claim | None:
        """A number behind the name of a computed value, or its call: "my FIB-4 is 1.03"."""
        if number.value is None or not (called or sort in _COMPUTED_SORTS):
            return None
        if called and self.page.plain[max(0, number.start - 20) : number.start].find(")") < 0:
            return None
        self.formulas = self.formulas or ComputedNames(self.page)
        name = self.formulas.called(number) if called else self.formulas.before(number)
        if name is None or (sort == "arithmetic" and not called):
            return None
        if self.source == "developer" and self._is_example(number, "unsaid"):
            return None  # "if the BMI is above 30"
        if not called and (self._is_aim(number) or self._is_span_of_two(number)):
            return None  # "BMI target 27", "BMI 27-40"
        writing = self.page.folded.text[number.start : number.end]
        return Claim(
            start=start,
            end=end,
            standing="owner",
            reason="formula",
            computed=name,
            writing=writing,
        )

    # -- going on about a quantity -----------------------------------------------------------

    def _spoken(self, number: WrittenNumber, whose: Whose, start: int, end: int) -> Claim | None:
        """A number that goes on about a quantity: "it was 23", "23 or 25?" after "My AST"."""
        if self.source not in ("owner", "trusted") and not self._echoes(number):
            return None
        if self._is_anothers(number) and not self._goes_on(number):
            return None
        if self._is_under_another(number):
            return None
        if self._is_second(number):  # of a pair, whose other root the person does not have
            return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        clause = self._clause(number)
        here = self._before(number, whose)
        beside = any(at >= clause.start for at, _ in here)
        if not beside and self.source != "model" and not self._refers_back(number):
            return None
        mentions: list[RootMention] = []
        named = [root for _, root in here[-1:]]
        for candidates in (named, self.expected.recent, self.expected.topic):
            mentions = mentions or [
                mention
                for root in dict.fromkeys(candidates)
                if (mention := self.values.of(number, root)) is not None
                # What its unit does not fit was said of something that was spoken of before.
                and (mention.stated or not named or candidates is named)
            ]
        if not mentions or self._is_price(number, mentions):
            return None  # nothing was spoken of, or it is in a unit of something else
        if self._is_of_machine(number):
            return None
        if len(mentions) > 1:
            return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        self.owned.add(mentions[0].root)
        return _claim(mentions[0], "likely", "spoken_of")

    def _goes_on(self, number: WrittenNumber) -> bool:
        """Whether a few words add to what was spoken of: "after breakfast 84.2"."""
        if self.source != "owner" or not self.expected.topic:
            return False
        before = self.page.plain[max(0, number.start - _SENTENCE // 4) : number.start]
        keyed = _KEYED.search(before)
        few = len(_WORD.findall(self.page.plain)) <= _FEW_WORDS + _FEW_CONTENT
        passed = _either("back", "small", "changing")
        return few and (keyed is None or keyed[1] in passed)

    def _echoes(self, number: WrittenNumber) -> bool:
        """Whether a model says again what it was told: "Noted, 85.3 kg.", "Is it 23?"."""
        if self.source != "model" or not self.expected.topic:
            return False
        clause = self._clause(number)
        words = _WORD.findall(self.page.plain[clause.start : clause.end])
        if all(canonical(word) is not None for word in words):
            return True  # "184 kg?"
        if len(words) <= _FEW_WORDS and not _lists()["echo"].isdisjoint(words):
            return True
        # "163 is slightly high.", "At 54, screening starts.": what a sentence opens with was told.
        known = _either("small", "echo", "opening")
        before = _WORD.findall(self.page.plain, clause.start, number.start)
        return all(word in known for word in before) and not _NO_ECHO.match(
            self.page.plain, number.end
        )

    def _is_price(self, number: WrittenNumber, mentions: Sequence[RootMention]) -> bool:
        """Whether it is what a thing costs: "a 400k house"."""
        text = self.page.plain
        if self._is_told_of(number):
            return False
        articled = _ARTICLE.search(text, max(0, number.start - _BARE), number.start) is not None
        if articled and text.startswith("k", number.end):
            return text[number.end + 1 : number.end + 2] == " "
        return articled and any(
            self.page.vocabulary.measures[mention.root].money for mention in mentions
        )

    def _before(self, number: WrittenNumber, whose: Whose) -> list[tuple[int, RootName]]:
        """The quantities that a number may go on about: named before it, and the owner's.

        In the owner's own clause the one that was named last is meant, whoever it was said of. If
        none was named before, the only one that a text has.
        """
        at = bisect_right(self.names, number.start, key=lambda name: name[0])
        told = self.personal or len(self.page.plain) <= _TERSE
        found = [
            (start, root)
            for start, _, root in self.names[max(0, at - 8) : at]
            if whose == "owner"
            or root in self.owned
            or (told and clause_at(self.said, start).subject in ("owner", "unsaid"))
        ]
        if not found and len(self.owned) == 1:
            found = [(-1, next(iter(self.owned)))]
        return found

    def _is_owners(self, whose: Whose) -> bool:
        """Whether a clause is the owner's: it says so, or the owner speaks of themselves beside."""
        return whose == "owner" or (whose == "unsaid" and self.personal)

    def _is_anothers(self, number: WrittenNumber) -> bool:
        """Whether another noun has it: "TIMEOUT=60", "temp 98.6", "the loan rate is 7.9"."""
        start = max(0, number.start - _SENTENCE // 4)
        before = self.page.plain[start : number.start]
        key = _KEYED.search(before)
        lists = _lists()
        if key is not None:
            told = self.source == "model" and key[1] in lists["echo"]  # "Thanks: 83.5 kg"
            known = _either("back", "small", "changing")  # "no: 23", "May: 31"
            return key[1] not in known and not told
        tail = re.split(r"[.,;:!?()\n|]", before)[-1]
        place = start + len(before) - len(tail)
        for word in reversed(list(_WORD.finditer(tail))):
            if self.written.meet(place + word.start(), place + word.end()):
                continue  # "one metre seventy-eight and 83 kilos"
            if word[0] in lists["back"] or (self.source == "model" and word[0] in lists["yours"]):
                return False
            passed = word[0] in _either("between", "small", "having")
            if passed or len(word[0]) == 1 or canonical(word[0]) is not None:
                continue
            at = place + word.start()
            named = self.named.meet(at, at + 1)
            return not named and word[0] not in _either("onward", "changing")
        return False

    def _refers_back(self, number: WrittenNumber) -> bool:
        """Whether its sentence has a word that points to what was said, or no word that tells."""
        text = self.page.plain
        clause = self._clause(number)
        start = max(clause.start, number.start - _SENTENCE)
        end = min(clause.end, number.end + _SENTENCE)
        words = _WORD.findall(text[start:end])
        lists = _lists()
        if any(word in lists["back"] for word in words):
            return True
        if self.expected.topic and len(_WORD.findall(text)) <= _FEW_WORDS + _FEW_CONTENT:
            return True  # "oops, swapped digits, 83.5"
        small = _either("small", "having")
        return all(word in small for word in words)

    def _open(self, number: WrittenNumber, whose: Whose, start: int, end: int) -> Claim:
        """A number beside a private word: by its unit the owner's, or in doubt."""
        nobodys = Claim(start=start, end=end, standing="nobody", reason="unbound")
        if self._is_vital(number):
            return nobodys
        if self.source not in ("owner", "trusted", "tool"):
            return nobodys
        if whose == "unsaid" and self._speaks_of_others():
            return Claim(start=start, end=end, standing="other", reason="another_person")
        if self._in_foreign_money(number):
            return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        self.near = self.near or Surroundings(self.page)
        if self.near.idle(number) and not self._fitting(number):
            return nobodys
        private = self.near.private(number)
        if whose != "owner" and self._is_of_money(number):
            return Claim(start=start, end=end, standing="nobody", reason="share")
        terse = self._is_terse(number)
        paid = (terse or whose == "owner") and not self.expected.elsewhere
        if paid and _PAID.match(self.page.plain, number.end) and self._is_pay(number):
            return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        mine = self._is_owners(whose) or (whose == "unsaid" and (terse or self._is_body(number)))
        if whose == "owner" or (mine and not self._is_anothers(number)):
            fitting = self._fitting(number)
            if self._is_price(number, ()):
                return nobodys
            sole = len(fitting) == 1
            if sole and (private or self._is_telling(number, fitting[0])):
                self.owned.add(fitting[0].root)
                return _claim(fitting[0], "likely", "by_unit")
            # In a currency or a unit that nobody converts, beside the name of a quantity.
            named = whose == "owner" and not self._is_anothers(number)
            if private and (fitting or (named and self._before(number, whose))):
                if self._is_price(number, fitting) or self._is_of_machine(number):
                    return nobodys
                return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        if whose == "unsaid" and self._names_formula(number) and not self._is_exercise():
            fitting = self._fitting(number)
            if len(fitting) == 1:  # "compute the BMI from 83.5 kg and 1.78 m"
                return _claim(fitting[0], "likely", "by_unit")
        if whose == "owner" and (number.value or 0) >= _MANY and self._is_earned(number):
            income = self.page.vocabulary.named("income")
            mention = None if income is None else self.values.of(number, income.root)
            if mention is not None:
                return _claim(mention, "likely", "by_unit")
        if self._is_of_machine(number) or self._is_exercise():
            return nobodys
        if not self.personal and not self.owned and self._is_of_thing(number):
            return nobodys
        clause = self._clause(number)
        said = _WORD.findall(
            self.page.plain[max(clause.start, number.start - _FEW_WORDS * 5) : number.start]
        )
        private = private or (whose == "owner" and "mine" in said)  # of what, nobody has said
        if (
            private
            and not self._is_keyed_by_machine(number)
            and (whose == "owner" or self._is_by_laboratory(number) or self._is_told_beside(number))
        ):
            return Claim(start=start, end=end, standing="open", reason="private_word")
        paid = terse and not self.expected.elsewhere and self._is_pay(number)
        if self._is_left_over(number, whose) or paid:
            return Claim(start=start, end=end, standing="likely", reason="one_of_several")
        short = self.source == "owner" and len(self.page.plain) <= _TERSE
        if short and _FINDING.fullmatch(self.page.plain):
            return Claim(start=start, end=end, standing="open", reason="own_clause")
        if whose == "owner" and _JUST_ME.search(
            self.page.plain, max(0, number.start - _BEFORE_ME), number.start
        ):
            return self._age_of_me(number) or Claim(
                start=start, end=end, standing="open", reason="own_clause"
            )
        if self._is_said_of_oneself(number, whose):
            return Claim(start=start, end=end, standing="open", reason="own_clause")
        if whose == "owner" and (self.foreign or self._tells_of_owner(number)):
            return Claim(start=start, end=end, standing="open", reason="own_clause")
        if self._is_unexplained(number, whose):
            return Claim(start=start, end=end, standing="open", reason="own_clause")
        return nobodys

    def _is_said_of_oneself(self, number: WrittenNumber, whose: Whose) -> bool:
        """Whether the owner is where they say it, of whatever it is: "I'm sitting at 6.1"."""
        if self.source != "owner" or whose not in ("owner", "unsaid") or number.value is None:
            return False
        text = self.page.plain
        said = _AM_AT.search(text, max(0, number.start - _SENTENCE // 4), number.start)
        here = _HERE_AFTER.match(text, number.end) if number.sort == "digits" else None
        if said is None and here is None:
            return False
        measures = self.page.vocabulary.measures.values()
        return any(
            each.holds(mention.number, each.unit)
            for each in measures
            if (mention := self.values.of(number, each.root)) is not None
        )

    def _is_unexplained(self, number: WrittenNumber, whose: Whose) -> bool:
        """Whether nothing says what it is, and the owner's values are spoken of.

        Then it is doubted: a value in words that nobody thought of looks just so. What counts a few
        things or has a label of its own is explained, except an amount in a note of amounts.
        """
        if self.source != "owner" or whose not in ("owner", "unsaid"):
            return False
        near = self._named_near(number)
        told = self.last >= 0 and 0 <= number.start - self.last <= _SENTENCE
        if not (told or self.owned & near or self.expected.topic or (whose == "owner" and near)):
            return False
        if number.value is None or (number.value <= _FEW and number.value == int(number.value)):
            return False
        if self._is_anothers_key(number) and not self._is_noted_amount(number):
            return False
        return self._may_be_another(number)

    def _named_near(self, number: WrittenNumber) -> set[RootName]:
        """The quantities that are named near it.

        Those further off do not count: a long text is read in pieces, with the same result.
        """
        low = bisect_left(self.names, number.start - _SENTENCE, key=lambda name: name[0])
        high = bisect_right(self.names, number.end + _SENTENCE, key=lambda name: name[0])
        return {root for _, _, root in self.names[low:high]}

    def _may_be_another(self, number: WrittenNumber) -> bool:
        """Whether it can be a quantity that goes with those spoken of and has no number yet.

        Those go together that one formula is made of. The public bounds and the unit decide.
        """
        spoken = self._named_near(number) | {*self.expected.topic}
        measures = self.page.vocabulary.measures
        beside = {
            root
            for roots in self.page.vocabulary.formulas.values()
            if not spoken.isdisjoint(roots)
            for root in roots
        }
        for root in (beside or spoken or measures.keys()) - (self.owned & spoken):
            mention = self.values.of(number, root) if root in measures else None
            if mention is not None and measures[root].holds(mention.number, measures[root].unit):
                return True
        return False

    def _is_noted_amount(self, number: WrittenNumber) -> bool:
        """Whether it is an amount behind a label, in a text about the owner's money."""
        measures = self.page.vocabulary.measures
        spoken = (*self._named_near(number), *self.expected.topic)
        if not any(measures[root].money for root in spoken if root in measures):
            return False
        return self._is_amount(number) or self.page.plain.startswith("k", number.end)

    def _is_body(self, number: WrittenNumber) -> bool:
        """Whether another size of a body stands right beside it: "178cm, 83.5kg, 54yrs"."""
        own = {mention.root for mention in self._fitting(number)}
        numbers = self.page.numbers
        at = bisect_left(numbers, number.start, key=lambda each: each.start)
        for other in numbers[max(0, at - 1) : at] + numbers[at + 1 : at + 2]:
            low, high = sorted((number, other), key=lambda each: each.start)
            gap = self.page.plain[low.end : high.start]
            if len(gap) <= _BARE and _BESIDE.fullmatch(gap) and other.value is not None:
                theirs = {m.root for m in self._fitting(other)}
                apart = own and theirs and not own & theirs
                if apart and not self._is_of_thing(number) and not self._is_of_machine(number):
                    self.personal = True  # what else stands beside it is the same person's
                    return True
        return False

    def _is_attribute(self, number: WrittenNumber) -> bool:
        """Whether it says which one a thing is: "a 5.9 m van", "the 54 cm frame"."""
        text = self.page.plain
        if not _ARTICLE.search(text, max(0, number.start - _BARE), number.start):
            return False
        said = _ATTRIBUTE.match(text, number.end)
        if said is None or said[2] in kin() or said[2] in _either("back", "small"):
            return False
        if self._is_told_of(number):
            return False
        return not said[1] or canonical(said[1]) is not None or said[1] == "k"

    def _is_told_of(self, number: WrittenNumber) -> bool:
        """Whether more is said of an amount that is known: "the $17k sitting in my account"."""
        text = self.page.plain
        known = _KNOWN_AMOUNT.search(text, max(0, number.start - _BARE), number.start)
        return known is not None and _TOLD_OF.match(text, number.end) is not None

    def _is_choice(self, number: WrittenNumber) -> bool:
        """Whether it is one of two that are asked about: "which frame, 56 or 58 cm?"."""
        text = self.page.plain
        clause = self._clause(number)
        low, high = max(clause.start, number.start - _SENTENCE), number.end + _BARE * 2
        found = _CHOICE.search(text, low, high)
        return found is not None and found.start(1) <= number.start < found.end(1)

    def _age_of_me(self, number: WrittenNumber) -> Claim | None:
        """An age, where no quantity is named: "Wife 51, me 54"."""
        age = self.page.vocabulary.named("age")
        mention = None if age is None or self.names else self.values.of(number, age.root)
        if age is None or mention is None or not age.holds(mention.number, age.unit):
            return None
        return _claim(mention, "likely", "named")

    def _tells_of_owner(self, number: WrittenNumber) -> bool:
        """Whether the owner says it of themselves beside their values: "I've 18250 and burn 4320".

        Nothing explains such a number, and what stands beside it is private.
        """
        return self.source == "owner" and bool(self.owned) and not self._is_anothers_key(number)

    def _is_anothers_key(self, number: WrittenNumber) -> bool:
        """Whether it has a label of its own: "steps: 8200"."""
        start = max(0, number.start - _SENTENCE // 4)
        key = _KEYED.search(self.page.plain, start, number.start)
        return key is not None and key[1] not in _lists()["back"]

    def _is_of_money(self, number: WrittenNumber) -> bool:
        """Whether it is a share, and an amount of money stands right before: "spending 0.5 %"."""
        if not re.match(r" ?%", self.page.plain[number.end : number.end + 2]):
            return False
        at = bisect_right(self.names, number.start, key=lambda name: name[0]) - 1
        return at >= 0 and self.page.vocabulary.measures[self.names[at][2]].money

    def _is_vital(self, number: WrittenNumber) -> bool:
        """Whether a word says what is measured, and it is of the moment: "pulse 71"."""
        before = self.page.plain[max(0, number.start - _SENTENCE // 4) : number.start]
        tail = re.split(r"[.,;!?()\n|]", before)[-1]
        for word in reversed(_WORD.findall(tail)):
            if word in _lists()["vitals"]:
                return True
            if word not in wording()["between"] and word != "rate":
                return False
        return False

    def _speaks_of_others(self) -> bool:
        """Whether a text tells of other people alone: "The tenant earns 4200. Is 1400 ok?"."""
        said = {clause.subject for clause in self.said}
        return "other" in said and "owner" not in said and not self.expected.topic

    def _is_keyed_by_machine(self, number: WrittenNumber) -> bool:
        """Whether it is an option of a program: "max_tokens=256"."""
        key = _KEYED.search(self.page.plain, max(0, number.start - _SENTENCE // 4), number.start)
        return key is not None and not _lists()["options"].isdisjoint(re.split("[_-]", key[1]))

    def _is_by_laboratory(self, number: WrittenNumber) -> bool:
        """Whether a laboratory's quantity is named near it, or any if it is all there is."""
        measures = self.page.vocabulary.measures
        text = self.page.plain
        near = [
            measures[root]
            for start, _, root in self.names
            if abs(start - number.start) <= _SENTENCE // 2
            and "\n" not in text[min(start, number.start) : max(start, number.start)]
        ]
        few = len(self.page.plain) <= _TERSE and self._content(number) <= _FEW_CONTENT + 1
        return any(few or not measure.everyday for measure in near)

    def _is_told_beside(self, number: WrittenNumber) -> bool:
        """Whether a private word has it, and the text is the owner's or says little else."""
        assert self.near is not None  # noqa: S101 - asked for before
        if self.owned or self.personal:
            return self.near.tied(number) or self.near.beside(number)
        return self.near.tied(number) and self._content(number) <= _MOST_CONTENT

    def _is_left_over(self, number: WrittenNumber, whose: Whose) -> bool:
        """Whether it is one more in a note of the owner's values: "83.5 kg, 178 cm, 54"."""
        if whose not in ("owner", "unsaid") or not self.owned:
            return False
        text = self.page.plain
        before = text[max(0, number.start - _BARE) : number.start]
        if _LIMIT_AFTER.match(text, number.end) or _LIMIT_BEFORE.search(before):
            return False
        if _ARTICLE.search(before):
            return False  # "a 400k house"
        if self._is_terse(number):
            several = len(self.owned) >= _MOST_NAMED and not _KEYED.search(before)
            several = several and not re.search(r"[.!?]\s", text[max(self.last, 0) : number.start])
            if several or not self._is_anothers(number):
                return True
        measures = self.page.vocabulary.measures
        moneyed = any(measures[root].money for root in self.owned)
        return moneyed and self._is_amount(number)

    def _is_amount(self, number: WrittenNumber) -> bool:
        """Whether a currency or a period stands at it: "I keep 2763 a month"."""
        text = self.page.plain
        at = number.end + (text[number.end : number.end + 1] == " ")
        return (
            currency_before(text, number.start) is not None
            or read_currency(text, at) is not None
            or read_period(text, at) is not None
        )

    def _is_earned(self, number: WrittenNumber) -> bool:
        """Whether somebody gets an amount of four digits: "I only get 7083"."""
        start = max(0, number.start - _SENTENCE // 4)
        return _EARNS.search(self.page.plain, start, number.start) is not None

    def _is_pay(self, number: WrittenNumber) -> bool:
        """Whether a note of a few words has so much for a month or a year: "85 grand a year"."""
        if not any(m.money for m in self.page.vocabulary.measures.values()):
            return False
        said = _PAY.match(self.page.plain, number.end)
        large = (number.value or 0.0) * (_MANY if said is not None and said[1] else 1) >= _MANY
        return large and said is not None and read_period(self.page.plain, said.end()) is not None

    def _is_of_machine(self, number: WrittenNumber) -> bool:
        """Whether what is spoken of is a machine, a program or a model: "my Arduino reads"."""
        clause = self._clause(number)
        start = max(clause.start, number.start - _SENTENCE)
        words = _WORD.findall(self.page.plain, start, number.start)
        return not _lists()["machines"].isdisjoint(words)

    def _in_foreign_money(self, number: WrittenNumber) -> bool:
        """Whether it is right behind the name of an amount, in a currency that nobody converts."""
        text = self.page.plain
        at = number.end + (text[number.end : number.end + 1] == " ")
        if currency_before(text, number.start) is None and read_currency(text, at) is None:
            return False
        measures = self.page.vocabulary.measures
        at = bisect_right(self.names, number.start, key=lambda name: name[0])
        return any(
            measures[root].money and end <= number.start <= end + _BARE
            for _, end, root in self.names[max(0, at - 2) : at]
        )

    def _fitting(self, number: WrittenNumber) -> list[RootMention]:
        """The quantities whose unit stands behind a number, and which may be so large."""
        found = [
            mention
            for measure in self.page.vocabulary.measures.values()
            if (mention := self.values.of(number, measure.root)) is not None
            and (mention.stated or mention.form.factor != 1.0)
            and self._counts_so(number, measure)
            and mention.form.unit != "%"  # says too little
            and (number.alternative is None or mention.form.decimal != "," or self.foreign)
            and measure.holds(mention.number, measure.unit)
        ]
        stated = [mention for mention in found if mention.stated]
        return stated or found  # "220 K/uL" is no amount of money

    def _counts_so(self, number: WrittenNumber, measure: Measure) -> bool:
        """Whether thousands are its: of money always, of platelets where they are named."""
        if measure.money or not _THOUSANDS.match(self.page.plain, number.end):
            return True
        return measure.root in self._named_near(number)

    def _is_telling(self, number: WrittenNumber, mention: RootMention) -> bool:
        """Whether its unit says of what it is: kilos are a weight, unless they are of something."""
        measure = self.page.vocabulary.measures[mention.root]
        if measure.money or measure.concept == "age":
            return self._refers_back(number) or self._is_terse(number)
        rest = _WORD.findall(self.page.plain[number.end : number.end + _SENTENCE // 4])
        return "of" not in rest[:2]

    # -- what later texts need ---------------------------------------------------------------

    def _inside(self, start: int) -> bool:
        return self.page.folded.span(start, start + 1)[1] > self.begin

    def _spoken_of(self) -> tuple[RootName, ...]:
        named = [
            root
            for start, _, root in self.names
            if self._inside(start) and clause_at(self.said, start).subject in ("owner", "unsaid")
        ]
        if not named:
            self.formulas = self.formulas or ComputedNames(self.page)
            for name in self.formulas.names:
                named += self.page.vocabulary.formulas.get(key_of(name), ())
        return (*named, *sorted(self.owned - set(named)))  # "I'm 54" names no age

    def _asked(self, *, of_another: bool) -> tuple[RootName, ...]:
        """The quantities that are asked for, the owner's or somebody else's."""
        found = [
            root
            for start, end, root in (*self.names, *self._everyday())
            if self._inside(start)
            and (clause_at(self.said, start).addressed or self._is_blank(end))
            and self._is_of_another(start) == of_another
        ]
        age = self.page.vocabulary.named("age")
        if age is not None and self.source == "model" and not of_another:
            found += [age.root] if _AGE_ASKED.search(self.page.plain, self.begin) else []
        return tuple(dict.fromkeys(found))

    def _of_others(self) -> tuple[RootName, ...]:
        """The quantities of others that are told: "my father weighs 92 kg", "Her last HbA1c?"."""
        told = self.names if self.source in ("owner", "model") else ()
        return tuple(
            dict.fromkeys(
                root for start, _, root in told if clause_at(self.said, start).subject == "other"
            )
        )

    def _everyday(self) -> Iterator[tuple[int, int, RootName]]:
        """Everyday words that name a quantity in a question: "How much do you have saved?"."""
        for name in self.page.names if self.source == "model" else ():
            if name.everyday and not name.subject:
                yield from ((name.start, name.end, root) for root in name.roots if root)

    def _is_of_another(self, place: int) -> bool:
        """Whether a question is about somebody whom the one asked has: "your father"."""
        clause = clause_at(self.said, place)
        if clause.subject == "other":
            return True
        if self.source != "model":
            return False
        start, end = max(clause.start, place - _SENTENCE), min(clause.end, place + _SENTENCE)
        words = _WORD.findall(self.page.plain, start, end)
        return any(
            first in _lists()["yours"] and second in kin()
            for first, second in itertools.pairwise(words)
        )

    def _asks_of_kin(self) -> bool:
        """Whether the last question is about somebody whom the one asked has: "And your wife?"."""
        question = re.split(r"[.!?\n]", self.page.plain.rstrip(" ?\n"))[-1]
        words = _WORD.findall(question[-_SENTENCE:])
        return self.page.plain.rstrip().endswith("?") and any(
            first in _lists()["yours"] and second in kin()
            for first, second in itertools.pairwise(words)
        )

    def _is_blank(self, end: int) -> bool:
        """Whether a form leaves room behind a label: "Age: ____", "2. AST:"."""
        return _BLANK.match(self.page.plain, end) is not None

    def _dangling(self) -> tuple[RootName, ...]:
        """Names behind the last number, if hardly anything follows them."""
        last = max((number.end for number in self.page.numbers), default=-1)
        trailing = [name for name in self.names if name[0] > last and self._inside(name[0])]
        if not trailing:
            return ()
        rest = _WORD.findall(self.page.plain[trailing[-1][1] :])
        between = _lists()["trailing"]
        if not all(word in between for word in rest):
            return ()
        return tuple(dict.fromkeys(self._run(trailing)))

    def _run(self, trailing: Sequence[tuple[int, int, RootName]]) -> Iterator[RootName]:
        """The names of the list that a text ends with."""
        text = self.page.plain
        kept = [trailing[-1]]
        for name in reversed(trailing[:-1]):
            gap = text[name[1] : kept[-1][0]]
            if len(gap) > _BARE or not all(w in _lists()["joining"] for w in _WORD.findall(gap)):
                break
            kept.append(name)
        return (root for _, _, root in reversed(kept))

    def _header(self) -> str:
        """The last line, if it names two quantities or more in cells and no number."""
        text = self.page.original
        line = text.rstrip().rpartition("\n")[2]
        start = len(text.rstrip()) - len(line)
        if start < self.begin or len(line) > _LONGEST_HEADER:
            return ""
        mark = next((mark for mark in "|\t;," if mark in line), "")
        if not mark:
            return ""
        named = sum(self.page.folded.span(at, to)[0] >= start for at, to, _ in self.names)
        cells = line.strip(" |").split(mark)
        short = all(len(cell.split()) <= _CELL_WORDS for cell in cells)
        return line if named > 1 and short and not any(map(str.isdigit, line)) else ""


def _is_impossible(measure: Measure, number: float) -> bool:
    """Whether a number is far outside the public bounds; a little outside it may be a person's."""
    lower, upper = measure.domain.lower, measure.domain.upper
    return number > _FAR_OUTSIDE * upper or 0 < number < lower / _FAR_OUTSIDE


def _claim(mention: RootMention, standing: Standing, reason: Reason) -> Claim:
    return Claim(
        start=mention.start,
        end=mention.end,
        standing=standing,
        reason=reason,
        root=mention.root,
        mention=mention,
    )


def decide(source: Source, claim: Claim, *, known: bool) -> Decision:
    """What becomes of a claim; `known`: whether its quantity has a released value."""
    if claim.root is None and not claim.computed and claim.standing == "likely":
        return "keep" if source == "developer" else "redact"  # a model's echo of one of several
    return DECISIONS[source][claim.standing][0 if known else 1]


_PATIENCE: Final = 3  # texts of the owner without a number before a question counts as dropped
_TOPICS: Final = 8  # quantities that are spoken of: more than one formula has, fewer than a chart


class Dialogue:
    """One conversation as far as it was read."""

    __slots__ = (
        *("_anothers", "_asked", "_calls", "_dangling", "_header", "_mentioned", "_patience"),
        *("_any_values", "_counted", "_recent", "_topic", "_worked"),
    )

    def __init__(self) -> None:
        self._anothers: tuple[RootName, ...] = ()
        self._worked: set[str] = set()
        self._asked: tuple[RootName, ...] = ()
        self._mentioned: tuple[RootName, ...] = ()
        self._patience: int = 0
        self._dangling: tuple[RootName, ...] = ()
        self._header: str = ""
        self._topic: tuple[RootName, ...] = ()
        self._recent: tuple[RootName, ...] = ()
        self._counted: bool = False
        self._any_values: bool = False
        self._calls: dict[str, tuple[RootName, ...]] = {}

    def expectation(self, source: Source, call: str = "") -> Expectation:
        """What is expected of the next text of a source; `call` is the id of a tool's call."""
        if source in ("tool", "trusted"):
            return Expectation(asked=self._calls.get(call, ()), worked=call in self._worked)
        if source != "owner":
            return Expectation(topic=self._topic, recent=self._recent)
        asked = self._dangling or self._asked
        if self._counted and not asked:
            return Expectation(header=self._header, elsewhere=True)
        return Expectation(
            asked=asked,
            mentioned=self._mentioned,
            topic=self._topic,
            header=self._header,
            any_values=self._any_values,
        )

    def arguments(self, roots: Sequence[RootName]) -> Expectation:
        """What is expected of a call's arguments; `roots` are those of a calculation, in order."""
        return Expectation(asked=tuple(roots), worked=bool(self._topic) and not roots)

    def called(self, call: str, roots: Sequence[RootName], *, worked: bool = False) -> None:
        """A tool was called whose name or arguments name these quantities.

        `worked`: the arguments hold the owner's numbers, so the result is made of them.
        """
        self._calls[call] = tuple(dict.fromkeys(roots))
        if worked:
            self._worked.add(call)

    def heard(self, source: Source, heard: Heard) -> None:
        """Take up what a text said."""
        if source == "owner":
            self._hear_owner(heard)
        elif source == "developer":
            # "The user will paste rows: age,ast,alt,plt": only rows of bare numbers are about them.
            self._header = heard.header or self._header
            if len(heard.dangling) > 1:
                self._mentioned = heard.dangling
        elif source == "model":
            self._mentioned = heard.named
            self._any_values = heard.any_values and not heard.elsewhere
            self._counted = heard.elsewhere and not heard.named
            asked = heard.asked
            if heard.elsewhere and not asked:
                self._asked = ()
            elif not asked and heard.asks and not heard.anothers and not heard.named:
                # "My father weighs 92 kg.", "And you?"; "What does the report show for it?"
                asked = self._anothers or (self._topic if len(self._topic) == 1 else ())
            self._anothers = heard.anothers
            if asked:
                self._asked, self._patience = asked, _PATIENCE
                self._dangling, self._header = (), ""

    def _hear_owner(self, heard: Heard) -> None:
        if heard.numbers:
            left = [root for root in self._asked if root not in heard.answered]
            # One question may be answered by and by: "54", then "and 23".
            self._asked = tuple(left) if heard.answered and len(left) < len(self._asked) else ()
            self._dangling, self._header = (), ""
        elif self._asked:
            self._patience -= 1
            if self._patience <= 0:
                self._asked = ()
        if heard.header:
            self._header = heard.header
        elif heard.dangling:
            self._dangling = heard.dangling
        if heard.anothers:
            self._anothers = heard.anothers
        if heard.spoken_of or heard.answered:
            self._recent = tuple(dict.fromkeys((*heard.answered, *heard.spoken_of)))
            spoken = (*self._topic, *heard.answered, *heard.spoken_of)
            self._topic = tuple(dict.fromkeys(reversed(spoken)))[:_TOPICS][::-1]
