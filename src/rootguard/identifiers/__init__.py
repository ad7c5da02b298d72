"""Category I: identifiers that are replaced by look-alike tokens and restored in replies.

Names, record numbers, phone numbers, dates and e-mail addresses are not noised, because a noised
record number is no use to anyone; they are encrypted in their own format. Start with `tokens`,
which has the key and the registry of a whole person, and `conversation`, which issues and restores
within one conversation. `ff1` is the cryptography, `formats` and `names` the ways of writing,
`registry` the record of what was issued. Replies are searched by `forms` and `replies` for a
conversation, by `finding` and `streaming` for a whole registry. This hides who is meant, not that
someone is.
"""

from rootguard.identifiers.conversation import Conversations, ConversationTokens
from rootguard.identifiers.formats import Kind
from rootguard.identifiers.registry import IssuedToken, IssuedTokens, MemoryTokens
from rootguard.identifiers.tokens import Identifiers, kind_of, new_key

__all__ = [
    "ConversationTokens",
    "Conversations",
    "Identifiers",
    "IssuedToken",
    "IssuedTokens",
    "Kind",
    "MemoryTokens",
    "kind_of",
    "new_key",
]
