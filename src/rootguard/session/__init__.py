"""Guarded sessions: opened once with raw values, then answering from what was kept."""

from rootguard.session.answers import Session
from rootguard.session.opening import Guard, promise
from rootguard.session.policy import Access, Policy, load_policy, parse_policy

__all__ = ["Access", "Guard", "Policy", "Session", "load_policy", "parse_policy", "promise"]
