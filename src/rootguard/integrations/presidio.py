"""Presidio: RootGuard's detector and roots as recognisers, and released values as an operator.

    registry.add_recognizer(IdentifierRecognizer())
    registry.add_recognizer(RootRecognizer([load_template("fib4")]))
    anonymizer.add_anonymizer(RootRelease)
    operators = {entity: OperatorConfig("rootguard", {"session": session}) for entity in …}

A number that belongs to a root becomes the released value, which is the same in every text: numbers
with metric differential privacy where Presidio would write a placeholder. The operator is given a
number without its unit, so one in another unit than the root's own is a `PRIVATE_NUMBER`, for which
no value is released. Whose number it is, Presidio does not ask: every one that a root's name stands
by is taken for the person's.
"""

from collections.abc import Sequence
from typing import Any, Final

from presidio_analyzer import EntityRecognizer, RecognizerResult
from presidio_anonymizer.operators import Operator, OperatorType

from rootguard.channels.detection import Rules
from rootguard.errors import UnknownNameError
from rootguard.reading.mentions import find_mentions
from rootguard.template import Root, Template
from rootguard.values import RootName

PRIVATE_NUMBER: Final = "PRIVATE_NUMBER"
_PREFIX: Final = "ROOT_"
_KINDS: Final = {
    "address": "LOCATION",
    "code": "ID",
    "date": "DATE_TIME",
    "email": "EMAIL_ADDRESS",
    "ip": "IP_ADDRESS",
    "person": "PERSON",
    "phone": "PHONE_NUMBER",
    "postcode": "LOCATION",
}
_SURE: Final = 0.85
"""As Presidio scores its own names; the rules give no score."""


def entity_of(root: str) -> str:
    """What Presidio calls a root's number."""
    return f"{_PREFIX}{root.upper()}"


class IdentifierRecognizer(EntityRecognizer):  # type: ignore[misc]
    """Identifiers by RootGuard's rules: names, addresses, phones, codes."""

    def __init__(self, *, language: str = "en") -> None:
        self._rules = Rules()
        super().__init__(sorted(set(_KINDS.values())), supported_language=language)

    def load(self) -> None:
        """Nothing to load."""

    def analyze(self, text: str, entities: Sequence[str], nlp_artifacts: Any = None) -> list[Any]:  # noqa: ARG002
        found = [(_KINDS.get(each.kind), each) for each in self._rules.find(text)]
        return [
            RecognizerResult(entity, each.start, each.end, _SURE)
            for entity, each in found
            if entity is not None and entity in entities
        ]


class RootRecognizer(EntityRecognizer):  # type: ignore[misc]
    """Numbers that belong to the roots of templates, by the names that stand by them."""

    def __init__(self, templates: Sequence[Template], *, language: str = "en") -> None:
        self._roots: dict[RootName, Root] = {}
        for template in templates:
            self._roots = {**template.roots, **self._roots}
        names = [*map(entity_of, self._roots), PRIVATE_NUMBER]
        super().__init__(names, supported_language=language)

    def load(self) -> None:
        """Nothing to load."""

    def analyze(self, text: str, entities: Sequence[str], nlp_artifacts: Any = None) -> list[Any]:  # noqa: ARG002
        made = []
        for mention in find_mentions(text, self._roots):
            form = mention.form
            plain = form.unit == form.own and form.factor == 1 and not form.minor
            entity = entity_of(mention.root) if plain else PRIVATE_NUMBER
            if entity in entities:
                made.append(RecognizerResult(entity, mention.start, mention.end, 1.0))
        return made


class RootRelease(Operator):  # type: ignore[misc]
    """Writes the released value of a root; `session` is a `Session` or a `Person`."""

    def operate(self, text: str, params: dict[str, Any] | None = None) -> str:  # noqa: ARG002
        """The released value, with the root's decimals. The number that stood there is not used."""
        given = params or {}
        entity = str(given.get("entity_type", ""))
        session = given["session"]
        for template in session.templates:
            for name, root in template.roots.items():
                if entity_of(name) == entity:
                    return f"{float(session.release(name)):.{root.places}f}"
        raise UnknownNameError("root", entity.removeprefix(_PREFIX).lower(), ())

    def validate(self, params: dict[str, Any] | None = None) -> None:
        """A session must be given."""
        if not hasattr((params or {}).get("session"), "release"):
            raise TypeError(
                'give the operator a session: OperatorConfig("rootguard", {"session": …})'
            )

    def operator_name(self) -> str:
        return "rootguard"

    def operator_type(self) -> Any:
        return OperatorType.Anonymize
