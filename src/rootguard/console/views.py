"""The audit log as the page shows it: one flat object for each entry, refusals in sentences.

Values are those that were released. A refusal says why in fixed words; an identifier that was never
issued is shown by its kind and never by its text.
"""

import math
import re
from collections.abc import Mapping
from typing import Final, assert_never

from rootguard.events import (
    Event,
    LevelDerived,
    ProfileErased,
    RequestRefused,
    RootNoised,
    RootRefined,
    TokenRefused,
    ValueReleased,
    cost,
)
from rootguard.store import LogEntry
from rootguard.values import MICRO

REASONS: Final[Mapping[str, str]] = {
    "AccessError": "the policy does not allow this service to ask that",
    "BudgetError": "the privacy budget does not allow it",
    "FormulaLimitError": "the formula is larger than allowed",
    "FormulaNameError": "the formula names a value or a function that does not exist",
    "FormulaSyntaxError": "the text is not a formula",
    "FormulaUndefinedError": "the formula has no value here",
    "IdentifierError": "an identifier could not be protected, so nothing was sent",
    "NameTakenError": "the name already stands for something",
    "PrivateValueError": "there is no value for a root that it rests on",
    "RequestRefusedError": "the request could not be inspected, so it was not sent",
    "StoreUnavailableError": "the vault was not available",
    "TextBlockedError": "a text held a number that looks private and is not declared; it was held "
    "back",
    "UnknownNameError": "nothing of this name is declared",
}
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def entry_json(entry: LogEntry, units: Mapping[str, str]) -> dict[str, object]:
    """One entry for the page. `units` are those of the named values."""
    event = entry.event
    body: dict[str, object] = {
        "id": entry.sequence,
        "at": entry.micros / 1e6,
        "kind": "",
        "service": entry.service,
        "tier": "",
        "name": "",
        "formula": "",
        "value": None,
        "unit": "",
        "rests_on": [],
        "cost": cost(event) / MICRO,
        "reason": "",
        "route": entry.route,
    }
    return body | _details(event, units)


def _details(event: Event, units: Mapping[str, str]) -> dict[str, object]:
    match event:
        case ValueReleased():
            finite = not isinstance(event.value, float) or math.isfinite(event.value)
            known = event.name in units or not event.formula
            return {
                "kind": "released",
                "tier": event.tier,
                "name": event.name if known else "",  # else a number that the session gave it
                "formula": event.formula,
                "value": event.value if finite and event.value != "" else None,
                "unit": units.get(event.name, ""),
                "rests_on": list(event.rests_on),
            }
        case RequestRefused(reason=reason):
            words = REASONS.get(reason, _HUMP.sub(" ", reason.removesuffix("Error")).lower())
            return {"kind": "refused", "reason": words}
        case TokenRefused(identifier=kind, times=times):
            what = "an identifier that was" if times == 1 else f"{times} identifiers that were"
            reason = f"a reply held {what} never issued to you; nothing was put in its place"
            return {"kind": "forged", "name": kind, "reason": reason}
        case RootNoised(root=root):
            return {"kind": "noised", "name": root, "rests_on": [root]}
        case RootRefined(root=root):
            return {"kind": "refined", "name": root, "rests_on": [root]}
        case LevelDerived(root=root):
            return {"kind": "derived-level", "name": root, "rests_on": [root]}
        case ProfileErased():
            return {"kind": "erased"}
        case _:
            assert_never(event)
