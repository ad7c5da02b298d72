"""What a refusal looks like from outside: a code, an HTTP status and a text, all fixed.

Every channel answers an error with the fault that this file gives for the error's class, and with
nothing of the error itself: a message may quote a name or a formula that somebody sent. The table
covers the whole tree of `rootguard.errors`; what is not in the tree is an `internal` fault.
"""

from dataclasses import dataclass
from typing import Final, Literal

from rootguard import errors
from rootguard.errors import RootGuardError

Code = Literal[
    "access_denied",
    "bad_json",
    "bad_text",
    "bad_value",
    "budget_refused",
    "busy",
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
    "too_deep",
    "too_large",
    "unauthorized",
    "unknown_field",
    "unknown_kind",
    "unknown_name",
    "unreadable_reply",
    "unsupported_body",
    "upstream_timeout",
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


def _fault(code: Code, status: int, text: str) -> tuple[Code, Fault]:
    return code, Fault(code=code, status=status, text=text)


FAULTS: Final[dict[Code, Fault]] = dict(
    (
        _fault("access_denied", 403, "the policy does not allow this"),
        _fault("bad_json", 400, "the body is not a JSON object; nothing was sent"),
        _fault("bad_text", 400, "a text is not valid Unicode; nothing was sent"),
        _fault("bad_value", 400, "a parameter has a value that is not allowed; nothing was sent"),
        _fault("budget_refused", 403, "the privacy budget does not allow this; nothing was sent"),
        _fault("busy", 503, "too many requests are under way; try again"),
        _fault("formula_refused", 400, "the formula cannot be used"),
        _fault("headers_too_large", 431, "there are too many or too large headers"),
        _fault("host_refused", 421, "this host name is not served here"),
        _fault("identifier_refused", 422, "an identifier cannot be protected; nothing was sent"),
        _fault("internal", 500, "something went wrong inside RootGuard"),
        _fault(
            "media_refused",
            400,
            "images, audio and files cannot be inspected and are refused; nothing was sent",
        ),
        _fault("not_found", 404, "there is nothing here"),
        _fault("private_id", 400, "an id or a name holds a private value; nothing was sent"),
        _fault("private_value_refused", 422, "a private value cannot be used; nothing was sent"),
        _fault("rate_limited", 429, "too many requests in this minute; try again later"),
        _fault("read_timeout", 408, "the request did not arrive in time"),
        _fault("store_refused", 500, "the vault could not be used; nothing was sent"),
        _fault("store_unavailable", 503, "the vault is not available just now; nothing was sent"),
        _fault(
            "text_blocked",
            422,
            "a text holds a number that looks private and is not declared; nothing was sent",
        ),
        _fault("too_deep", 400, "the body is nested too deeply; nothing was sent"),
        _fault("too_large", 413, "the body is too large; nothing was sent"),
        _fault("unauthorized", 401, "the API key is missing or not known"),
        _fault("unknown_field", 400, "there is a field that is not known here; nothing was sent"),
        _fault(
            "unknown_kind",
            400,
            "there is a kind of content or tool that is not known here; nothing was sent",
        ),
        _fault("unknown_name", 404, "nothing of this name is declared"),
        _fault("unreadable_reply", 502, "the upstream's reply cannot be read"),
        _fault("unsupported_body", 415, "send a plain application/json body; nothing was sent"),
        _fault("upstream_timeout", 504, "the upstream did not answer in time"),
        _fault("upstream_unreachable", 502, "the upstream cannot be reached"),
        _fault("wrong_configuration", 500, "a file of this service is wrong; tell its owner"),
        _fault("wrong_type", 400, "a field has the wrong type; nothing was sent"),
    )
)


class RequestRefusedError(RootGuardError):
    """A channel refuses a request, for the reason that its code names."""

    def __init__(self, code: Code) -> None:
        super().__init__(FAULTS[code].text)
        self.fault = FAULTS[code]


_BY_CLASS: Final[dict[str, Code]] = {
    "FormulaError": "formula_refused",
    "FileError": "wrong_configuration",
    "AccessError": "access_denied",
    "CycleError": "wrong_configuration",
    "NameTakenError": "bad_value",
    "DomainError": "wrong_configuration",
    "BudgetError": "budget_refused",
    "PlanError": "wrong_configuration",
    "UnknownNameError": "unknown_name",
    "PrivateValueError": "private_value_refused",
    "NoiseError": "store_refused",
    "IdentifierError": "identifier_refused",
    "EventError": "store_refused",
    "RedrawnError": "store_refused",
    "StoreError": "store_refused",
    "StoreUnavailableError": "store_unavailable",
    "TextBlockedError": "text_blocked",
}


def fault_of(error: BaseException) -> Fault:
    """The fault of an error's class, or of the nearest class above it that has one."""
    if isinstance(error, RequestRefusedError):
        return error.fault
    for above in type(error).__mro__:
        if above.__module__ == errors.__name__ and above.__name__ in _BY_CLASS:
            return FAULTS[_BY_CLASS[above.__name__]]
    return FAULTS["internal"]
