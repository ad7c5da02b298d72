"""Identifiers found by Microsoft Presidio's analyzer; an optional extra.

Only what Presidio knows as an identifier by itself is asked for: persons by its spaCy pipeline,
phones, and numbers with a checksum or a form. Its dates and places are not, as they include years,
durations and countries, and neither are e-mail addresses, which the rules find: its check of them
would look up a list of domains in the network.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from rootguard.channels.detection.rules import Found, FoundKind, merge
from rootguard.channels.detection.spacy import names_in, pieces
from rootguard.errors import UnknownNameError

_KINDS: Final[Mapping[str, FoundKind]] = {
    "PERSON": "person",
    "PHONE_NUMBER": "phone",
    "IP_ADDRESS": "ip",
    **dict.fromkeys(
        (
            *("CREDIT_CARD", "IBAN_CODE", "CRYPTO", "MEDICAL_LICENSE", "US_SSN", "US_ITIN"),
            *("US_PASSPORT", "US_DRIVER_LICENSE", "US_BANK_NUMBER", "UK_NHS", "ES_NIF"),
            *("IT_FISCAL_CODE", "PL_PESEL", "SG_NRIC_FIN", "AU_TFN", "AU_MEDICARE"),
            *("IN_PAN", "IN_AADHAAR"),
        ),
        "code",
    ),
}  # fmt: skip
_SURE: Final = 0.4
"""Presidio's own score of a form without a checksum and without a word beside it is lower."""


class _Result(Protocol):
    """What is used of Presidio's result."""

    entity_type: str
    start: int
    end: int


class _Analyzer(Protocol):
    """What is used of Presidio's engine."""

    def get_supported_entities(self, language: str) -> list[str]: ...

    def analyze(
        self, text: str, language: str, entities: list[str], score_threshold: float
    ) -> Iterable[_Result]: ...


class PresidioEntities:
    """Finds identifiers with Presidio, its names by a spaCy pipeline: a package or a folder."""

    def __init__(self, pipeline: str, *, language: str = "en") -> None:
        self._engine = _engine(pipeline, language)
        self._language = language
        known = self._engine.get_supported_entities(language)
        self._entities = sorted(_KINDS.keys() & set(known))

    def find(self, text: str) -> list[Found]:
        """The identifiers in the text, in order and without overlaps."""
        return merge(self._found(text))

    def _found(self, text: str) -> Iterator[Found]:
        for offset, piece in pieces(text):
            for result in self._engine.analyze(
                text=piece,
                language=self._language,
                entities=self._entities,
                score_threshold=_SURE,
            ):
                kind = _KINDS[result.entity_type]
                start, end = offset + result.start, offset + result.end
                if kind == "person":
                    yield from names_in(text[start:end], start)
                else:
                    yield Found(start, end, kind)


def _engine(pipeline: str, language: str) -> _Analyzer:
    try:
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import SpacyNlpEngine
        from spacy import load
    except ImportError:
        wanted = "installed package (pip install 'rootguard[presidio]')"
        raise UnknownNameError(wanted, "presidio-analyzer") from None
    try:
        loaded = load(pipeline)
    except OSError:
        raise UnknownNameError("spaCy pipeline", pipeline) from None
    # Given a pipeline that is loaded, Presidio downloads none.
    engine = SpacyNlpEngine(models=[{"lang_code": language, "model_name": pipeline}])
    engine.nlp = {language: loaded}
    analyzer: _Analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=[language])
    return analyzer
