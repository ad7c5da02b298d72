"""What a refusal looks like from outside: a code, an HTTP status and a text, all fixed.

Every channel answers an error with the fault that this file gives for the error's class, and with
nothing of the error itself: a message may quote a name or a formula that somebody sent. The table
covers the whole tree of `rootguard.errors`; what is not in the tree is an `internal` fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rootguard import errors
from rootguard.errors import RootGuardError

Code = Literal[
    "access_denied",
    "bad_json",
    "bad_text",
    "bad_value",
    "batches_refused",
    "budget_refused",
    "busy",
    "endpoint_refused",
    "files_refused",
    "formula_refused",
    "headers_too_large",
    "host_refused",
    "identifier_refused",
    "internal",
    "media_refused",
    "not_found",
    "private_id",
    "private_value_refused",
    "rate_limited",
    "read_timeout",
    "store_refused",
    "store_unavailable",
    "text_blocked",
    "token_ids_refused",
    "too_deep",
    "too_large",
    "unauthorized",
    "unknown_field",
    "unknown_kind",
    "unknown_name",
    "unreadable_reply",
    "unsupported_body",
    "upstream_forbidden",
    "upstream_timeout",
    "upstream_unauthorized",
    "upstream_unreachable",
    "wrong_configuration",
    "wrong_type",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A refusal as the other side sees it."""

    code: Code
    status: int
    text: str


_TEXTS: Final[Mapping[int, Mapping[Code, str]]] = {
    400: {
        "bad_json": "the body is not a JSON object; nothing was sent",
        "bad_text": "a text is not valid Unicode; nothing was sent",
        "bad_value": "a parameter has a value that is not allowed; nothing was sent",
        "formula_refused": "the formula cannot be used",
        "media_refused": (
            "images, audio and files cannot be inspected and are refused; nothing was sent"
        ),
        "token_ids_refused": (
            "token ids cannot be read here; send the text itself; nothing was sent"
        ),
        "private_id": "an id or a name holds a private value; nothing was sent",
        "too_deep": "the body is nested too deeply; nothing was sent",
        "unknown_field": "there is a field that is not known here; nothing was sent",
        "unknown_kind": (
            "there is a kind of content or tool that is not known here; nothing was sent"
        ),
        "wrong_type": "a field has the wrong type; nothing was sent",
    },
    401: {
        "unauthorized": "the API key is missing or not known",
        "upstream_unauthorized": (
            "the server answered 401: it wants credentials, or does not accept these; give a "
            "header or sign in (docs/mcp.md)"
        ),
    },
    403: {
        "upstream_forbidden": (
            "the server answered 403: these credentials do not allow this; sign in with more"
        ),
        "access_denied": "the policy does not allow this",
        "budget_refused": "the privacy budget does not allow this; nothing was sent",
    },
    404: {
        "batches_refused": (
            "batches are not passed on, because they run on uploaded files that cannot be "
            "inspected; send their requests one by one; nothing was sent"
        ),
        "endpoint_refused": (
            "this endpoint is not served, because what it takes or keeps cannot be inspected; use "
            "chat completions, responses, messages, completions or embeddings; nothing was sent"
        ),
        "files_refused": (
            "files are not passed on, because they cannot be inspected; put their text into a "
            "message; nothing was sent"
        ),
        "not_found": "there is nothing here",
        "unknown_name": "nothing of this name is declared",
    },
    408: {"read_timeout": "the request did not arrive in time"},
    413: {"too_large": "the body is too large; nothing was sent"},
    415: {"unsupported_body": "send a plain application/json body; nothing was sent"},
    421: {"host_refused": "this host name is not served here"},
    422: {
        "identifier_refused": "an identifier cannot be protected; nothing was sent",
        "private_value_refused": "a private value cannot be used; nothing was sent",
        "text_blocked": (
            "a text holds a number that looks private and is not declared; nothing was sent"
        ),
    },
    429: {"rate_limited": "too many requests in this minute; try again later"},
    431: {"headers_too_large": "there are too many or too large headers"},
    500: {
        "internal": "something went wrong inside RootGuard",
        "store_refused": "the vault could not be used; nothing was sent",
        "wrong_configuration": "a file of this service is wrong; tell its owner",
    },
    502: {
        "unreadable_reply": "the upstream's reply cannot be read",
        "upstream_unreachable": "the upstream cannot be reached",
    },
    503: {
        "busy": "too many requests are under way; try again",
        "store_unavailable": "the vault is not available just now; nothing was sent",
    },
    504: {"upstream_timeout": "the upstream did not answer in time"},
}
"""By HTTP status."""

FAULTS: Final[dict[Code, Fault]] = {
    code: Fault(code=code, status=status, text=text)
    for status, texts in _TEXTS.items()
    for code, text in texts.items()
}


class RequestRefusedError(RootGuardError):
    """A channel refuses a request, for the reason that its code names."""

    def __init__(self, code: Code) -> None:
        super().__init__(FAULTS[code].text)
        self.fault = FAULTS[code]


_BY_CLASS: Final[Mapping[type[RootGuardError], Code]] = {
    errors.FormulaError: "formula_refused",
    errors.FileError: "wrong_configuration",
    errors.AccessError: "access_denied",
    errors.CycleError: "wrong_configuration",
    errors.NameTakenError: "bad_value",
    errors.NameLimitError: "bad_value",
    errors.ConflictError: "bad_value",
    errors.DomainError: "wrong_configuration",
    errors.BudgetError: "budget_refused",
    errors.PlanError: "wrong_configuration",
    errors.UnknownNameError: "unknown_name",
    errors.PrivateValueError: "private_value_refused",
    errors.NoiseError: "store_refused",
    errors.IdentifierError: "identifier_refused",
    errors.EventError: "store_refused",
    errors.RedrawnError: "store_refused",
    errors.StoreError: "store_refused",
    errors.StoreUnavailableError: "store_unavailable",
    errors.TextBlockedError: "text_blocked",
}


def rule_of(error: BaseException) -> str:
    """By which rule an error refuses, for the owner's log: a text's own rule, or a code."""
    if isinstance(error, errors.TextBlockedError):
        return error.rule
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else fault_of(error).code


def fault_of(error: BaseException) -> Fault:
    """The fault of an error's class, or of the nearest class above it that has one."""
    if isinstance(error, RequestRefusedError):
        return error.fault
    for above in type(error).__mro__:
        if above in _BY_CLASS:
            return FAULTS[_BY_CLASS[above]]
    return FAULTS["internal"]
