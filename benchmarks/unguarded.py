"""The gateway with sanitizing off: the control that shows what guarding costs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rootguard.channels.gateway.channel import PersonChannel, Restorer
from rootguard.channels.text.edits import JsonSanitization, Sanitization
from rootguard.events import ChangedPlace
from rootguard.reading.claims import NOTHING, Expectation, Source
from rootguard.session.profile import OnDoubt, UnknownFields
from rootguard.values import RootName


class _Through:
    def feed(self, chunk: str) -> str:
        return chunk

    def close(self) -> str:
        return ""


class Unguarded(PersonChannel):
    """A channel of nobody that changes nothing."""

    def __init__(self) -> None:
        """Without a person there is nothing to set up."""

    def sanitize(
        self,
        text: str,
        *,
        source: Source,  # noqa: ARG002
        expectation: Expectation = NOTHING,  # noqa: ARG002
    ) -> Sanitization:
        return Sanitization(text=text, replaced={})

    def sanitize_json(
        self,
        value: object,
        *,
        source: Source,  # noqa: ARG002
        expectation: Expectation = NOTHING,  # noqa: ARG002
    ) -> JsonSanitization:
        return JsonSanitization(value=value, replaced={})

    def conversation(
        self,
        earlier: str | None,  # noqa: ARG002
        texts: Sequence[str],  # noqa: ARG002
    ) -> PersonChannel:
        return self

    def keep_conversation(self, reply: str) -> None:
        """Nothing is kept."""

    def named_in(self, tool: str, arguments: str) -> tuple[RootName, ...]:  # noqa: ARG002
        return ()

    def roots_of(self, formula: str) -> tuple[RootName, ...]:  # noqa: ARG002
        return ()

    @property
    def unknown_fields(self) -> UnknownFields:
        return "refuse"

    def on_doubt(self, choice: OnDoubt) -> PersonChannel:  # noqa: ARG002
        return self

    def trusts(self, tool: str) -> bool:  # noqa: ARG002
        return False

    def is_private(self, label: str) -> bool:  # noqa: ARG002
        return False

    def restore(self, text: str) -> str:
        return text

    def restorer(self) -> Restorer:
        return _Through()

    def unissued(self, text: str) -> Mapping[str, int]:  # noqa: ARG002
        return {}

    @contextmanager
    def recording_refusals(self) -> Iterator[None]:
        yield

    def note_changes(self, places: Sequence[ChangedPlace]) -> None:
        """There is no owner's log."""

    def note_refusal(self, problem: Exception, *, source: str = "", path: str = "") -> None:
        """There is no owner's log."""
