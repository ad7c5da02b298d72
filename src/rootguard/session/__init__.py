"""Sessions: opened once with raw values, then answering from the noised values in the store."""

from rootguard.session.asynchronous import AsyncSession
from rootguard.session.guard import Guard, promise
from rootguard.session.person import Person, Replacement
from rootguard.session.policy import Access, Policy, load_policy, parse_policy
from rootguard.session.profile import Profile, load_profile, parse_profile
from rootguard.session.session import Session

__all__ = [
    "Access",
    "AsyncSession",
    "Guard",
    "Person",
    "Policy",
    "Profile",
    "Replacement",
    "Session",
    "load_policy",
    "load_profile",
    "parse_policy",
    "parse_profile",
    "promise",
]
