"""Category I: identifiers that are replaced by look-alike tokens and restored in replies.

Names, record numbers, phone numbers, dates and e-mail addresses are not noised, because a noised
record number is no use to anyone; they are encrypted in their own format. Start with `tokens`;
`ff1` is the cryptography, `formats` and `names` the ways of writing, `registry` the record of what
was issued, `finding` the search in replies. This hides who is meant, not that someone is.
"""

from rootguard.identifiers.formats import Kind
from rootguard.identifiers.registry import IssuedToken, IssuedTokens, MemoryTokens
from rootguard.identifiers.tokens import Identifiers, kind_of, new_key

__all__ = [
    "Identifiers",
    "IssuedToken",
    "IssuedTokens",
    "Kind",
    "MemoryTokens",
    "kind_of",
    "new_key",
]
