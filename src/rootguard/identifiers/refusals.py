"""Why an identifier is refused, in sentences that hold nothing of it."""

import enum

from rootguard.errors import IdentifierError
from rootguard.identifiers.ff1 import MIN_DOMAIN
from rootguard.identifiers.formats import KINDS, MAX_LENGTH, Kind


class IdentifierRefusal(enum.Enum):
    """Why an identifier is refused. Fixed sentences: nothing of the identifier is in them."""

    KIND = "there is no such kind of identifier; there is code, phone, date, email and person"
    FORM = "the text is not written as an identifier of this kind"
    LENGTH = f"an identifier has between 1 and {MAX_LENGTH} characters"
    SMALL = f"fewer than {MIN_DOMAIN} identifiers are written like this one; it would not hide"
    FULL = "no free token is left for this identifier"
    UNISSUED = "this token was not issued here; only issued tokens are restored"


def refused(kind: Kind, refusal: IdentifierRefusal) -> IdentifierError:
    """The error. An unknown kind may be an identifier in the wrong place, so it is not named."""
    named = f"{kind}: " if kind in KINDS else ""
    return IdentifierError(f"{named}{refusal.value}")


def check_size(kind: Kind, text: object) -> None:
    """Refuse what is no text, or empty, or too long."""
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_LENGTH:
        raise refused(kind, IdentifierRefusal.LENGTH if kind in KINDS else IdentifierRefusal.KIND)
