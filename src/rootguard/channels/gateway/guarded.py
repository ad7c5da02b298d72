"""A person's text channel as the gateway uses it: texts, documents, ids and replies."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from rootguard.channels.detection import Detector, merge
from rootguard.channels.replies import Restorer
from rootguard.channels.text.channel import NumberPolicy, TextChannel
from rootguard.session.person import Person

_LABELS: Final = 4096


class Guarded:
    """A person's text channel."""

    __slots__ = ("_detectors", "_person", "_public", "_text")

    def __init__(
        self,
        person: Person,
        *,
        detectors: Sequence[Detector] = (),
        near_private: NumberPolicy = "block",
        elsewhere: NumberPolicy = "pass",
    ) -> None:
        self._person = person
        self._detectors = tuple(detectors)
        self._public: set[str] = set()
        self._text = TextChannel(
            person, detectors=detectors, near_private=near_private, elsewhere=elsewhere
        )

    def sanitize(self, text: str) -> tuple[str, Mapping[str, int]]:
        """The text as it may leave, and how often what was replaced."""
        made = self._text.sanitize(text)
        return made.text, made.replaced

    def sanitize_json(self, value: object) -> tuple[object, Mapping[str, int]]:
        """The JSON value as it may leave, and how often what was replaced."""
        made = self._text.sanitize_json(value)
        return made.value, made.replaced

    def private(self, label: str) -> bool:
        """Whether a declared identifier stands in an id."""
        if label in self._public:
            return False
        found = bool(self._person.declared(label))
        if not found and len(self._public) < _LABELS:
            self._public.add(label)
        return found

    def restore(self, text: str) -> str:
        """Issued tokens put back; everything else stays."""
        return self._text.restore(text)

    def restorer(self) -> Restorer:
        """The same, in pieces."""
        return self._text.restorer()

    def strangers(self, text: str) -> Mapping[str, int]:
        """Identifiers in a reply that were never issued to this person, by kind."""
        issued = self._person.issued(text)
        found = merge(each for detector in self._detectors for each in detector.find(text))
        strange: Counter[str] = Counter(
            each.kind
            for each in found
            if not any(start < each.end and each.start < end for start, end in issued)
        )
        self._person.refuse_tokens(strange)
        return strange

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """While a request is inspected: an error that ends it is written down for the owner."""
        try:
            yield
        except Exception as problem:
            self._person.note_refusal(problem)
            raise
